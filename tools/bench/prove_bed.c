/*
 * prove_bed.c: see prove_bed.h. Uses the workload's objects, as `steergraph prove` does.
 */
#include "tools/bench/prove_bed.h"

#include <inttypes.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "specs/spec.h"

#define PLACE "bench prove"
#define CHECK_THREADS 4

bool stg_prove_bed_has_gpu(void) {
  int count = 0;
  int driver = 0;
  return stg_device_count(&count, &driver, NULL) == STG_OK && count > 0;
}

static stg_status open_job(const struct stg_bench_options *options, enum stg_prove_base base,
                           enum stg_prover_arithmetic arithmetic, struct stg_prove_bed *bed,
                           stg_error *reterr) {
  const struct stg_workload_options reader = {0};
  const struct stg_job_options engine = {.backend = bed->cuda ? STG_BACKEND_CUDA : STG_BACKEND_CPU,
                                         .cache_path = options->cache};
  struct stg_strbuf text = {0};
  struct stg_spec spec;
  stg_prove_case_print(base, arithmetic, &text);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_spec_parse(PLACE, text.data, text.len, &reader, &spec, reterr);
  }
  stg_strbuf_finish(&text);
  return status == STG_OK ? stg_prove_job_open(&spec.of.prover, &engine, &bed->job, reterr)
                          : status;
}

/* Two queries that stand together in the workload's pool are corruptions of the same one. */
static stg_status spread(struct stg_prove_bed *bed, size_t least, stg_error *reterr) {
  const size_t n = bed->objects.pool.candidates.n;
  if (n <= least || n % STG_PROVE_STRIDE == 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         PLACE ": there are %zu candidates, more than %zu "
                               "are needed",
                         n, least);
  }
  bed->queries = stg_calloc(n, sizeof *bed->queries);
  bed->proofs = stg_calloc(n, sizeof *bed->proofs);
  if (bed->queries == NULL || bed->proofs == NULL) {
    return stg_error_memory(reterr, "a pool of the bench", n * sizeof *bed->proofs);
  }
  bed->n = n;
  for (size_t i = 0, from = 0; i < n; i++, from = (from + STG_PROVE_STRIDE) % n) {
    bed->queries[i] = bed->objects.queries[from];
  }
  return STG_OK;
}

stg_status stg_prove_bed_init(const struct stg_bench_options *options, enum stg_prove_base base,
                              enum stg_prover_arithmetic arithmetic, size_t least,
                              struct stg_prove_bed *ret, stg_error *reterr) {
  *ret = (struct stg_prove_bed){.cuda = stg_prove_bed_has_gpu()};
  stg_status status = open_job(options, base, arithmetic, ret, reterr);
  if (status == STG_OK) {
    status = stg_prove_objects_init(&ret->job, SIZE_MAX, &ret->objects, reterr);
  }
  return status == STG_OK ? spread(ret, least, reterr) : status;
}

void stg_prove_bed_finish(struct stg_prove_bed *bed) {
  if (bed->job.engine != NULL) {
    stg_mem_free(bed->job.engine, bed->device.queries);
    stg_mem_free(bed->job.engine, bed->device.n);
    stg_mem_free(bed->job.engine, bed->device.proofs);
    stg_prove_objects_finish(&bed->objects);
    stg_prove_job_close(&bed->job);
  }
  stg_free(bed->queries);
  stg_free(bed->proofs);
  *bed = (struct stg_prove_bed){0};
}

struct stg_prove_pool_run stg_prove_pool_of(struct stg_prove_bed *bed, size_t first, size_t n) {
  return (struct stg_prove_pool_run){.bed = bed, .queries = bed->queries + first, .n = n};
}

stg_status stg_prove_bed_run(void *user, const struct stg_bench_buffers *buffers, size_t index,
                             stg_stream stream, stg_error *reterr) {
  const struct stg_prove_pool_run *run = user;
  const stg_prover_run_desc desc = {
      .struct_size = sizeof desc, .queries = run->queries, .n = run->n};
  (void)buffers;
  (void)index;
  (void)stream;
  return stg_prover_run(run->bed->objects.prover, &desc, run->bed->proofs, reterr);
}

stg_status stg_prove_bed_time(struct stg_prove_pool_run *run, double *ret_us, stg_error *reterr) {
  const uint64_t from = stg_clock_ns();
  stg_status status = stg_prove_bed_run(run, NULL, 0, NULL, reterr);
  *ret_us = (double)(stg_clock_ns() - from) * 1e-3;
  return status;
}

/* ---- on the device ---- */

