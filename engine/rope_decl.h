/*
 * rope_decl.h: a kernel of the rope family as it was declared: what its text depends on, and the
 * text of its signature.
 */
#ifndef STG_ENGINE_ROPE_DECL_H
#define STG_ENGINE_ROPE_DECL_H

#include "codegen/rope_text.h"
#include "engine/family.h"

struct stg_rope_decl {
  struct stg_decl base;
  struct stg_rope_kernel kernel;
};

/** Check and declare. STG_E_INVALID names the member and the value. */
STG_NODISCARD stg_status stg_rope_decl_init(const struct stg_rope_kernel *kernel,
                                            struct stg_rope_decl *ret_decl, stg_error *reterr);
/** Append its signature; `arch` may be NULL, and is left out then. */
void stg_rope_decl_print(const struct stg_rope_decl *decl, const char *arch,
                         struct stg_strbuf *out);
/** Read what that wrote without an architecture, but for checks: STG_E_FORMAT. */
STG_NODISCARD stg_status stg_rope_kernel_read(struct stg_signature_reader *reader,
                                              struct stg_rope_kernel *ret_kernel);

#endif
