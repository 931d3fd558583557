/*
 * batch.h: the batches that suites steer: requests, their chains, vectors and rows, made from a few
 * numbers, the same on every machine.
 *
 * Vectors are unit, caps are to +-0.5, adds scale 4, ablations whole. Rows are normal with standard
 * deviation 8, so that 19 of 20 rows are out of a cap's bounds and are stored. Weights of a norm
 * are normal around 1.
 */
#ifndef STG_TOOLS_BENCH_BATCH_H
#define STG_TOOLS_BENCH_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/arena.h"

enum stg_bench_kind {
  STG_BENCH_CAP,
  STG_BENCH_ADD,
  STG_BENCH_ABLATION,
  STG_BENCH_MIXED /* the three in turn */
};

/* What is steered, and what follows. */
enum stg_bench_state {
  STG_BENCH_ALONE, /* hidden */
  STG_BENCH_PAIR,  /* hidden + residual */
  STG_BENCH_NORM   /* the same, and the epilogue add_rmsnorm */
};

/* What a table declares besides, and each row then uses. */
enum stg_bench_declared {
  STG_BENCH_NO_EXTRA,
  STG_BENCH_WINDOWS,  /* every slot has a window, and every row is within it */
  STG_BENCH_COUNTERS, /* every row that is steered is counted */
  STG_BENCH_PROBE     /* every chain ends with a probe of its first op's vector */
};

#define STG_BENCH_ROW_DEVIATION 8.0f
#define STG_BENCH_EPSILON 1e-6f /* of the epilogue */
#define STG_BENCH_MAX_OPS 8

/* What a batch is made from. */
struct stg_bench_mix {
  const char *name;
  uint32_t hidden_size;
  uint32_t n_requests;
  uint32_t rows_each;      /* of every request, where `lengths` is NULL */
  const uint32_t *lengths; /* [n_requests] */
  uint32_t n_ops;          /* of every request */
  uint32_t n_distinct;     /* chains: request r has chain r % n_distinct */
  enum stg_bench_kind kind;
  enum stg_bench_state state;
  enum stg_bench_declared extra;
  bool unsteered; /* the chains are there, and no row has one */
};

/* One op of a chain, never MIXED. */
struct stg_bench_op {
  enum stg_bench_kind kind;
  uint32_t vector;
  float a, b; /* cap: min, max; add, ablation: scale, unused */
};

struct stg_bench_batch {
  const struct stg_bench_mix *mix;
  uint32_t rows;
  uint32_t longest;
  uint32_t *lengths;        /* [n_requests] */
  int32_t *row_map;         /* [rows]: the request, which has a slot of its own; or UNSTEERED */
  struct stg_bench_op *ops; /* [n_distinct * n_ops] */
  uint32_t n_vectors;
  uint16_t *vectors;  /* bf16 [n_vectors, hidden_size] */
  uint16_t *hidden;   /* bf16 [rows, hidden_size] */
  uint16_t *residual; /* the same, or NULL */
  uint16_t *weight;   /* of a norm, bf16 [hidden_size], or NULL */
  struct stg_arena arena;
};

/** Scale `count` values to length 1 (sum and root in float64) and round them to bf16. */
void stg_bench_round_to_unit(const float *values, size_t count, uint16_t *ret_vector);

/** Make a batch; borrows `mix`. STG_E_NO_MEMORY only. */
STG_NODISCARD stg_status stg_bench_batch_init(const struct stg_bench_mix *mix,
                                              struct stg_bench_batch *ret, stg_error *reterr);
void stg_bench_batch_finish(struct stg_bench_batch *batch);

/** The chain of a request: mix->n_ops ops. */
const struct stg_bench_op *stg_bench_batch_chain(const struct stg_bench_batch *batch,
                                                 uint32_t request);
size_t stg_bench_batch_bytes(const struct stg_bench_batch *batch);

#endif
