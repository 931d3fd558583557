/*
 * components/job.c: see job.h. From the words of a workload to those of the library.
 */
#include "tools/components/job.h"

#include <inttypes.h>

#include "runtime/base/dtype.h"

/* The words of a workload are the library's. */
_Static_assert((int)STG_SPEC_MATH_TF32 == (int)STG_COMPONENTS_TF32, "maths");
_Static_assert((int)STG_SPEC_MASK_BOOL == (int)STG_MASK_BOOL &&
                   (int)STG_SPEC_MASK_NONE == (int)STG_MASK_ABSENT,
               "masks");

static stg_components_desc describe(const struct stg_components_workload *w) {
  return (stg_components_desc){
      .struct_size = sizeof(stg_components_desc),
      .d_in = w->d_in,
      .d_out = w->d_out,
      .components = w->components,
      .dtype = w->dtype,
      .math = (stg_components_math)w->math,
      .mask = (stg_components_mask_kind)w->mask,
      .bias = w->bias,
      .delta = w->delta,
      .backward = w->both,
      .max_rows = w->rows,
      .row_buckets = w->row_buckets,
      .n_row_buckets = w->n_row_buckets,
  };
}

stg_status stg_components_job_open(struct stg_components_workload *workload,
                                   const struct stg_job_options *options,
                                   struct stg_components_job *ret_job, stg_error *reterr) {
  struct stg_components_job job = {.workload = *workload};
  job.desc = describe(&job.workload);
  stg_status status = stg_job_open_engine(options, &job.engine, reterr);
  if (status != STG_OK) {
    stg_components_job_close(&job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

void stg_components_job_close(struct stg_components_job *job) {
  stg_job_close_engine(job->engine);
  stg_components_workload_finish(&job->workload);
}

struct stg_batch_sizes stg_components_job_sizes(const struct stg_components_job *job) {
  const int64_t rows = job->workload.rows;
  return (struct stg_batch_sizes){rows, 1, (uint32_t)rows};
}

void stg_components_job_print(const struct stg_components_job *job, struct stg_strbuf *out) {
  static const char *const masks[] = {[STG_SPEC_MASK_ELEMENTS] = "",
                                      [STG_SPEC_MASK_BOOL] = ", mask of bytes",
                                      [STG_SPEC_MASK_NONE] = ", no mask"};
  const struct stg_components_workload *w = &job->workload;
  stg_strbuf_printf(out,
                    "components, %" PRId64 " rows, %" PRIu32 " to %" PRIu32 " by %" PRIu32
                    " components, %s%s%s%s%s; %s",
                    w->rows, w->d_in, w->d_out, w->components, stg_dtype_name(w->dtype),
                    w->math == STG_SPEC_MATH_TF32 ? " by tf32" : "", masks[w->mask],
                    w->bias ? ", bias" : "", w->delta ? ", delta" : "",
                    w->both ? "forward and back" : "forward");
}
