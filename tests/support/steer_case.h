/*
 * steer_case.h: a batch of the steer family, built call by call, run on the CPU backend and held
 * against the oracle.
 *
 * Building blocks fail the running cmocka test on any error, so tests read as what they are about.
 */
#ifndef STG_TESTS_SUPPORT_STEER_CASE_H
#define STG_TESTS_SUPPORT_STEER_CASE_H

#include "engine/cpu/steer.h"
#include "engine/oracle/steer.h"
#include "runtime/base/arena.h"

#define STEER_CASE_MAX_VECTORS 128
#define STEER_CASE_MAX_CHAINS 64

/* xorshift64*; the same numbers everywhere. */
struct steer_rng {
  uint64_t state;
};
uint64_t steer_rng_next(struct steer_rng *rng);
/** Uniform in [low, high). */
double steer_rng_range(struct steer_rng *rng, double low, double high);
/** Mean 0, variance 1, nearly normal (a sum of four uniforms). */
double steer_rng_normal(struct steer_rng *rng);
uint32_t steer_rng_below(struct steer_rng *rng, uint32_t n);

/* One op with its arguments: vectors by their number in the case, all parameters. */
struct steer_call {
  const char *op;
  uint32_t vectors[STG_OP_MAX_VECTORS];
  float params[STG_OP_MAX_PARAMS];
};

struct steer_case {
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  struct stg_arena arena;
  uint32_t n_vectors;
  void *vectors[STEER_CASE_MAX_VECTORS]; /* as stored */
  double *wide[STEER_CASE_MAX_VECTORS];
  size_t n_chains;
  struct stg_cpu_chain cpu[STEER_CASE_MAX_CHAINS];
  struct stg_oracle_chain oracle[STEER_CASE_MAX_CHAINS];
  int64_t rows;
  int64_t row_stride;
  int32_t *row_chain;
  void *before; /* [rows, row_stride], the gap between rows filled with NaN */
  void *after;
  void *residual; /* as it is before; NULL: none */
  void *weight;   /* [hidden_size] of the epilogue; NULL: none */
  float epsilon;
  void *residual_after; /* with an epilogue */
};

struct steer_case *steer_case_create(int64_t hidden_size, stg_dtype dtype, stg_dtype bank_dtype);
void steer_case_destroy(struct steer_case *c);

/** A vector with these values (hidden_size of them), rounded to the bank's dtype. */
uint32_t steer_case_vector(struct steer_case *c, const double *values);
/** A random direction of the given norm. */
uint32_t steer_case_random_vector(struct steer_case *c, struct steer_rng *rng, double norm);

/** Built-in ops by name. */
int32_t steer_case_chain(struct steer_case *c, const struct steer_call *calls, size_t n_calls);
/** The same of given ops, `calls[k].op` unread. */
int32_t steer_case_chain_of(struct steer_case *c, const struct stg_op *const *ops,
                            const struct steer_call *calls, size_t n_calls);

/** Allocate the tensors: every row unsteered and zero, after == before. Stride 0: hidden_size. */
void steer_case_rows(struct steer_case *c, int64_t rows, int64_t row_stride, bool pair);
/** Fill hidden (and residual) with normal values times `scale`; `after` becomes a copy. */
void steer_case_fill(struct steer_case *c, struct steer_rng *rng, double scale);
/** Put the epilogue behind a pair: a weight of values around 1. */
void steer_case_norm(struct steer_case *c, struct steer_rng *rng, float epsilon);
void steer_case_set(struct steer_case *c, void *tensor, int64_t row, int64_t element, double value);
double steer_case_get(const struct steer_case *c, const void *tensor, int64_t row, int64_t element);
/** Bytes of one of the tensors, and of a row without its gap. */
size_t steer_case_bytes(const struct steer_case *c);
size_t steer_case_row_bytes(const struct steer_case *c);
void *steer_case_row(const struct steer_case *c, void *tensor, int64_t row);

/** The batch as the backend sees it, in place on `after`. */
struct stg_cpu_batch steer_case_cpu_batch(const struct steer_case *c);
struct stg_oracle_batch steer_case_oracle_batch(const struct steer_case *c);
/** Copy before to after, steer `after` in place on the CPU. */
void steer_case_run(struct steer_case *c);
struct stg_oracle_report steer_case_check(const struct steer_case *c);
/** steer_case_run, then no violation. */
void steer_case_expect_ok(struct steer_case *c);

#endif
