/*
 * attention/kind.c: rope, decode and step among the families: their row of job_kind.h, and which
 * files they read.
 */
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/attention/job.h"
#include "tools/attention/run.h"
#include "tools/explain_parts.h"
#include "tools/job_kind.h"
#include "tools/run_output.h"

static stg_status open_job(struct stg_spec *spec, const struct stg_job_options *options,
                           void **ret_job, stg_error *reterr) {
  struct stg_attention_job *job = stg_calloc(1, sizeof *job);
  if (job == NULL) {
    stg_spec_finish(spec);
    return stg_error_memory(reterr, "a job", sizeof *job);
  }
  stg_status status = stg_attention_job_open(&spec->of.attention, options, job, reterr);
  if (status != STG_OK) {
    stg_free(job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

static void close_job(void *job) {
  stg_attention_job_close(job);
  stg_free(job);
}

static stg_engine *engine_of(const void *job) {
  return ((const struct stg_attention_job *)job)->engine;
}

static const char *file_of(const void *job) {
  return ((const struct stg_attention_job *)job)->workload.file;
}

static stg_status declare(const void *job, struct stg_arena *arena,
                          const struct stg_declared **ret_declared, stg_error *reterr) {
  return stg_attention_job_declare(job, arena, ret_declared, reterr);
}

static struct stg_batch_sizes sizes_of(const void *job) {
  return stg_attention_job_sizes(job);
}

static struct stg_job *steering_of(void *job) {
  struct stg_attention_job *attention = job;
  return attention->workload.steered ? &attention->steer : NULL;
}

static stg_status check_output(const void *job, const char *option, const char *path,
                               stg_error *reterr) {
  const struct stg_attention_workload *w = &((const struct stg_attention_job *)job)->workload;
  const struct {
    bool is_given;
    const struct stg_spec_array *array;
  } arrays[] = {{w->has_qkv, &w->qkv},
                {w->has_q, &w->q},
                {w->has_k, &w->k},
                {w->has_v, &w->v},
                {w->rope.has_table, &w->rope.table}};
  stg_status status = stg_run_output_check_file(w->file, option, path, reterr);
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && status == STG_OK; i++) {
    if (arrays[i].is_given) {
      status = stg_run_output_check_source(w->file, &arrays[i].array->source, option, path, reterr);
    }
  }
  return status == STG_OK && w->steered ? stg_run_output_check(&w->steer, option, path, reterr)
                                        : status;
}

static stg_status run(void *job, const struct stg_run_options *options, bool *ret_ok,
                      struct stg_strbuf *ret_text, stg_error *reterr) {
  return stg_attention_run(job, options, ret_ok, ret_text, reterr);
}

static void print_job(const void *job, struct stg_strbuf *out) {
  stg_attention_job_print(job, out);
}

static void print_batch(const void *job, struct stg_strbuf *out) {
  const struct stg_batch_sizes sizes = stg_attention_job_sizes(job);
  stg_strbuf_printf(out, "the longest of %u sequences has %u rows", sizes.requests, sizes.longest);
}

static const char *note_of(const void *job, size_t index) {
  return stg_attention_job_note(job, index);
}

static struct stg_explain_about about(const void *job) {
  const struct stg_attention_job *attention = job;
  return (struct stg_explain_about){
      .job = job,
      .family = stg_spec_kind_name(attention->workload.kind),
      .sizes = stg_attention_job_sizes(attention),
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

const struct stg_job_kind stg_job_kind_attention = {
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
