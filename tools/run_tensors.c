/*
 * run_tensors.c: see run_tensors.h. Must not know what any op does, nor what comes of the result.
 */
#include "tools/run_tensors.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

static size_t width_of(const struct stg_workload *w) {
  return (size_t)w->hidden_size * stg_dtype_bytes(w->dtype);
}

static size_t pitch_of(const struct stg_workload *w) {
  return (size_t)w->row_stride * stg_dtype_bytes(w->dtype);
}

stg_status stg_run_tensors_check(const struct stg_job *job, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const double gib = 1024.0 * 1024.0 * 1024.0;
  double tensor = (double)w->rows * (double)w->row_stride * (double)stg_dtype_bytes(w->dtype);
  double probes = (double)w->rows * (double)job->desc.probes * sizeof(float) * 3;
  double vectors = (double)job->n_refs * (double)w->hidden_size * (double)sizeof(double);
  double needed = tensor * (w->pair ? 6 : 3) + probes + vectors;
  double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (needed <= available) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CAPACITY,
                       "%s: batch: %lld rows of stride %lld need %.1f GiB of memory, this machine "
                       "has %.1f GiB; use fewer rows",
                       w->file, (long long)w->rows, (long long)w->row_stride, needed / gib,
                       available / gib);
}

static stg_status alloc_host(const struct stg_workload *w, struct stg_run_tensors *t,
                             stg_error *reterr) {
  size_t elems = 0;
  if (!stg_mul_size((size_t)w->rows, (size_t)w->row_stride, &elems) ||
      !stg_mul_size(elems, stg_dtype_bytes(w->dtype), &t->bytes)) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "%s: batch: %lld rows of stride %lld are more than memory can hold",
                         w->file, (long long)w->rows, (long long)w->row_stride);
  }
  t->before = stg_calloc(t->bytes, 1);
  t->after = stg_malloc(t->bytes);
  if (t->before == NULL || t->after == NULL) {
    return stg_error_memory(reterr, "the batch's tensors", t->bytes);
  }
  if (w->pair) {
    t->residual = stg_calloc(t->bytes, 1);
    t->residual_after = stg_malloc(t->bytes);
    if (t->residual == NULL || t->residual_after == NULL) {
      return stg_error_memory(reterr, "the batch's tensors", t->bytes);
    }
  }
  return STG_OK;
}

/* Cells that nothing reaches are NaN, as nothing was measured there. */
static stg_status alloc_probes(const struct stg_job *job, struct stg_run_tensors *t,
                               stg_error *reterr) {
  const size_t cells = (size_t)job->workload.rows * job->desc.probes;
  if (job->desc.probes == 0) {
    return STG_OK;
  }
  t->probe_bytes = cells * sizeof(float);
  t->probes = stg_malloc(t->probe_bytes + 1);
  t->probes_after = stg_malloc(t->probe_bytes + 1);
  if (t->probes == NULL || t->probes_after == NULL) {
    return stg_error_memory(reterr, "the batch's probes", t->probe_bytes);
  }
  for (size_t i = 0; i < cells; i++) {
    t->probes[i] = NAN;
  }
  return stg_mem_alloc(job->engine, t->probe_bytes + 1, &t->device_probes, reterr);
}

static stg_status alloc_tensors(const struct stg_job *job, struct stg_run_tensors *t,
                                stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  stg_status status = alloc_host(w, t, reterr);
  if (status == STG_OK) {
    status = stg_mem_alloc(job->engine, t->bytes, &t->device_hidden, reterr);
  }
  if (status == STG_OK && w->pair) {
    status = stg_mem_alloc(job->engine, t->bytes, &t->device_residual, reterr);
  }
  if (status == STG_OK && w->epilogue) {
    status = stg_mem_alloc(job->engine, width_of(w), &t->device_weight, reterr);
  }
  return status == STG_OK ? alloc_probes(job, t, reterr) : status;
}

static stg_status fill_weight(const struct stg_job *job, struct stg_run_tensors *t,
                              stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const size_t count = (size_t)w->hidden_size;
  float *values = stg_calloc(count, sizeof *values);
  t->weight = stg_malloc(width_of(w));
  if (values == NULL || t->weight == NULL) {
    stg_free(values);
    return stg_error_memory(reterr, "the epilogue's weight", count * sizeof *values);
  }
  stg_status status = stg_workload_read_weight(w, values, reterr);
  if (status == STG_OK) {
    stg_convert(w->dtype, t->weight, STG_F32, values, count);
    status = stg_mem_upload(job->engine, t->device_weight, t->weight, width_of(w), reterr);
  }
  stg_free(values);
  return status;
}

stg_status stg_run_tensors_reset(const struct stg_job *job, const struct stg_run_tensors *tensors,
                                 stg_error *reterr) {
  const struct stg_run_tensors *t = tensors;
  stg_status status = stg_mem_upload(job->engine, t->device_hidden, t->before, t->bytes, reterr);
  if (status == STG_OK && t->residual != NULL) {
    status = stg_mem_upload(job->engine, t->device_residual, t->residual, t->bytes, reterr);
  }
  if (status == STG_OK && t->probe_bytes > 0) {
    status = stg_mem_upload(job->engine, t->device_probes, t->probes, t->probe_bytes, reterr);
  }
  return status;
}

stg_status stg_run_tensors_init(const struct stg_job *job, struct stg_run_tensors *tensors,
                                stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  stg_status status = alloc_tensors(job, tensors, reterr);
  if (status == STG_OK) {
    status = stg_workload_fill(w, &w->hidden, tensors->before, reterr);
  }
  if (status == STG_OK && w->pair) {
    status = stg_workload_fill(w, &w->residual, tensors->residual, reterr);
  }
  if (status == STG_OK && w->epilogue) {
    status = fill_weight(job, tensors, reterr);
  }
  return status == STG_OK ? stg_run_tensors_reset(job, tensors, reterr) : status;
}

