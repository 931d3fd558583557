/*
 * prove/kind.c: the family "prover" among the families: its row of job_kind.h. Its work is that of
 * `steergraph prove`, which cmd_prove.c begins.
 */
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/job_kind.h"
#include "tools/prove/explain_report.h"
#include "tools/prove/job.h"

static stg_status open_job(struct stg_spec *spec, const struct stg_job_options *options,
                           void **ret_job, stg_error *reterr) {
  struct stg_prove_job *job = stg_calloc(1, sizeof *job);
  if (job == NULL) {
    stg_spec_finish(spec);
    return stg_error_memory(reterr, "a job", sizeof *job);
  }
  stg_status status = stg_prove_job_open(&spec->of.prover, options, job, reterr);
  if (status != STG_OK) {
    stg_free(job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

static void close_job(void *job) {
  stg_prove_job_close(job);
  stg_free(job);
}

static stg_engine *engine_of(const void *job) {
  return ((const struct stg_prove_job *)job)->engine;
}

static const char *file_of(const void *job) {
  return ((const struct stg_prove_job *)job)->workload.file;
}

static stg_status declare(const void *job, struct stg_arena *arena,
                          const struct stg_declared **ret_declared, stg_error *reterr) {
  const stg_prover_desc desc = stg_prove_job_describe(job);
  return stg_declare_prover(&desc, arena, ret_declared, reterr);
}

/* Rows are the queries that a launch has room for: all pools have the same. */
static struct stg_batch_sizes sizes_of(const void *job) {
  const struct stg_prover_workload *w = &((const struct stg_prove_job *)job)->workload;
  return (struct stg_batch_sizes){w->capacity, 1, 1};
}

static struct stg_job *steering_of(void *job) {
  (void)job;
  return NULL;
}

static stg_status check_output(const void *job, const char *option, const char *path,
                               stg_error *reterr) {
  return stg_prove_job_check_output(job, option, path, reterr);
}

static stg_status run(void *job, const struct stg_run_options *options, bool *ret_ok,
                      struct stg_strbuf *ret_text, stg_error *reterr) {
  (void)job;
  (void)ret_ok;
  (void)ret_text;
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "%s: family: 'run' does not search for proofs; use 'steergraph prove'",
                       options->spec);
}

static void explain_json(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  stg_prove_explain_json(job, result, out);
}

static void explain_text(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  stg_prove_explain_text(job, result, out);
}

const struct stg_job_kind stg_job_kind_prover = {
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
