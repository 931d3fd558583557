/*
 * attention/objects.h: what serves a workload: a cache, rows, a rope, an attend, a steer table and
 * a block of them; and the step as one call.
 */
#ifndef STG_TOOLS_ATTENTION_OBJECTS_H
#define STG_TOOLS_ATTENTION_OBJECTS_H

#include "tools/attention/tensors.h"
#include "tools/job_table.h"

/* {0} is empty. Destroyed from the last member to the first. */
struct stg_attention_objects {
  stg_kv *kv;
  stg_kv_tensors cache; /* of kv */
  float *table;         /* of angles, on the host; NULL: they are computed */
  stg_rope *rope;
  stg_attend *attend;
  struct stg_job_table steer;
  stg_rows *rows;
  stg_block *block; /* NULL: there is no cache, and one kernel goes out plainly */
};

/** Make all of them. Finish also after a failure. Messages carry the file. */
STG_NODISCARD stg_status stg_attention_objects_init(struct stg_attention_job *job,
                                                    struct stg_attention_objects *objects,
                                                    stg_error *reterr);
void stg_attention_objects_finish(struct stg_attention_job *job,
                                  struct stg_attention_objects *objects);

/** Say which sequence and position each row is, and resolve the plan where there is a block. */
STG_NODISCARD stg_status stg_attention_objects_step(const struct stg_attention_job *job,
                                                    const struct stg_attention_objects *objects,
                                                    const struct stg_attention_tensors *tensors,
                                                    stg_error *reterr);
/** The workload's one launch. Lengths may grow by it. */
STG_NODISCARD stg_status stg_attention_objects_apply(const struct stg_attention_job *job,
                                                     const struct stg_attention_objects *objects,
                                                     const struct stg_attention_tensors *tensors,
                                                     stg_stream stream, stg_error *reterr);
/** The attention of a step alone, into STG_ATTENTION_UNSTEERED, of what is in the cache now. */
STG_NODISCARD stg_status stg_attention_objects_attend(const struct stg_attention_job *job,
                                                      const struct stg_attention_objects *objects,
                                                      const struct stg_attention_tensors *tensors,
                                                      stg_stream stream, stg_error *reterr);

#endif