void stg_run_tensors_finish(const struct stg_job *job, struct stg_run_tensors *tensors) {
  stg_mem_free(job->engine, tensors->device_hidden);
  stg_mem_free(job->engine, tensors->device_residual);
  stg_mem_free(job->engine, tensors->device_weight);
  stg_mem_free(job->engine, tensors->device_probes);
  stg_free(tensors->before);
  stg_free(tensors->after);
  stg_free(tensors->residual);
  stg_free(tensors->residual_after);
  stg_free(tensors->weight);
  stg_free(tensors->probes);
  stg_free(tensors->probes_after);
  *tensors = (struct stg_run_tensors){0};
}

stg_apply stg_run_tensors_apply(const struct stg_job *job, const struct stg_run_tensors *tensors) {
  return (stg_apply){.struct_size = sizeof(stg_apply),
                     .layer = job->workload.layer,
                     .hidden = tensors->device_hidden,
                     .residual = tensors->device_residual,
                     .row_stride = job->workload.row_stride,
                     .weight = tensors->device_weight,
                     .probes = tensors->device_probes};
}

stg_status stg_run_tensors_fetch(const struct stg_job *job, const struct stg_run_tensors *tensors,
                                 stg_error *reterr) {
  const struct stg_run_tensors *t = tensors;
  stg_status status = stg_mem_download(job->engine, t->after, t->device_hidden, t->bytes, reterr);
  if (status == STG_OK && t->residual != NULL) {
    status = stg_mem_download(job->engine, t->residual_after, t->device_residual, t->bytes, reterr);
  }
  if (status == STG_OK && t->probe_bytes > 0) {
    status =
        stg_mem_download(job->engine, t->probes_after, t->device_probes, t->probe_bytes, reterr);
  }
  return status;
}

/* The elements between rows. */
static stg_status check_gaps(const struct stg_workload *w, const unsigned char *before,
                             const unsigned char *after, const char *what, stg_error *reterr) {
  const size_t pitch = pitch_of(w), width = width_of(w);
  for (size_t row = 0; row < (size_t)w->rows; row++) {
    size_t gap = row * pitch + width;
    if (memcmp(before + gap, after + gap, pitch - width) != 0) {
      return stg_error_set(reterr, STG_E_CORRUPT,
                           "%s: %s: elements past hidden_size of row %zu were written", w->file,
                           what, row);
    }
  }
  return STG_OK;
}

stg_status stg_run_tensors_bystanders(const struct stg_job *job,
                                      const struct stg_run_tensors *tensors, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const struct stg_run_tensors *t = tensors;
  stg_status status = check_gaps(w, t->before, t->after, "hidden", reterr);
  if (status != STG_OK || !w->pair) {
    return status;
  }
  if (w->epilogue) {
    return check_gaps(w, t->residual, t->residual_after, "residual", reterr);
  }
  return memcmp(t->residual, t->residual_after, t->bytes) == 0
             ? STG_OK
             : stg_error_set(reterr, STG_E_CORRUPT, "%s: the residual was written", w->file);
}

struct stg_oracle_batch stg_run_tensors_batch(const struct stg_job *job,
                                              const struct stg_run_tensors *tensors) {
  const struct stg_workload *w = &job->workload;
  return (struct stg_oracle_batch){.hidden_size = w->hidden_size,
                                   .dtype = w->dtype,
                                   .rows = w->rows,
                                   .row_stride = w->row_stride,
                                   .before = tensors->before,
                                   .after = tensors->after,
                                   .residual = tensors->residual,
                                   .weight = tensors->weight,
                                   .epsilon = w->epsilon,
                                   .residual_after = tensors->residual_after,
                                   .n_probes = job->desc.probes,
                                   .probe_stride = job->desc.probes,
                                   .probes_before = tensors->probes,
                                   .probes_after = tensors->probes_after};
}

static void pack(const struct stg_workload *w, unsigned char *rows) {
  const size_t pitch = pitch_of(w), width = width_of(w);
  for (size_t row = 1; row < (size_t)w->rows && pitch != width; row++) {
    memmove(rows + row * width, rows + row * pitch, width);
  }
}

void stg_run_tensors_pack(const struct stg_job *job, const struct stg_run_tensors *tensors) {
  pack(&job->workload, tensors->after);
  if (tensors->residual_after != NULL) {
    pack(&job->workload, tensors->residual_after);
  }
}

stg_status stg_run_tensors_key(const struct stg_job *job, const struct stg_run_tensors *tensors,
                               struct stg_key *ret_key, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const size_t bytes = (size_t)w->rows * width_of(w), residual = w->epilogue ? bytes : 0;
  const size_t all_bytes = bytes + residual + tensors->probe_bytes;
  if (all_bytes == bytes) {
    *ret_key = stg_key_of(tensors->after, bytes);
    return STG_OK;
  }
  unsigned char *all = stg_malloc(all_bytes + 1);
  if (all == NULL) {
    return stg_error_memory(reterr, "the bytes of all tensors", all_bytes);
  }
  memcpy(all, tensors->after, bytes);
  if (residual > 0) {
    memcpy(all + bytes, tensors->residual_after, residual);
  }
  if (tensors->probe_bytes > 0) {
    memcpy(all + bytes + residual, tensors->probes_after, tensors->probe_bytes);
  }
  *ret_key = stg_key_of(all, all_bytes);
  stg_free(all);
  return STG_OK;
}
