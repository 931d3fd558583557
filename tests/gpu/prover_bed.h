/*
 * prover_bed.h: a pool of queries on a device: its base, its policy, and launches over any queries.
 */
#ifndef STG_TESTS_GPU_PROVER_BED_H
#define STG_TESTS_GPU_PROVER_BED_H

#include "codegen/prover_args.h"
#include "codegen/prover_extents.h"
#include "codegen/prover_text.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/prove_pool.h"

#define PROVER_BED_MEMORY 16

struct prover_bed_kernel; /* of a net and limits, compiled once for a group of tests */

/* The state of a group of tests. */
struct prover_bed {
  struct gpu *gpu;
  struct prover_bed_kernel *kernels;
  const struct prover_bed_kernel *kernel; /* of the pool */
  struct stg_prover_extents extents;
  enum stg_prover_arithmetic arithmetic; /* of the pools to come */
  uint32_t capacity;
  uint32_t blocks;                /* of the next launches; 0: as many as there is room for */
  struct stg_prover_args args;    /* for those, but for `capacity` */
  struct stg_prove_atom *queries; /* [capacity], of the host, as the rest of these */
  struct stg_prove_result *results;
  struct stg_prove_step *steps; /* [depth] */
  struct stg_prover_words *words;
  uint32_t *n;
  volatile uint32_t *done;
  uint64_t memory[PROVER_BED_MEMORY]; /* of the device */
  size_t n_memory;
};

/* cmocka group fixtures: `*state` is a struct prover_bed. */
int prover_bed_setup(void **state);
int prover_bed_teardown(void **state);

/** Bring a pool's base and policy to the device, with room for so many queries. */
void prover_bed_open(struct prover_bed *bed, const struct prove_pool *pool, uint32_t capacity);
void prover_bed_close(struct prover_bed *bed);

/** Launch over queries[n], or let a stream capture it; results and counters come with `fetch`. */
void prover_bed_put(struct prover_bed *bed, const struct stg_prove_atom *queries, size_t n);
void prover_bed_launch(struct prover_bed *bed);
/** Wait; results[n], steps and words are then the device's. Counters begin at 0 again. Fails where
 * a result past the last was written, or the queue is not as it was. */
void prover_bed_fetch(struct prover_bed *bed);

#endif
