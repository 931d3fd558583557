/*
 * job_kind.c: the table of families.
 */
#include "tools/job_kind.h"

static const struct stg_job_kind *const kinds[STG_SPEC_KINDS] = {
    [STG_SPEC_STEER] = &stg_job_kind_steer,      [STG_SPEC_ROPE] = &stg_job_kind_attention,
    [STG_SPEC_DECODE] = &stg_job_kind_attention, [STG_SPEC_STEP] = &stg_job_kind_attention,
    [STG_SPEC_PROVER] = &stg_job_kind_prover,    [STG_SPEC_COMPONENTS] = &stg_job_kind_components,
};

stg_status stg_any_job_open(const char *path, const struct stg_job_options *options,
                            struct stg_any_job *ret_job, stg_error *reterr) {
  const struct stg_workload_options reader = {.allow_outside = options->allow_outside};
  struct stg_spec spec;
  stg_status status = stg_spec_load(path, &reader, &spec, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_any_job job = {.kind = kinds[spec.kind]};
  status = job.kind->open(&spec, options, &job.of, reterr);
  if (status == STG_OK) {
    *ret_job = job;
  }
  return status;
}

void stg_any_job_close(struct stg_any_job *job) {
  if (job->kind != NULL) {
    job->kind->close(job->of);
  }
  *job = (struct stg_any_job){0};
}
