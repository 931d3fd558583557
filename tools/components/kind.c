/*
 * components/kind.c: components among the families: their row of job_kind.h, and which files a
 * workload reads.
 */
#include <inttypes.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/components/job.h"
#include "tools/components/run.h"
#include "tools/explain_parts.h"
#include "tools/job_kind.h"
#include "tools/run_output.h"

static stg_status open_job(struct stg_spec *spec, const struct stg_job_options *options,
                           void **ret_job, stg_error *reterr) {
  struct stg_components_job *job = stg_calloc(1, sizeof *job);
  if (job == NULL) {
    stg_spec_finish(spec);
    return stg_error_memory(reterr, "a job", sizeof *job);
  }
  stg_status status = stg_components_job_open(&spec->of.components, options, job, reterr);
  if (status != STG_OK) {
    stg_free(job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

static void close_job(void *job) {
  stg_components_job_close(job);
  stg_free(job);
}

static stg_engine *engine_of(const void *job) {
  return ((const struct stg_components_job *)job)->engine;
}

static const char *file_of(const void *job) {
  return ((const struct stg_components_job *)job)->workload.file;
}

static stg_status declare(const void *job, struct stg_arena *arena,
                          const struct stg_declared **ret_declared, stg_error *reterr) {
  const struct stg_components_job *components = job;
  return stg_declare_components(&components->desc, arena, ret_declared, reterr);
}

static struct stg_batch_sizes sizes_of(const void *job) {
  return stg_components_job_sizes(job);
}

static struct stg_job *steering_of(void *job) {
  (void)job;
  return NULL;
}

static stg_status check_output(const void *job, const char *option, const char *path,
                               stg_error *reterr) {
  const struct stg_components_workload *w = &((const struct stg_components_job *)job)->workload;
  stg_status status = stg_run_output_check_file(w->file, option, path, reterr);
  for (size_t i = 0; i < STG_SPEC_COMPONENTS_INPUTS && status == STG_OK; i++) {
    if (w->has[i]) {
      status = stg_run_output_check_source(w->file, &w->inputs[i].source, option, path, reterr);
    }
  }
  return status;
}

static stg_status run(void *job, const struct stg_run_options *options, bool *ret_ok,
                      struct stg_strbuf *ret_text, stg_error *reterr) {
  return stg_components_run(job, options, ret_ok, ret_text, reterr);
}

static void print_job(const void *job, struct stg_strbuf *out) {
  stg_components_job_print(job, out);
}

static void print_batch(const void *job, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%" PRId64 " rows",
                    ((const struct stg_components_job *)job)->workload.rows);
}

/* Of both ways the kernels of the way back are one launch, which is what is explained. */
static const char *note_of(const void *job, size_t index) {
  const struct stg_components_job *components = job;
  return index == 0 && components->workload.both
             ? "this is the way back; with 'direction' left out the launch before it is explained"
             : NULL;
}

static struct stg_explain_about about(const void *job) {
  return (struct stg_explain_about){
      .job = job,
      .family = stg_spec_kind_name(STG_SPEC_COMPONENTS),
      .sizes = stg_components_job_sizes(job),
      .print = print_job,
      .print_batch = print_batch,
      .note = note_of,
  };
}

static void explain_json(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  const struct stg_explain_about what = about(job);
  stg_explain_parts_json(&what, result, out);
}

static void explain_text(const void *job, const struct stg_explain_result *result,
                         struct stg_strbuf *out) {
  const struct stg_explain_about what = about(job);
  stg_explain_parts_text(&what, result, out);
}

const struct stg_job_kind stg_job_kind_components = {
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
