/*
 * attention/tensors.c: how large each tensor is, its memory, and the ways between host and device.
 */
#include "tools/attention/tensors.h"

#include <unistd.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

/* Sizes, as far as memory goes: the reader bounds each factor, so that no product leaves a double's
 * 53 bits by more than what is refused anyway. */
struct sizes {
  double of[STG_ATTENTION_TENSORS];
};

static void k_and_v(struct sizes *sizes, enum stg_attention_tensor_name k, double bytes) {
  sizes->of[k] = bytes;
  sizes->of[k + 1] = bytes;
}

static struct sizes measure(const struct stg_attention_job *job) {
  const struct stg_attention_workload *w = &job->workload;
  const struct stg_spec_cache *cache = &w->cache;
  const double element = (double)stg_dtype_bytes(w->dtype), rows = (double)w->rows;
  const double head = (double)w->dim * element;
  const double q = rows * (double)w->heads * head, k = rows * (double)w->kv_heads * head;
  const double positions = (double)cache->batch * (double)cache->capacity;
  struct sizes sizes = {{0}};
  if (job->has_rope) {
    sizes.of[STG_ATTENTION_QKV] = q + 2 * k;
  }
  sizes.of[STG_ATTENTION_Q] = q;
  if (job->has_attend) {
    sizes.of[STG_ATTENTION_OUT] = q;
    sizes.of[STG_ATTENTION_UNSTEERED] = w->steered ? q : 0;
  }
  if (cache->tokens) {
    k_and_v(&sizes, STG_ATTENTION_K, positions * (double)w->kv_heads * head);
    sizes.of[STG_ATTENTION_MASK] = cache->key_mask != NULL ? positions : 0;
  } else if (job->has_kv) {
    const double of_pool = (double)cache->n_blocks * (double)cache->block;
    k_and_v(&sizes, STG_ATTENTION_CACHE_K,
            (double)w->layers * (cache->block > 0 ? of_pool : positions) * (double)w->kv_heads *
                head);
    sizes.of[STG_ATTENTION_TABLE] =
        (double)cache->batch * (double)stg_attention_table_row(w) * sizeof(int32_t);
  } else {
    k_and_v(&sizes, STG_ATTENTION_K, k);
  }
  if (cache->exists) {
    sizes.of[STG_ATTENTION_LENGTHS] = (double)cache->batch * sizeof(int32_t);
  }
  return sizes;
}

stg_status stg_attention_tensors_check(const struct stg_attention_job *job, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const struct sizes sizes = measure(job);
  const double gib = 1024.0 * 1024.0 * 1024.0;
  double needed = (double)w->rows * 2 * sizeof(int64_t);
  for (size_t i = 0; i < STG_ATTENTION_TENSORS; i++) {
    needed += 3 * sizes.of[i];
  }
  if (w->rope.has_table) {
    needed += 2 * (double)w->rope.table.elems * sizeof(float);
  }
  const double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (needed <= available) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CAPACITY,
                       "%s: %s: %lld rows and %u x %lld positions of %u layers need %.1f GiB of "
                       "memory, this machine has %.1f GiB; use less of them",
                       w->file, w->cache.exists ? "cache" : "rows", (long long)w->rows,
                       w->cache.batch, (long long)w->cache.capacity, w->layers, needed / gib,
                       available / gib);
}

static stg_status alloc_one(const struct stg_attention_job *job, struct stg_attention_tensor *t,
                            stg_error *reterr) {
  if (t->bytes == 0) {
    return STG_OK;
  }
  t->before = stg_malloc(t->bytes);
  t->after = stg_malloc(t->bytes);
  if (t->before == NULL || t->after == NULL) {
    return stg_error_memory(reterr, "the step's tensors", t->bytes);
  }
  return t->is_borrowed ? STG_OK : stg_mem_alloc(job->engine, t->bytes, &t->device, reterr);
}

