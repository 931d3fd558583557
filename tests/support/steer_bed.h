/*
 * steer_bed.h: a steer table with a frame, and beside it what the oracle must know of its slots.
 *
 * Slots are set through the bed, which keeps the same chains for the oracle. Building blocks fail
 * the running test on any error, so tests read as what they are about.
 */
#ifndef STG_TESTS_SUPPORT_STEER_BED_H
#define STG_TESTS_SUPPORT_STEER_BED_H

#include "engine/offline.h"
#include "engine/oracle/steer.h"
#include "tests/support/steer_env.h"

#define STEER_BED_VECTORS 256
#define STEER_BED_SLOTS 64
#define STEER_BED_LAYERS 4

struct steer_bed_vector {
  stg_vector id;
  double *wide;
};

struct steer_bed {
  struct steer_env *env;
  stg_engine *engine;
  int64_t hidden_size;
  stg_dtype dtype, bank_dtype;
  bool pair;
  bool norm;       /* the table has the epilogue */
  bool windows;    /* it takes positions */
  uint32_t probes; /* columns */
  float epsilon;
  uint32_t max_slots;
  stg_steer *steer;
  stg_frame *frame;
  struct stg_arena arena;
  size_t n_vectors;
  struct steer_bed_vector vectors[STEER_BED_VECTORS];
  struct stg_oracle_chain shown[STEER_BED_LAYERS][STEER_BED_SLOTS]; /* n_ops 0: not steered */
  stg_window window[STEER_BED_SLOTS];                               /* struct_size 0: everywhere */
};

/** The table of `desc` on the group's engine, struct_size set here. */
struct steer_bed *steer_bed_create(struct steer_env *env, const stg_steer_desc *desc);
/** The same on an engine of the test's own. */
struct steer_bed *steer_bed_on(struct steer_env *env, stg_engine *engine,
                               const stg_steer_desc *desc);
void steer_bed_destroy(struct steer_bed *bed);
/** Destroy frame and table, and wait until graphs that were destroyed before have let go of them.
 * The bed still has its vectors, and what they are. */
void steer_bed_destroy_table(struct steer_bed *bed);

/** Intern hidden_size values, rounded to the bank's dtype; released with the bed. */
stg_vector steer_bed_vector(struct steer_bed *bed, const float *values);
/** A random direction of the given norm. */
stg_vector steer_bed_direction(struct steer_bed *bed, uint64_t seed, double norm);
/** What the bank holds of a vector. */
const double *steer_bed_wide(const struct steer_bed *bed, stg_vector vector);

/** Put one chain at layer 0 into a slot, or several chains. */
void steer_bed_set(struct steer_bed *bed, uint32_t slot, const stg_op_call *calls, size_t n_calls);
void steer_bed_set_layers(struct steer_bed *bed, uint32_t slot, const stg_chain *chains,
                          size_t n_chains);
/** One chain at layer 0, in a window. */
void steer_bed_set_window(struct steer_bed *bed, uint32_t slot, const stg_op_call *calls,
                          size_t n_calls, const stg_window *window);
void steer_bed_clear(struct steer_bed *bed, uint32_t slot);
/** Change parameters of one op. */
void steer_bed_params(struct steer_bed *bed, uint32_t slot, uint32_t layer, size_t op,
                      const float *params, uint32_t given);

/** A chain as the oracle takes it, alive as long as the bed. */
struct stg_oracle_chain steer_bed_chain(struct steer_bed *bed, const stg_op_call *calls,
                                        size_t n_calls);

/* Calls with the parameters that tests use most. */
stg_op_call steer_add(stg_vector v, float scale);
stg_op_call steer_ablate(stg_vector v, float scale);
stg_op_call steer_cap_max(stg_vector v, float max);
stg_op_call steer_keep_norm(stg_vector v, float scale);
stg_op_call steer_scale(float scale);
stg_op_call steer_probe(stg_vector v, uint32_t column);

#endif
