/*
 * decode_decl.h: a decode kernel as it was declared: what its text depends on, and the text of its
 * signature.
 */
#ifndef STG_ENGINE_DECODE_DECL_H
#define STG_ENGINE_DECODE_DECL_H

#include "codegen/decode_kernel.h"
#include "engine/family.h"

struct stg_decode_decl {
  struct stg_decl base;
  struct stg_decode_geometry geometry;
};

/** Check and declare. STG_E_INVALID names the member and the value. */
STG_NODISCARD stg_status stg_decode_decl_init(const struct stg_decode_geometry *geometry,
                                              struct stg_decode_decl *ret_decl, stg_error *reterr);
/** Append its signature; `arch` may be NULL, and is left out then. */
void stg_decode_decl_print(const struct stg_decode_decl *decl, const char *arch,
                           struct stg_strbuf *out);
/** Read what that wrote without an architecture, but for checks: STG_E_FORMAT. */
STG_NODISCARD stg_status stg_decode_geometry_read(struct stg_signature_reader *reader,
                                                  struct stg_decode_geometry *ret_geometry);

#endif
