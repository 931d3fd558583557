/*
 * bench/suite_rpc.c: `bench rpc`: from the bytes of 32 requests to steered rows.
 *
 * Wall time from the first byte looked at to the synchronisation after the apply. "known": the
 * vectors were in use before; "new": they come for the first time, and are stored and uploaded.
 * Without a GPU there is our side alone, on the CPU backend, in few calls.
 */
#include <stdio.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "tools/bench/bed.h"
#include "tools/bench/rpc.h"
#include "tools/report.h"
#include "tools/workload_job.h"

#define CPU_REPEATS 3
#define QUICK_REPEATS 3

/* Rivals come first, so that ours can say how many times faster it is. */
static const struct way {
  const char *series;
  stg_rpc_run_fn *run;
  bool ours, needs_sha;
  const char *times; /* the extra of our rows that says it */
} ways[] = {
    {"SHA-256, adaptive", stg_rpc_run_digest_adaptive, false, true, "sha256_adaptive_x"},
    {"SHA-256, eager launches", stg_rpc_run_digest_eager, false, true, "sha256_eager_x"},
    {"upload, slice loop", stg_rpc_run_upload_slices, false, false, "upload_slices_x"},
    {"upload, eager launches", stg_rpc_run_upload_eager, false, false, "upload_eager_x"},
    {STG_BENCH_OURS, stg_rpc_run_slots, true, false, NULL},
    {STG_BENCH_OURS " in one call", stg_rpc_run_once, true, false, NULL},
};
#define N_WAYS (sizeof ways / sizeof ways[0])

static stg_status restore(const struct stg_rpc_case *rpc, stg_error *reterr) {
  const struct stg_rpc_suite *suite = rpc->suite;
  if (!suite->on_cuda) {
    return stg_mem_upload(suite->engine, suite->buffers.memory[0], rpc->batch.hidden,
                          suite->buffers.bytes, reterr);
  }
  stg_status status = stg_bench_buffers_restore(suite->engine, &suite->buffers, reterr);
  return status == STG_OK ? stg_mem_synchronize(suite->engine, reterr) : status;
}

/* Before each call: rows as they were, and messages that nobody has seen. Not timed. */
static stg_status prepare(struct stg_rpc_case *rpc, size_t index, bool known, uint32_t *turn,
                          stg_error *reterr) {
  if (!known) {
    stg_rpc_messages_renew(&rpc->messages, 0, STG_BENCH_REQUESTS, ++*turn);
  }
  return index == 0 ? restore(rpc, reterr) : STG_OK;
}

static stg_status time_call(struct stg_rpc_case *rpc, const struct way *way, size_t index,
                            double *ret_us, stg_error *reterr) {
  const uint64_t from = stg_clock_ns();
  stg_status status = way->run(rpc, index, reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(rpc->suite->engine, reterr);
  }
  *ret_us = (double)(stg_clock_ns() - from) * 1e-3;
  return status;
}

static stg_status time_way(struct stg_rpc_case *rpc, const struct way *way, bool known,
                           uint32_t *turn, struct stg_times *ret_times, stg_error *reterr) {
  const struct stg_rpc_suite *suite = rpc->suite;
  const bool few = suite->options->quick || !suite->on_cuda;
  const unsigned warmup = few ? 1 : STG_BENCH_WARMUP;
  const unsigned repeats = !suite->on_cuda         ? CPU_REPEATS
                           : suite->options->quick ? QUICK_REPEATS
                                                   : STG_BENCH_REPEATS;
  double us[STG_BENCH_REPEATS];
  size_t index = 0;
  stg_status status = STG_OK;
  for (unsigned i = 0; status == STG_OK && i < warmup + repeats; i++) {
    double call_us = 0;
    index = i % suite->buffers.count;
    status = prepare(rpc, index, known, turn, reterr);
    if (i == warmup) {
      rpc->parts = (struct stg_rpc_parts){0};
    }
    if (status == STG_OK) {
      status = time_call(rpc, way, index, &call_us, reterr);
    }
    if (i >= warmup) {
      us[i - warmup] = call_us;
    }
  }
  if (status == STG_OK) {
    status = stg_rpc_check(rpc, index, way->series, reterr);
  }
  if (status == STG_OK) {
    *ret_times = stg_times_of(us, repeats);
  }
  return status;
}

/* How many times ours each rival takes, and where the host's time goes. */
static void add_extras(const struct stg_rpc_case *rpc, struct stg_bench_row *row) {
  for (size_t i = 0; i < N_WAYS; i++) {
    const struct stg_bench_row *other =
        ways[i].times == NULL
            ? NULL
            : stg_bench_report_find(rpc->suite->report, row->suite, row->name, ways[i].series);
    if (other != NULL) {
      stg_bench_row_extra(row, ways[i].times, other->wall.median_us / row->wall.median_us);
    }
  }
  const double calls = rpc->parts.calls;
  stg_bench_row_extra(row, "intern_us", rpc->parts.intern_us / calls);
  stg_bench_row_extra(row, "set_us", rpc->parts.set_us / calls);
  stg_bench_row_extra(row, "step_us", rpc->parts.step_us / calls);
}

