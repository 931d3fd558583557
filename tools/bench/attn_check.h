/*
 * attn_check.h: what a case's launch left, and whether it is what float64 says. Asked before
 * anything is timed.
 */
#ifndef STG_TOOLS_BENCH_ATTN_CHECK_H
#define STG_TOOLS_BENCH_ATTN_CHECK_H

#include "tools/bench/attn_bed.h"

/* The results of set 0 of the rows that are looked at, on the host, [samples, heads, dim] each; of
 * a backward `qkv` [samples, packed]. A V that stays in packed rows is fetched from there. What the
 * work does not make is NULL. */
struct stg_attn_result {
  void *qkv, *q, *k, *v, *out;
};
/** Fetch what the last launch of set 0 left. Finish also after a failure. */
STG_NODISCARD stg_status stg_attn_result_fetch(const struct stg_attn_bed *bed,
                                               struct stg_attn_result *ret, stg_error *reterr);
void stg_attn_result_finish(struct stg_attn_result *result);

struct stg_attn_verdict {
  double mae;         /* of the elements that were looked at, against float64 */
  double worst_ratio; /* of an error to its own bound */
};
/**
 * Launch set 0, fetch it, and hold it against the oracle: of rotations all rows that are looked at,
 * of attentions some of them. A steered one is held against one that is not.
 * @return STG_E_CORRUPT names the tensor and the row.
 */
STG_NODISCARD stg_status stg_attn_check(struct stg_attn_bed *bed, struct stg_attn_result *ret,
                                        struct stg_attn_verdict *ret_verdict, stg_error *reterr);

#endif
