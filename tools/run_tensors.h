/*
 * run_tensors.h: the tensors of a run on both sides: filled from the workload, given to apply,
 * fetched back, packed.
 */
#ifndef STG_TOOLS_RUN_TENSORS_H
#define STG_TOOLS_RUN_TENSORS_H

#include "engine/oracle/steer.h"
#include "runtime/base/key.h"
#include "tools/workload_job.h"

/* rows x row_stride elements each; the weight of an epilogue hidden_size. {0} is empty. */
struct stg_run_tensors {
  size_t bytes;
  unsigned char *before, *after;            /* hidden, on the host */
  unsigned char *residual, *residual_after; /* NULL without one */
  unsigned char *weight;                    /* NULL without an epilogue */
  size_t probe_bytes;                       /* of [rows, probes], 0 where nothing is given out */
  float *probes, *probes_after;             /* NaN at first */
  void *device_hidden, *device_residual, *device_weight, *device_probes;
};

/**
 * Whether the machine has the memory that the workload asks for: a spec of a few bytes may ask for
 * terabytes of random numbers. Overcommitted memory would be given, and the process killed while
 * filling it.
 */
STG_NODISCARD stg_status stg_run_tensors_check(const struct stg_job *job, stg_error *reterr);

/** Allocate, fill, upload. Finish also after a failure. */
STG_NODISCARD stg_status stg_run_tensors_init(const struct stg_job *job,
                                              struct stg_run_tensors *tensors, stg_error *reterr);
void stg_run_tensors_finish(const struct stg_job *job, struct stg_run_tensors *tensors);

/** The arguments of an apply in place. */
stg_apply stg_run_tensors_apply(const struct stg_job *job, const struct stg_run_tensors *tensors);
/** Put what an apply writes back to what it was before. */
STG_NODISCARD stg_status stg_run_tensors_reset(const struct stg_job *job,
                                               const struct stg_run_tensors *tensors,
                                               stg_error *reterr);
/** Fetch what is there now into `after` and `residual_after`. */
STG_NODISCARD stg_status stg_run_tensors_fetch(const struct stg_job *job,
                                               const struct stg_run_tensors *tensors,
                                               stg_error *reterr);

/** STG_E_CORRUPT when bytes changed that no row owns, or the residual without an epilogue. */
STG_NODISCARD stg_status stg_run_tensors_bystanders(const struct stg_job *job,
                                                    const struct stg_run_tensors *tensors,
                                                    stg_error *reterr);
/** What the oracle compares; rows and chains are the caller's to add. */
struct stg_oracle_batch stg_run_tensors_batch(const struct stg_job *job,
                                              const struct stg_run_tensors *tensors);

/** Move the rows of what came back together: from row_stride elements apart to hidden_size. */
void stg_run_tensors_pack(const struct stg_job *job, const struct stg_run_tensors *tensors);
/** XXH3-128 of the packed bytes that an apply wrote: hidden, with an epilogue the residual behind
 * it, and with probes their cells. */
STG_NODISCARD stg_status stg_run_tensors_key(const struct stg_job *job,
                                             const struct stg_run_tensors *tensors,
                                             struct stg_key *ret_key, stg_error *reterr);

#endif
