/*
 * job_steer.c: steering among the families: its row of job_kind.h.
 */
#include "runtime/base/alloc.h"
#include "tools/explain_report.h"
#include "tools/job_kind.h"
#include "tools/run_output.h"
#include "tools/run_steer.h"
#include "tools/workload_job.h"

static stg_status open_job(struct stg_spec *spec, const struct stg_job_options *options,
                           void **ret_job, stg_error *reterr) {
  struct stg_job *job = stg_calloc(1, sizeof *job);
  if (job == NULL) {
    stg_spec_finish(spec);
    return stg_error_memory(reterr, "a job", sizeof *job);
  }
  stg_status status = stg_job_open_workload(&spec->of.steer, options, job, reterr);
  if (status != STG_OK) {
    stg_free(job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

static void close_job(void *job) {
  stg_job_close(job);
  stg_free(job);
}

static stg_engine *engine_of(const void *job) {
  return ((const struct stg_job *)job)->engine;
}

static const char *file_of(const void *job) {
  return ((const struct stg_job *)job)->workload.file;
}

static stg_status declare(const void *job, struct stg_arena *arena,
                          const struct stg_declared **ret_declared, stg_error *reterr) {
  const struct stg_job *steer = job;
  return stg_declare_steer(steer->engine, &steer->desc, arena, ret_declared, reterr);
}

static struct stg_batch_sizes sizes_of(const void *job) {
  const struct stg_job *steer = job;
  return (struct stg_batch_sizes){steer->workload.rows, steer->requests, steer->longest};
}

static struct stg_job *steering_of(void *job) {
  return job;
}

static stg_status check_output(const void *job, const char *option, const char *path,
                               stg_error *reterr) {
  return stg_run_output_check(&((const struct stg_job *)job)->workload, option, path, reterr);
}

static stg_status run(void *job, const struct stg_run_options *options, bool *ret_ok,
                      struct stg_strbuf *ret_text, stg_error *reterr) {
  return stg_run_steer(job, options, ret_ok, ret_text, reterr);
}

static void explain_json(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  stg_explain_report_json(job, result, out);
}

static void explain_text(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  stg_explain_report_text(job, result, out);
}

const struct stg_job_kind stg_job_kind_steer = {
    .open = open_job,
    .close = close_job,
    .engine = engine_of,
    .file = file_of,
    .declare = declare,
    .sizes = sizes_of,
    .steering = steering_of,
    .check_output = check_output,
    .run = run,
    .explain_json = explain_json,
    .explain_text = explain_text,
};