static stg_status make_room(struct stg_prove_bed *bed, stg_error *reterr) {
  struct stg_prove_on_device *device = &bed->device;
  stg_engine *engine = bed->job.engine;
  stg_status status = device->queries != NULL ? STG_OK
                                              : stg_mem_alloc(engine, bed->n * sizeof *bed->queries,
                                                              &device->queries, reterr);
  if (status == STG_OK && device->n == NULL) {
    status = stg_mem_alloc(engine, sizeof(uint32_t), &device->n, reterr);
  }
  return status == STG_OK && device->proofs == NULL
             ? stg_mem_alloc(engine, bed->n * sizeof *bed->proofs, &device->proofs, reterr)
             : status;
}

stg_status stg_prove_bed_upload(struct stg_prove_pool_run *run, stg_error *reterr) {
  const uint32_t n = (uint32_t)run->n;
  struct stg_prove_bed *bed = run->bed;
  stg_status status = make_room(bed, reterr);
  if (status == STG_OK) {
    status = stg_mem_upload(bed->job.engine, bed->device.queries, run->queries,
                            run->n * sizeof *run->queries, reterr);
  }
  return status == STG_OK ? stg_mem_upload(bed->job.engine, bed->device.n, &n, sizeof n, reterr)
                          : status;
}

stg_status stg_prove_bed_launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                stg_stream stream, stg_error *reterr) {
  const struct stg_prove_pool_run *run = user;
  const struct stg_prove_on_device *device = &run->bed->device;
  const stg_prover_launch_desc desc = {.struct_size = sizeof desc,
                                       .queries = device->queries,
                                       .n = device->n,
                                       .proofs = device->proofs};
  (void)buffers;
  (void)index;
  return stg_prover_launch(run->bed->objects.prover, &desc, stream, reterr);
}

stg_status stg_prove_bed_download(struct stg_prove_pool_run *run, stg_error *reterr) {
  struct stg_prove_bed *bed = run->bed;
  return stg_mem_download(bed->job.engine, bed->proofs, bed->device.proofs,
                          run->n * sizeof *bed->proofs, reterr);
}

/* ---- what it did ---- */

stg_prover_counts stg_prove_bed_counts(const struct stg_prove_bed *bed) {
  stg_prover_counts counts = {.struct_size = sizeof counts};
  stg_prover_get_counts(bed->objects.prover, &counts);
  return counts;
}

double stg_prove_bed_bytes(const struct stg_prove_bed *bed, double *ret_states) {
  stg_prover_memory memory = {.struct_size = sizeof memory};
  stg_prover_get_memory(bed->objects.prover, &memory);
  *ret_states = (double)memory.states_bytes;
  return (double)(memory.base_bytes + memory.policy_bytes + memory.states_bytes +
                  memory.pool_bytes);
}

double stg_prove_bed_kernels(const struct stg_prove_bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->job.engine, &stats);
  return (double)(stats.kernel_compiles + stats.kernel_disk_hits + stats.cache_pack_hits);
}

static stg_status say_wrong(const struct stg_prove_bed *bed, const struct stg_prove_check *check,
                            stg_error *reterr) {
  const stg_atom query = bed->queries[check->first];
  return stg_error_set(reterr, STG_E_CORRUPT,
                       "candidate %zu, atom %" PRId32 "(%" PRId32 ", %" PRId32
                       "), has not the %s that the oracle allows; %zu of %zu are wrong",
                       check->first, query.pred, query.arg0, query.arg1,
                       stg_prove_fault_name(check->fault), check->violations, check->checked);
}

stg_status stg_prove_bed_check(const struct stg_prove_bed *bed, size_t n, size_t sample,
                               stg_error *reterr) {
  struct stg_kb_atom *candidates = stg_calloc(n, sizeof *candidates);
  struct stg_prove_check check = {0};
  if (candidates == NULL) {
    return stg_error_memory(reterr, "candidates to be judged", n * sizeof *candidates);
  }
  for (size_t i = 0; i < n; i++) {
    const stg_atom atom = bed->queries[i];
    candidates[i] = (struct stg_kb_atom){atom.pred, atom.arg0, atom.arg1};
  }
  const struct stg_prove_judged judged = {.search = &bed->objects.search,
                                          .candidates = candidates,
                                          .proofs = bed->proofs,
                                          .n = n,
                                          .sample = sample,
                                          .threads = CHECK_THREADS,
                                          .logp_bound = bed->objects.logp_bound};
  stg_status status = stg_prove_check(&judged, &check, reterr);
  if (status == STG_OK && !check.ok) {
    status = say_wrong(bed, &check, reterr);
  }
  stg_free(candidates);
  return status;
}
