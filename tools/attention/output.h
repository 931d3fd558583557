/*
 * attention/output.h: the results of a step as one number and as a file.
 */
#ifndef STG_TOOLS_ATTENTION_OUTPUT_H
#define STG_TOOLS_ATTENTION_OUTPUT_H

#include "runtime/base/key.h"
#include "tools/attention/check.h"

/** Key of all that the work gave: rows, then K and V that were appended, then lengths. */
STG_NODISCARD stg_status stg_attention_output_key(const struct stg_attention_done *done,
                                                  struct stg_key *ret_key, stg_error *reterr);
/** Write the results as safetensors: q, k, v, qkv or out, and the layer's cache. */
STG_NODISCARD stg_status stg_attention_output_write(const struct stg_attention_done *done,
                                                    const char *path, const char *signature,
                                                    stg_error *reterr);

#endif
