/*
 * attn_peer_case.h: a case of rope or attend as files that a peer in another language can read.
 */
#ifndef STG_TOOLS_BENCH_ATTN_PEER_CASE_H
#define STG_TOOLS_BENCH_ATTN_PEER_CASE_H

#include "runtime/base/error.h"
#include "tools/bench/attn_case.h"

/* Files of a case folder. */
#define STG_ATTN_PEER_CASE "case.json"
#define STG_ATTN_PEER_EXPECTED "expected.safetensors"

/* Our results of the rows that are looked at, [samples, heads, dim] or kv_heads; of a loop out
 * [steps, batch, heads, dim]. NULL: not made. All borrowed. */
struct stg_attn_expected {
  const void *q, *k, *v, *out;
};

/** Write both files into an existing folder. */
STG_NODISCARD stg_status stg_attn_peer_case_write(const struct stg_attn_case *work,
                                                  const struct stg_attn_expected *expected,
                                                  const char *folder, stg_error *reterr);

#endif
