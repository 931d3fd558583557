/*
 * steer_stress_chain.h: random chains of the stress, and what a row is behind them.
 *
 * Exact chains are of whole numbers along axes and small whole vectors, with halves at most, so
 * that float32 rounds nowhere, in whatever order sums are taken: their rows are known by hand. Real
 * chains are for the oracle. No assertion of cmocka in here: all of it is called on threads.
 */
#ifndef STG_TESTS_SUPPORT_STEER_STRESS_CHAIN_H
#define STG_TESTS_SUPPORT_STEER_STRESS_CHAIN_H

#include "engine/oracle/steer.h"

#include <steergraph/steer.h>

#define STRESS_HIDDEN 64
#define STRESS_MAX_OPS 4
#define STRESS_CALL_VECTORS 2

enum stress_kind { STRESS_ADD, STRESS_ABLATE, STRESS_CAP, STRESS_SCALE, STRESS_SWAP, STRESS_KINDS };
#define STRESS_ALL_KINDS ((1U << STRESS_KINDS) - 1)
/** Op names by kind. */
extern const char *const stress_op_names[STRESS_KINDS];

struct stress_op {
  enum stress_kind kind;
  uint32_t vectors[STRESS_CALL_VECTORS]; /* by number: what stress_vector fills */
  float value;                           /* of its parameter */
};
struct stress_chain {
  size_t n_ops; /* 0: no chain */
  struct stress_op ops[STRESS_MAX_OPS];
};

/** Below `n`, by a generator that each thread has for itself; its state is not 0. */
uint32_t stress_draw(uint64_t *random, uint32_t n);
/** A chain of one op or more, of the kinds in the mask. */
void stress_chain_draw(uint64_t *random, unsigned kinds, bool exact, struct stress_chain *ret);
/** Another value for an op's parameter. */
float stress_value_draw(uint64_t *random, enum stress_kind kind, bool exact);

uint32_t stress_n_vectors(enum stress_kind kind);
/** Which parameter `value` is, or -1: the op has none. */
int stress_param(enum stress_kind kind);
/** The STRESS_HIDDEN values of a vector. */
void stress_vector(uint32_t number, bool exact, float *ret_values);

/** What an exact chain makes of a row. */
void stress_chain_run(const struct stress_chain *chain, double *row);
/** The call of an op whose vectors were interned. */
stg_op_call stress_call(const struct stress_op *op, const stg_vector *vectors);

#endif
