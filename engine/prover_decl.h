/*
 * prover_decl.h: a kernel of the family prover as it was declared: what its text depends on, the
 * text of its signature, and the shape of its launches.
 */
#ifndef STG_ENGINE_PROVER_DECL_H
#define STG_ENGINE_PROVER_DECL_H

#include "codegen/prover_text.h"
#include "engine/family.h"

struct stg_prover_decl {
  struct stg_decl base;
  struct stg_prover_kernel kernel;
};

/** Check and declare. STG_E_INVALID or STG_E_UNSUPPORTED names the member and the value. */
STG_NODISCARD stg_status stg_prover_decl_init(const struct stg_prover_kernel *kernel,
                                              struct stg_prover_decl *ret_decl, stg_error *reterr);
/** Append its signature; `arch` may be NULL, and is left out then. */
void stg_prover_decl_print(const struct stg_prover_decl *decl, const char *arch,
                           struct stg_strbuf *out);
/** Read what that wrote without an architecture, but for checks: STG_E_FORMAT. */
STG_NODISCARD stg_status stg_prover_kernel_read(struct stg_signature_reader *reader,
                                                struct stg_prover_kernel *ret_kernel);
/** The shape of launches with room for so many queries: all of a prover's, however large a pool
 * is. */
STG_NODISCARD stg_status stg_prover_shape(int64_t capacity, struct stg_graph_shape *ret_shape,
                                          stg_error *reterr);

#endif
