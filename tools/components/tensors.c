/*
 * components/tensors.c: see tensors.h. How large each tensor is, its memory, what it begins with,
 * and the ways between host and device.
 */
#include "tools/components/tensors.h"

#include <string.h>
#include <unistd.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

/* Every byte all ones is NaN in each type. */
#define NAN_BYTE 0xff

const char *stg_components_tensor_name(unsigned tensor) {
  if (tensor < STG_SPEC_COMPONENTS_INPUTS) {
    return stg_components_input_name((enum stg_spec_components_input)tensor);
  }
  if (tensor == STG_COMPONENTS_Y || tensor == STG_COMPONENTS_VALID) {
    return tensor == STG_COMPONENTS_Y ? "y" : "valid";
  }
  return stg_oracle_components_gradient(tensor - STG_COMPONENTS_GRADIENT);
}

/* Of whose shape a result is. */
static enum stg_spec_components_input model_of(unsigned tensor) {
  static const enum stg_spec_components_input models[] = {
      STG_SPEC_COMPONENTS_X,    STG_SPEC_COMPONENTS_V,    STG_SPEC_COMPONENTS_U,
      STG_SPEC_COMPONENTS_MASK, STG_SPEC_COMPONENTS_BIAS, STG_SPEC_COMPONENTS_D,
      STG_SPEC_COMPONENTS_DELTA};
  _Static_assert(sizeof models / sizeof models[0] == STG_ORACLE_COMPONENTS_GRADIENTS, "one each");
  return models[tensor - STG_COMPONENTS_GRADIENT];
}

/* Bytes of an element; 0: there is no such tensor. */
static size_t measure(const struct stg_components_workload *w, unsigned tensor, int64_t shape[2]) {
  const size_t element = stg_dtype_bytes(w->dtype);
  shape[1] = 0;
  if (tensor == STG_COMPONENTS_VALID) {
    shape[0] = w->sequences;
    return w->valid != NULL ? sizeof(int32_t) : 0;
  }
  if (tensor == STG_COMPONENTS_Y) {
    shape[0] = w->rows;
    shape[1] = (int64_t)w->d_out;
    return element;
  }
  const bool is_input = tensor < STG_SPEC_COMPONENTS_INPUTS;
  const unsigned input = is_input ? tensor : (unsigned)model_of(tensor);
  shape[0] = w->inputs[input].shape[0];
  shape[1] = w->inputs[input].n_dims > 1 ? w->inputs[input].shape[1] : 0;
  const bool bytes = input == STG_SPEC_COMPONENTS_MASK && w->mask == STG_SPEC_MASK_BOOL;
  if (!w->has[input] || (!is_input && (!w->both || bytes))) {
    return 0;
  }
  return bytes ? 1 : element;
}

stg_status stg_components_tensors_check(const struct stg_components_job *job, stg_error *reterr) {
  const struct stg_components_workload *w = &job->workload;
  const double gib = 1024.0 * 1024.0 * 1024.0;
  double needed = 0;
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS; i++) {
    int64_t shape[2];
    const double element = (double)measure(w, i, shape);
    needed += 3 * element * (double)shape[0] * (shape[1] == 0 ? 1 : (double)shape[1]);
  }
  const double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (needed <= available) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CAPACITY,
                       "%s: rows: %lld rows of %u to %u by %u components need %.1f GiB of memory, "
                       "this machine has %.1f GiB; use less of them",
                       w->file, (long long)w->rows, w->d_in, w->d_out, w->components, needed / gib,
                       available / gib);
}

static stg_status alloc_one(const struct stg_components_job *job, unsigned tensor,
                            struct stg_components_tensor *t, stg_error *reterr) {
  const size_t element = measure(&job->workload, tensor, t->shape);
  t->bytes = element * (size_t)t->shape[0] * (t->shape[1] == 0 ? 1 : (size_t)t->shape[1]);
  if (t->bytes == 0) {
    return STG_OK;
  }
  t->before = stg_malloc(t->bytes);
  t->after = stg_malloc(t->bytes);
  if (t->before == NULL || t->after == NULL) {
    return stg_error_memory(reterr, "the tensors of a run", t->bytes);
  }
  return stg_mem_alloc(job->engine, t->bytes, &t->device, reterr);
}

static bool is_padding(const struct stg_components_workload *w, int64_t row) {
  const struct stg_components_rows rows = {w->rows, w->sequence, w->valid};
  return !stg_components_is_live(&rows, row);
}

/* Nothing reads rows of padding: what they have can be anything. */
static void spoil_padding(const struct stg_components_workload *w, struct stg_components_all *all) {
  const struct {
    unsigned tensor;
    bool is_of_rows;
  } inputs[] = {{STG_SPEC_COMPONENTS_X, true},
                {STG_SPEC_COMPONENTS_D, true},
                {STG_SPEC_COMPONENTS_DY, true},
                {STG_SPEC_COMPONENTS_MASK, w->share == 1}};
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && w->valid != NULL; i++) {
    struct stg_components_tensor *t = &all->of[inputs[i].tensor];
    const size_t row_bytes = t->bytes / (size_t)w->rows;
    for (int64_t row = 0; row < w->rows && inputs[i].is_of_rows && t->bytes > 0; row++) {
      if (is_padding(w, row)) {
        memset(t->before + (size_t)row * row_bytes, NAN_BYTE, row_bytes);
      }
    }
  }
}

