/*
 * job_slots.h: a job's chains in the slots of a steer table, and the same chains for the oracle.
 *
 * What was put in and what the oracle judges come from one resolution of names, so that they cannot
 * differ by a default or an order.
 */
#ifndef STG_TOOLS_JOB_SLOTS_H
#define STG_TOOLS_JOB_SLOTS_H

#include "engine/oracle/steer.h"
#include "tools/workload_job.h"

/* What stg_steer_slot_set_windowed takes. */
struct stg_job_slot {
  const stg_chain *chains;
  size_t n_chains;
  const stg_window *window; /* NULL: everywhere */
};

/* Slot i of the workload is slot i of the table. Everything lives in the job's arena. */
struct stg_job_slots {
  stg_vector *ids;            /* [job->n_refs]: 0 where no reference is held */
  const double **bank_values; /* [job->n_refs]: hidden_size values each, as the bank stores them */
  const struct stg_job_slot *slots;      /* [workload.n_slots] */
  const struct stg_oracle_chain *oracle; /* per slot: the chain at the batch's layer */
  const int32_t *oracle_map;             /* per row: index into `oracle`, or -1 */
};

/**
 * Read, normalise and intern the vectors in use, resolve every call's names against the ops, check
 * parameters. Messages name file and place. On failure nothing is held.
 */
STG_NODISCARD stg_status stg_job_slots_init(struct stg_job *job, struct stg_job_slots *ret_slots,
                                            stg_error *reterr);
/** Drop the vectors' references. */
void stg_job_slots_fini(struct stg_job *job, struct stg_job_slots *slots);

/** Put every chain into its slot of `steer`. */
STG_NODISCARD stg_status stg_job_slots_set(const struct stg_job *job,
                                           const struct stg_job_slots *slots, stg_steer *steer,
                                           stg_error *reterr);

#endif