static stg_status alloc_rows(const struct stg_attention_workload *w,
                             struct stg_attention_tensors *tensors, stg_error *reterr) {
  const size_t rows = (size_t)w->rows + 1;
  const size_t width = w->positions == STG_SPEC_POSITIONS_I64 ? sizeof(int64_t) : sizeof(int32_t);
  tensors->seq = stg_calloc(rows, sizeof *tensors->seq);
  tensors->pos = w->positions != STG_SPEC_POSITIONS_LEN ? stg_calloc(rows, width) : NULL;
  const bool is_there =
      tensors->seq != NULL && (tensors->pos != NULL || w->positions == STG_SPEC_POSITIONS_LEN);
  return is_there ? STG_OK : stg_error_memory(reterr, "the step's rows", rows * width);
}

stg_status stg_attention_tensors_init(const struct stg_attention_job *job,
                                      struct stg_attention_tensors *tensors, stg_error *reterr) {
  const struct sizes sizes = measure(job);
  stg_status status = alloc_rows(&job->workload, tensors, reterr);
  for (size_t i = 0; i < STG_ATTENTION_TENSORS && status == STG_OK; i++) {
    struct stg_attention_tensor *t = &tensors->of[i];
    t->bytes = (size_t)sizes.of[i];
    t->is_borrowed = job->has_kv && (i == STG_ATTENTION_CACHE_K || i == STG_ATTENTION_CACHE_V ||
                                     i == STG_ATTENTION_LENGTHS || i == STG_ATTENTION_TABLE);
    status = alloc_one(job, t, reterr);
  }
  return status;
}

void stg_attention_tensors_finish(const struct stg_attention_job *job,
                                  struct stg_attention_tensors *tensors) {
  for (size_t i = 0; i < STG_ATTENTION_TENSORS; i++) {
    struct stg_attention_tensor *t = &tensors->of[i];
    stg_free(t->before);
    stg_free(t->after);
    if (!t->is_borrowed) {
      stg_mem_free(job->engine, t->device);
    }
  }
  stg_free(tensors->seq);
  stg_free(tensors->pos);
  *tensors = (struct stg_attention_tensors){.seq = NULL};
}

void stg_attention_tensors_borrow(struct stg_attention_tensors *tensors,
                                  const stg_kv_tensors *cache) {
  void *const memory[STG_ATTENTION_TENSORS] = {
      [STG_ATTENTION_CACHE_K] = cache->k,
      [STG_ATTENTION_CACHE_V] = cache->v,
      [STG_ATTENTION_LENGTHS] = cache->len,
      [STG_ATTENTION_TABLE] = cache->block_table,
  };
  for (size_t i = 0; i < STG_ATTENTION_TENSORS; i++) {
    if (tensors->of[i].is_borrowed) {
      tensors->of[i].device = memory[i];
    }
  }
}

stg_status stg_attention_tensor_upload(const struct stg_attention_job *job,
                                       const struct stg_attention_tensor *tensor,
                                       stg_error *reterr) {
  return stg_mem_upload(job->engine, tensor->device, tensor->before, tensor->bytes, reterr);
}

stg_status stg_attention_tensor_fetch(const struct stg_attention_job *job,
                                      const struct stg_attention_tensor *tensor,
                                      stg_error *reterr) {
  return stg_mem_download(job->engine, tensor->after, tensor->device, tensor->bytes, reterr);
}

stg_status stg_attention_tensors_upload(const struct stg_attention_job *job,
                                        const struct stg_attention_tensors *tensors,
                                        stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < STG_ATTENTION_TENSORS && status == STG_OK; i++) {
    status = stg_attention_tensor_upload(job, &tensors->of[i], reterr);
  }
  return status;
}

stg_status stg_attention_tensors_fetch(const struct stg_attention_job *job,
                                       const struct stg_attention_tensors *tensors,
                                       stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < STG_ATTENTION_TENSORS && status == STG_OK; i++) {
    status = stg_attention_tensor_fetch(job, &tensors->of[i], reterr);
  }
  return status;
}
