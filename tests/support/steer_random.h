/*
 * steer_random.h: random chains for sweeps, the same on every run and every machine.
 */
#ifndef STG_TESTS_SUPPORT_STEER_RANDOM_H
#define STG_TESTS_SUPPORT_STEER_RANDOM_H

#include "tests/support/steer_bed.h"

/* Numbers drawn one after the other from a seed. */
struct steer_draws {
  uint32_t seed, drawn;
};
uint32_t steer_draw_below(struct steer_draws *draws, uint32_t n);
/** Uniform in [low, high). */
float steer_draw_range(struct steer_draws *draws, float low, float high);

/* What random chains are made of. Vectors are the first `n_vectors` of the bed. */
struct steer_menu {
  const char *const *ops;
  size_t n_ops;
  size_t n_vectors;
};
/** All built-in ops. */
extern const char *const steer_builtin_ops[];
extern const size_t steer_builtin_op_count;
/** A user-defined op with tanh, norm, a comparison and two vectors; registered once per engine. */
extern const char steer_lean_op[];
void steer_register_lean(stg_engine *engine);

/** Fill `ret_calls` with `n_calls` random ops whose parameters keep a row's size about what it is.
 */
void steer_random_chain(struct steer_draws *draws, const struct steer_bed *bed,
                        const struct steer_menu *menu, size_t n_calls, stg_op_call *ret_calls);
/** Add vectors to the bed: unit ones, ones correlated with the last, and every fifth of norm 3. */
void steer_random_vectors(struct steer_draws *draws, struct steer_bed *bed, size_t count);

#endif
