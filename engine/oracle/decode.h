/*
 * oracle/decode.h: the float64 reference of the decode family: a softmax over a list of keys.
 *
 * With p_j the weights, s_j the scores and M the largest of them, element d of a head may differ
 * from ref_d by
 *
 *   u*|ref_d| + tiny/2 + 1.01 * ( sum_j p_j * (e^(e_j) - 1) * (|v_jd| + |ref_d|)
 *                                 + 2^-23 * (within + chunks + 32) * sum_j p_j*|v_jd|
 *                                 + least * sum_j |v_jd| )
 *   e_j = 2^-23 * ( (dots + 8) * scale * sum_i |q_i*k_ji| + |s_j - M| )
 *
 * The first sum is what errors of the scores do to the weights; the second the sums of weights and
 * of V, in chunks that are merged one after the other. In float32, `dots` is dim/8, `within` the
 * root of chunk, and `least` 0.
 *
 * 16-bit elements a GPU multiplies as matrices. The products are exact; what is added at once, 8 of
 * them at least and the sum before, is aligned to the largest and cut at 2^-24 of it, and the
 * result cut to 24 bits: 9 * 2^-24 + 2^-23, at most 6 * 2^-23 of the sum of magnitudes for 8
 * elements. So `dots` is 3/4*dim. Of a chunk's positions a warp has a fourth at most, with two
 * parts of each weight: 3/8*chunk of the same, and one rounding of all that came before for each
 * slice of 16, chunk/64: in all less than chunk/2. Two parts are a weight but for 2^-16 of it in
 * bf16, 2^-22 in f16: 128 and 2 times 2^-23, so `within` is chunk/2 and these. A part is at least
 * 2^-126, or 2^-24 of 2^15 in f16, and a weight below e^-87 is 0: `least` is 2^-124, and 2^-37.
 *
 * Scores, and sums of V, which are divided at the end, are float32: where their magnitudes are
 * beyond its range, a result that is not finite is right as well.
 */
#ifndef STG_ENGINE_ORACLE_DECODE_H
#define STG_ENGINE_ORACLE_DECODE_H

#include "codegen/decode.h"
#include "engine/oracle/attention.h"

/* The keys and values that one query head reads, in the order of their positions. */
struct stg_oracle_keys {
  const double *k, *v; /* [n, dim] */
  int64_t n;           /* 0: the result is zeros */
  int64_t chunks;      /* in which they lie */
};

/** One query head, float64. `scores` is scratch for n doubles. */
void stg_oracle_attend_head(const struct stg_decode_geometry *geometry, double scale,
                            const double *q, const struct stg_oracle_keys *keys, double *scores,
                            struct stg_oracle_reference *ret);

/* A call of the family as it was and as it is now. All borrowed. */
struct stg_oracle_attend_batch {
  const struct stg_decode_geometry *geometry;
  struct stg_step_rows rows;
  const struct stg_kv_view *kv;
  const void *q;
  int64_t q_stride;
  struct stg_oracle_heads out;
  double scale;
  int64_t window;          /* 0: none */
  const uint8_t *key_mask; /* [batch, mask_stride]; NULL: none */
  int64_t mask_stride;
  const int32_t *valid; /* [batch]: rows from this position on give zeros; NULL: none do */
};

/**
 * Check every row: live ones within their bounds, padding as it was, all others zeros.
 * STG_E_NO_MEMORY for the keys of one row.
 */
STG_NODISCARD stg_status stg_oracle_attend_check(const struct stg_oracle_attend_batch *batch,
                                                 struct stg_oracle_heads_report *ret_report,
                                                 stg_error *reterr);

#endif