static stg_status fill(const struct stg_components_workload *w, struct stg_components_all *all,
                       stg_error *reterr) {
  stg_status status = STG_OK;
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS && status == STG_OK; i++) {
    struct stg_components_tensor *t = &all->of[i];
    if (t->bytes == 0) {
      continue;
    }
    if (i < STG_SPEC_COMPONENTS_INPUTS) {
      status =
          stg_components_workload_fill(w, (enum stg_spec_components_input)i, t->before, reterr);
    } else if (i == STG_COMPONENTS_VALID) {
      memcpy(t->before, w->valid, t->bytes);
    } else {
      memset(t->before, NAN_BYTE, t->bytes);
    }
  }
  spoil_padding(w, all);
  return status;
}

/* Memory for sums on the way back, which is the engine's to size. */
static stg_status alloc_work(const struct stg_components_job *job, const stg_components *components,
                             struct stg_components_all *all, stg_error *reterr) {
  const struct stg_components_workload *w = &job->workload;
  if (!w->both) {
    return STG_OK;
  }
  const int64_t share = w->mask == STG_SPEC_MASK_NONE ? 1 : w->share;
  stg_status status =
      stg_components_work_bytes(components, w->rows, share, &all->work_bytes, reterr);
  return status == STG_OK && all->work_bytes > 0
             ? stg_mem_alloc(job->engine, all->work_bytes, &all->work, reterr)
             : status;
}

stg_status stg_components_tensors_init(const struct stg_components_job *job,
                                       const stg_components *components,
                                       struct stg_components_all *all, stg_error *reterr) {
  stg_status status = alloc_work(job, components, all, reterr);
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS && status == STG_OK; i++) {
    status = alloc_one(job, i, &all->of[i], reterr);
  }
  if (status == STG_OK) {
    status = fill(&job->workload, all, reterr);
  }
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS && status == STG_OK; i++) {
    const struct stg_components_tensor *t = &all->of[i];
    status = stg_mem_upload(job->engine, t->device, t->before, t->bytes, reterr);
  }
  return status;
}

void stg_components_tensors_finish(const struct stg_components_job *job,
                                   struct stg_components_all *all) {
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS; i++) {
    stg_free(all->of[i].before);
    stg_free(all->of[i].after);
    stg_mem_free(job->engine, all->of[i].device);
  }
  stg_mem_free(job->engine, all->work);
  *all = (struct stg_components_all){.work = NULL};
}

stg_status stg_components_tensors_fetch(const struct stg_components_job *job,
                                        const struct stg_components_all *all, stg_error *reterr) {
  stg_status status = STG_OK;
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS && status == STG_OK; i++) {
    const struct stg_components_tensor *t = &all->of[i];
    status = stg_mem_download(job->engine, t->after, t->device, t->bytes, reterr);
  }
  return status;
}

stg_components_tensors stg_components_call_of(const struct stg_components_job *job,
                                              const struct stg_components_all *all) {
  const struct stg_components_workload *w = &job->workload;
  return (stg_components_tensors){
      .struct_size = sizeof(stg_components_tensors),
      .rows = w->rows,
      .x = all->of[STG_SPEC_COMPONENTS_X].device,
      .v = all->of[STG_SPEC_COMPONENTS_V].device,
      .u = all->of[STG_SPEC_COMPONENTS_U].device,
      .mask = all->of[STG_SPEC_COMPONENTS_MASK].device,
      .mask_share = w->mask == STG_SPEC_MASK_NONE ? 1 : w->share,
      .bias = all->of[STG_SPEC_COMPONENTS_BIAS].device,
      .d = all->of[STG_SPEC_COMPONENTS_D].device,
      .delta = all->of[STG_SPEC_COMPONENTS_DELTA].device,
      .y = all->of[STG_COMPONENTS_Y].device,
      .valid = all->of[STG_COMPONENTS_VALID].device,
      .sequence = w->sequence,
  };
}

stg_components_grads stg_components_grads_of(const struct stg_components_all *all) {
  const struct stg_components_tensor *gradients = &all->of[STG_COMPONENTS_GRADIENT];
  return (stg_components_grads){
      .struct_size = sizeof(stg_components_grads),
      .dy = all->of[STG_SPEC_COMPONENTS_DY].device,
      .dx = gradients[0].device,
      .dv = gradients[1].device,
      .du = gradients[2].device,
      .dm = gradients[3].device,
      .dbias = gradients[4].device,
      .dd = gradients[5].device,
      .ddelta = gradients[6].device,
      .work = all->work,
      .work_bytes = all->work_bytes,
  };
}
