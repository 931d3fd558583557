/*
 * oracle/rope.h: the float64 reference of the rope family.
 *
 * Angles are float64 products of the position and an inverse frequency that is worked out again
 * here. Element j of a rotated head may differ from ref_j by
 *
 *   u*|ref_j| + tiny/2 + (1 + 2u) * 2^-23 * (p*f + 2 + x) * |(A, B)| * l
 *   + 1.02 * ( r*(u*T + tiny*g) + t*T + t_tiny*|(A, B)| + X ),   T = |A*c| + |B*s|
 *
 * u, tiny  half a unit of the type's rounding, its smallest subnormal: the rounding at the store
 * A, B     the two elements that the sum takes, with their scale of xPos; c, s cosine and sine
 * p*f      the angle in float32 is off by so much: half of it the frequency, half the product; by
 *          half as much again beyond 2^24, where the position is rounded; 0 with a table
 * l        |(c, s)|, or 1 where that is less: a table may have any numbers
 * 2, x     cosine, sine, products and sum; with xPos 2 + 2*|power*log(scale)|, else 0
 * r        0, or with round=each_op the number of roundings before the sum: 1, with xPos 2
 * t        0, or half a unit of what cosine and sine are rounded to, t_tiny its smallest subnormal;
 *          both twice with xPos, for its scale
 * g, X     1 and 0. With xPos, g is the larger of l and the scales, for what a product loses below
 *          the normal numbers is scaled with it; and X, of such losses of the scale itself and of
 *          float32, is t_tiny*|(a, b)|*l + 2^-149*(2*g + |(a, b)|*l), a, b the two unscaled
 *
 * With a table and round=each_op nothing is left open but with xPos: the bytes must be those of the
 * eager sequence. What is not rotated must have the bytes that it had. Where a scale of xPos, or a
 * product, is beyond the range of the type that it is rounded to, a result that is not finite is
 * right as well.
 */
#ifndef STG_ENGINE_ORACLE_ROPE_H
#define STG_ENGINE_ORACLE_ROPE_H

#include "codegen/rope_freq.h"
#include "engine/oracle/attention.h"

/* How positions become angles. */
struct stg_oracle_angles {
  const struct stg_rope_freq *freq; /* not read with a table */
  double xpos_base;
  const float *table; /* [table_positions, 2, rot/2], cosines before sines; NULL: none */
  int64_t table_positions;
};

/* A call of the family as it was and as it is now. All borrowed. */
struct stg_oracle_rope_batch {
  const struct stg_rope_geometry *geometry;
  struct stg_oracle_angles angles;
  struct stg_step_rows rows; /* lengths as they were */
  const void *qkv;           /* packed rows */
  int64_t qkv_stride;
  struct stg_oracle_heads q;
  struct stg_oracle_heads k, v;    /* without a cache; v.after NULL: V stays in the packed rows */
  const struct stg_kv_view *kv;    /* the layer as it is now; NULL: K and V went to k and v */
  const void *k_before, *v_before; /* the cache as it was; NULL: what has to stay is not compared */
  const struct stg_kv_words *words; /* as the call left them, from none; NULL: not compared */
};

/**
 * Check every row: live and full ones within their bounds, bad ones and those past a table zeros,
 * padding as it was; in the cache every place that no row is appended to as it was; refusals as
 * counted one by one. STG_E_INVALID where two rows are appended to one place, which leaves open
 * what it holds; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_oracle_rope_check(const struct stg_oracle_rope_batch *batch,
                                               struct stg_oracle_heads_report *ret_report,
                                               stg_error *reterr);

/* The way back: gradients of q, k and v (after), and the packed rows that came of them. */
struct stg_oracle_rope_gradient {
  const struct stg_rope_geometry *geometry;
  struct stg_oracle_angles angles;
  struct stg_step_rows rows;
  struct stg_oracle_heads q, k, v; /* v.after NULL: V of qkv has to stay as it was */
  const void *qkv_before;          /* NULL: what has to stay is not compared */
  const void *qkv;
  int64_t qkv_stride;
};

/** Check every row, as stg_oracle_rope_check does. */
void stg_oracle_rope_back_check(const struct stg_oracle_rope_gradient *gradient,
                                struct stg_oracle_heads_report *ret_report);

#endif
