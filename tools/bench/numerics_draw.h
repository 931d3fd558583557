/*
 * bench/numerics_draw.h: the random calls of the numerics suite, the same on every machine.
 */
#ifndef STG_TOOLS_BENCH_NUMERICS_DRAW_H
#define STG_TOOLS_BENCH_NUMERICS_DRAW_H

#include <steergraph/steer.h>

/* Numbers drawn one after the other from a seed. {.seed = s} is a valid start. */
struct stg_numerics_draws {
  uint32_t seed, drawn;
};

/** Uniform in 0..n-1. */
uint32_t stg_numerics_below(struct stg_numerics_draws *draws, uint32_t n);
/** Uniform in [low, high). */
float stg_numerics_between(struct stg_numerics_draws *draws, float low, float high);

/**
 * A call of `op` on vectors of `vectors[0..n_vectors)`, n_vectors > STG_MAX_CALL_VECTORS, no two of
 * them the same. Parameters of the built-in ops are drawn from ranges that keep a row's size about
 * what it is over a chain; those of other ops keep their defaults.
 */
void stg_numerics_draw_call(struct stg_numerics_draws *draws, const char *op,
                            const stg_vector *vectors, size_t n_vectors, stg_op_call *ret_call);

#endif
