/*
 * job_table.h: a job's steer table, filled and stepped: everything that a host does before its
 * first layer.
 */
#ifndef STG_TOOLS_JOB_TABLE_H
#define STG_TOOLS_JOB_TABLE_H

#include "tools/job_slots.h"

/* {0} is an empty table. */
struct stg_job_table {
  struct stg_job_slots slots;
  stg_steer *steer;
  stg_frame *frame;
};

/** Intern vectors, create the table, set its slots, step a frame over the batch. Finish also after
 * a failure. */
STG_NODISCARD stg_status stg_job_table_init(struct stg_job *job, struct stg_job_table *table,
                                            stg_error *reterr);
void stg_job_table_finish(struct stg_job *job, struct stg_job_table *table);

#endif