static stg_status measure_way(struct stg_rpc_case *rpc, const struct way *way, bool known,
                              uint32_t *turn, stg_error *reterr) {
  char name[64];
  snprintf(name, sizeof name, "32 requests, %u %s", (unsigned)rpc->mix.n_distinct,
           known ? "known" : "new");
  struct stg_bench_row row = {.suite = "rpc",
                              .name = name,
                              .series = way->series,
                              .has_wall = true,
                              .card = rpc->suite->info.device};
  if (rpc->cache != NULL) {
    stg_digest_cache_clear(rpc->cache); /* its entries may lie under other vectors by now */
  }
  stg_status status = time_way(rpc, way, known, turn, &row.wall, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (way->ours) {
    add_extras(rpc, &row);
  }
  return stg_bench_report_add(rpc->suite->report, &row, reterr);
}

/* A host that had these requests before still holds their vectors. */
static stg_status keep_vectors(const struct stg_rpc_case *rpc, stg_vector *ret_ids,
                               size_t *ret_count, stg_error *reterr) {
  stg_status status = STG_OK;
  for (*ret_count = 0; status == STG_OK && *ret_count < rpc->mix.n_distinct;) {
    status =
        stg_vector_intern(rpc->suite->engine, STG_BF16, stg_rpc_message(&rpc->messages, *ret_count),
                          rpc->messages.length, &ret_ids[*ret_count], reterr);
    *ret_count += status == STG_OK;
  }
  return status;
}

static stg_status clear_slots(const struct stg_rpc_case *rpc, stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t slot = 0; status == STG_OK && slot < STG_BENCH_REQUESTS; slot++) {
    status = stg_steer_slot_clear(rpc->steer, slot, reterr);
  }
  return status;
}

static stg_status measure_ways(struct stg_rpc_case *rpc, bool known, uint32_t *turn,
                               stg_error *reterr) {
  stg_vector kept[STG_BENCH_REQUESTS];
  size_t n_kept = 0;
  stg_status status = known ? keep_vectors(rpc, kept, &n_kept, reterr) : STG_OK;
  for (size_t i = 0; status == STG_OK && i < N_WAYS; i++) {
    if ((ways[i].ours || rpc->suite->on_cuda) && (!ways[i].needs_sha || rpc->suite->sha != NULL)) {
      status = measure_way(rpc, &ways[i], known, turn, reterr);
    }
    if (status == STG_OK && ways[i].ours) {
      status = clear_slots(rpc, reterr);
    }
  }
  for (size_t i = 0; i < n_kept; i++) {
    stg_status released =
        stg_vector_release(rpc->suite->engine, kept[i], status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? released : status;
  }
  return status;
}

/* The batch's rows are the same for all cases. */
static stg_status init_buffers(struct stg_rpc_suite *suite, const struct stg_bench_batch *batch,
                               stg_error *reterr) {
  if (suite->on_cuda) {
    return stg_bench_bed_buffers(suite->engine, batch, &suite->buffers, reterr);
  }
  const size_t bytes = stg_bench_batch_bytes(batch);
  struct stg_bench_buffers *buffers = &suite->buffers;
  buffers->memory = stg_calloc(1, sizeof(void *));
  if (buffers->memory == NULL) {
    return stg_error_memory(reterr, "the list of buffers", sizeof(void *));
  }
  buffers->count = 1;
  buffers->bytes = bytes;
  stg_status status = stg_mem_alloc(suite->engine, bytes, &buffers->area, reterr);
  buffers->memory[0] = buffers->area;
  return status;
}

static stg_status measure_case(struct stg_rpc_suite *suite, uint32_t n_distinct, uint32_t *turn,
                               stg_error *reterr) {
  struct stg_rpc_case rpc;
  stg_status status = stg_rpc_case_init(suite, n_distinct, &rpc, reterr);
  if (status == STG_OK && suite->buffers.count == 0) {
    status = init_buffers(suite, &rpc.batch, reterr);
  }
  if (status == STG_OK) {
    status = measure_ways(&rpc, true, turn, reterr);
  }
  if (status == STG_OK) {
    status = measure_ways(&rpc, false, turn, reterr); /* last: it changes the messages */
  }
  stg_rpc_case_finish(&rpc);
  return status;
}

static stg_status open_suite(struct stg_rpc_suite *suite, stg_error *reterr) {
  const struct stg_job_options options = {.cache_path = suite->options->cache};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_job_open_engine(&options, &suite->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  suite->info.struct_size = sizeof suite->info;
  stg_engine_get_info(suite->engine, &suite->info);
  suite->on_cuda = suite->info.backend == STG_BACKEND_CUDA;
  if (stg_sha256_create(&suite->sha, &err) != STG_OK) {
    stg_report_progress("bench: rpc: no rows with SHA-256: %s", err.message);
  }
  return suite->on_cuda ? stg_bench_rival_kernels_init(suite->engine, &suite->kernels, reterr)
                        : STG_OK;
}

stg_status stg_bench_suite_rpc(const struct stg_bench_options *options,
                               struct stg_bench_report *report, stg_error *reterr) {
  static const uint32_t distinct[] = {1, 2, 4, 8, 16, 32};
  struct stg_rpc_suite suite = {.options = options, .report = report};
  uint32_t turn = 0;
  stg_status status = open_suite(&suite, reterr);
  if (status == STG_OK) {
    status = stg_rpc_intern_rows(&suite, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < sizeof distinct / sizeof distinct[0]; i++) {
    status = measure_case(&suite, distinct[i], &turn, reterr);
  }
  stg_bench_buffers_finish(suite.engine, &suite.buffers);
  stg_bench_rival_kernels_finish(&suite.kernels);
  stg_sha256_destroy(suite.sha);
  stg_job_close_engine(suite.engine);
  return status;
}
