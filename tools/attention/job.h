/*
 * attention/job.h: a workload of rope, decode or step, with an engine and the descriptions of what
 * serves it.
 */
#ifndef STG_TOOLS_ATTENTION_JOB_H
#define STG_TOOLS_ATTENTION_JOB_H

#include <steergraph/attention.h>

#include "engine/offline.h"
#include "specs/spec.h"
#include "tools/workload_job.h"

struct stg_attention_job {
  struct stg_attention_workload workload;
  stg_engine *engine;
  bool has_kv, has_rope, has_attend;
  stg_kv_desc kv;
  /* Without their caches; a table of angles is named, and read by who makes the rope. */
  stg_rope_desc rope;
  stg_attend_desc attend;
  struct stg_job steer; /* of a steered step: its workload and engine are those above */
};

/** Open an engine and describe. The workload is taken over, also on failure. */
STG_NODISCARD stg_status stg_attention_job_open(struct stg_attention_workload *workload,
                                                const struct stg_job_options *options,
                                                struct stg_attention_job *ret_job,
                                                stg_error *reterr);
void stg_attention_job_close(struct stg_attention_job *job);

/** The kernels that serving it asks for, as stg_job_kind.declare. */
STG_NODISCARD stg_status stg_attention_job_declare(const struct stg_attention_job *job,
                                                   struct stg_arena *arena,
                                                   const struct stg_declared **ret_declared,
                                                   stg_error *reterr);
struct stg_batch_sizes stg_attention_job_sizes(const struct stg_attention_job *job);

/** What a user should know: note `index` of the workload, and behind its own of a step's steering,
 * or NULL behind the last. Valid until the next vector is read. */
const char *stg_attention_job_note(const struct stg_attention_job *job, size_t index);

/** "8 rows, 32/8 heads x 128, bf16; a cache of 8 x 512": the work in a few words. */
void stg_attention_job_print(const struct stg_attention_job *job, struct stg_strbuf *out);

#endif
