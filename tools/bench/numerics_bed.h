/*
 * bench/numerics_bed.h: a steer table over one batch, with what the oracle must know of its slots.
 *
 * Rows are normal random numbers, vectors unit directions, both rounded to the table's dtype; row r
 * is steered by slot r % STG_NUMERICS_SLOTS.
 */
#ifndef STG_TOOLS_BENCH_NUMERICS_BED_H
#define STG_TOOLS_BENCH_NUMERICS_BED_H

#include <steergraph/steer.h>

#include "engine/oracle/steer.h"

#define STG_NUMERICS_SLOTS 16
#define STG_NUMERICS_VECTORS 9
#define STG_NUMERICS_MAX_CHAIN 8

struct stg_numerics_bed {
  stg_engine *engine;
  int64_t hidden_size;
  stg_dtype dtype;
  int64_t rows;
  size_t bytes; /* of the batch */
  stg_vector vectors[STG_NUMERICS_VECTORS];
  size_t n_vectors;
  double *wide; /* [STG_NUMERICS_VECTORS, hidden_size] */
  stg_steer *steer;
  stg_frame *frame;
  int32_t *row_map;                      /* [rows] */
  unsigned char *before, *after, *eager; /* [rows, hidden_size] */
  float *values;                         /* [hidden_size] */
  void *device;
  struct stg_oracle_op ops[STG_NUMERICS_SLOTS][STG_NUMERICS_MAX_CHAIN];
  struct stg_oracle_chain chains[STG_NUMERICS_SLOTS];
};

/** `bed` is to be finished also after a failure. The engine outlives it. */
STG_NODISCARD stg_status stg_numerics_bed_init(stg_engine *engine, int64_t hidden_size,
                                               stg_dtype dtype, int64_t rows,
                                               struct stg_numerics_bed *bed, stg_error *reterr);
STG_NODISCARD stg_status stg_numerics_bed_finish(struct stg_numerics_bed *bed, stg_error *reterr);

/** Put a chain of at most STG_NUMERICS_MAX_CHAIN calls on vectors of the bed into a slot. */
STG_NODISCARD stg_status stg_numerics_bed_set(struct stg_numerics_bed *bed, uint32_t slot,
                                              const stg_op_call *calls, size_t n_calls,
                                              stg_error *reterr);

/* Ours and the eager rounding, each against the oracle, and against each other. */
struct stg_numerics_verdict {
  struct stg_oracle_report ours;
  double eager_worst_ratio;
  double differs_share; /* of the elements, by their bits */
};

/** Apply the slots' chains to the batch and judge every element. */
STG_NODISCARD stg_status stg_numerics_bed_judge(struct stg_numerics_bed *bed,
                                                struct stg_numerics_verdict *ret_verdict,
                                                stg_error *reterr);

#endif
