/*
 * bench/warmup_child.c: the measured process of the suite `warmup`.
 *
 * Whatever a host has anyway, vectors and hidden states, is made between two measured parts and
 * counts in since_exec_ms alone.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/clock.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "tools/bench/calls.h"
#include "tools/bench/warmup.h"
#include "tools/workload_job.h"

#define QUICK_REPEATS 5
/* Before a swap that does not come is given up. */
#define SWAP_LIMIT_MS 60000

/* What a kind of process has and does. */
struct kind {
  const char *word, *name; /* name: of its row */
  stg_compile_mode compile;
  bool compiles; /* it has no kernel, and loads NVRTC */
  bool is_pack;  /* the cache is a pack */
};

static const struct kind kinds[] = {
    {STG_WARMUP_COLD, STG_BENCH_CHILD " " STG_WARMUP_COLD, STG_COMPILE_BLOCK, true, false},
    {STG_WARMUP_DISK, STG_BENCH_CHILD " " STG_WARMUP_DISK, STG_COMPILE_BLOCK, false, false},
    {STG_WARMUP_PACK, STG_BENCH_CHILD " " STG_WARMUP_PACK, STG_COMPILE_BLOCK, false, true},
    {STG_WARMUP_TIERS, STG_BENCH_CHILD " " STG_WARMUP_TIERS, STG_COMPILE_BACKGROUND, true, false},
};

struct child {
  const struct kind *kind;
  struct stg_bench_calls calls;
  struct stg_bench_vectors vectors;
  int32_t row_map[STG_BENCH_REQUESTS * STG_BENCH_ROWS_PER_REQUEST];
  struct stg_warmup_facts facts;
};

static double ms_since(uint64_t from_ns) {
  return (double)(stg_clock_ns() - from_ns) * 1e-6;
}

static void describe_step(struct child *child) {
  const size_t rows = sizeof child->row_map / sizeof child->row_map[0];
  for (size_t i = 0; i < rows; i++) {
    child->row_map[i] = (int32_t)(i / STG_BENCH_ROWS_PER_REQUEST);
  }
  child->calls.step = (stg_step){
      .struct_size = sizeof child->calls.step, .rows = (int64_t)rows, .row_map = child->row_map};
}

static stg_status open_context(struct child *child, const char *cache, stg_error *reterr) {
  const struct stg_job_options options = {.backend = STG_BACKEND_CUDA,
                                          .cache_path = child->kind->is_pack ? "" : cache,
                                          .pack_path = child->kind->is_pack ? cache : "",
                                          .cache_is_own = true,
                                          .compile = child->kind->compile};
  const uint64_t from = stg_clock_ns();
  stg_status status = stg_job_open_engine(&options, &child->calls.engine, reterr);
  child->facts.context_ms = ms_since(from);
  if (status != STG_OK) {
    return status;
  }
  child->facts.sm = (double)stg_device_get_info(stg_mem_device(child->calls.engine))->sm;
  child->calls.stream = stg_mem_stream(child->calls.engine);
  return stg_bench_calls_hold(&child->calls, reterr);
}

static stg_status load_compiler(struct child *child, stg_error *reterr) {
  struct stg_nvrtc_info info;
  const uint64_t from = stg_clock_ns();
  stg_status status = stg_nvrtc_info(&info, reterr);
  child->facts.nvrtc_load_ms = ms_since(from);
  return status;
}

/* The mixture's ops. Declared alone they are another kernel than the general one. */
static stg_steer_desc describe_table(const struct child *child) {
  static const char *const ops[] = {"ablation", "add", "projection_cap"};
  stg_steer_desc desc = stg_bench_calls_desc();
  if (child->kind->compile == STG_COMPILE_BACKGROUND) {
    desc.ops = ops;
    desc.n_ops = sizeof ops / sizeof ops[0];
  }
  return desc;
}

/* What gave the first result. */
static stg_status note_kernel(struct child *child, stg_error *reterr) {
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_status status = stg_frame_plan(child->calls.frame, &plan, reterr);
  if (status == STG_OK) {
    child->facts.first_tier = plan.tier;
    child->facts.first_prefill = strstr(plan.signature, "tile=prefill") != NULL ? 1 : 0;
  }
  return status;
}

/* From nothing to steered rows: the table, the mixture, a frame, one call. */
static stg_status reach_result(struct child *child, double *ret_create_ms, double *ret_call_ms,
                               stg_error *reterr) {
  struct stg_bench_calls *calls = &child->calls;
  const stg_steer_desc desc = describe_table(child);
  uint64_t from = stg_clock_ns();
  stg_status status = stg_steer_create(calls->engine, &desc, &calls->steer, reterr);
  *ret_create_ms = ms_since(from);
  from = stg_clock_ns();
  if (status == STG_OK) {
    status = stg_bench_calls_fill(calls, &child->vectors, reterr);
  }
  double us;
  if (status == STG_OK) {
    status = stg_bench_call(calls, false, &us, reterr);
  }
  *ret_call_ms = ms_since(from);
  return status;
}

static stg_status time_calls(struct child *child, size_t count, bool apply_only, double *ret_us,
                             stg_error *reterr) {
  double us[STG_BENCH_REPEATS];
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < STG_BENCH_WARMUP + count; i++) {
    const size_t slot = i < STG_BENCH_WARMUP ? 0 : i - STG_BENCH_WARMUP;
    status = stg_bench_call(&child->calls, apply_only, &us[slot], reterr);
  }
  if (status == STG_OK) {
    *ret_us = stg_times_of(us, count).median_us;
  }
  return status;
}

static stg_status time_later(struct child *child, bool quick, stg_error *reterr) {
  const size_t count = quick ? QUICK_REPEATS : STG_BENCH_REPEATS;
  stg_status status = time_calls(child, count, false, &child->facts.later_us, reterr);
  return status == STG_OK ? time_calls(child, count, true, &child->facts.apply_us, reterr) : status;
}

/* The kernels are in memory as long as the first table lives. */
static stg_status time_in_memory(struct child *child, stg_error *reterr) {
  struct stg_bench_calls first = child->calls;
  double create_ms;
  double call_ms;
  child->calls.steer = NULL;
  child->calls.frame = NULL;
  stg_status status = reach_result(child, &create_ms, &call_ms, reterr);
  child->facts.memory_ms = create_ms + call_ms;
  stg_bench_calls_close(&child->calls);
  child->calls = first;
  return status;
}

/* Calls go on until the declared kernel of their tile is there and a step takes it; and then until
 * nothing compiles beside what is timed next. */
static stg_status wait_for_swap(struct child *child, uint64_t from_ns, stg_error *reterr) {
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_status status = stg_frame_plan(child->calls.frame, &plan, reterr);
  double us;
  while (status == STG_OK && plan.tier != 1) {
    if (ms_since(from_ns) > SWAP_LIMIT_MS) {
      return stg_error_set(reterr, STG_E_PENDING,
                           "bench warmup: the declared kernels did not come in %d ms",
                           SWAP_LIMIT_MS);
    }
    status = stg_bench_call(&child->calls, false, &us, reterr);
    if (status == STG_OK) {
      status = stg_frame_plan(child->calls.frame, &plan, reterr);
    }
  }
  child->facts.swap_ms = ms_since(from_ns);
  while (status == STG_OK && stg_bench_engine_compiles(child->calls.engine)) {
    status = stg_bench_call(&child->calls, false, &us, reterr);
  }
  return status;
}

static stg_status read_counters(struct child *child, stg_error *reterr) {
  const bool cold = child->kind->compiles;
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(child->calls.engine, &stats);
  child->facts.compile_ms = stats.compile_ms;
  child->facts.module_load_ms = stats.load_us * 1e-3;
  child->facts.kernels = (double)stats.kernel_compiles;
  if (cold != (stats.kernel_compiles > 0)) {
    return stg_error_set(reterr, STG_E_NOT_WARM,
                         "bench warmup: %s cache, and %llu kernels were compiled; %s",
                         cold ? "an empty" : "a filled", (unsigned long long)stats.kernel_compiles,
                         cold ? "the folder is not empty" : "can the folder be written?");
  }
  if (!cold && stg_nvrtc_is_loaded()) {
    return stg_error_set(reterr, STG_E_NOT_WARM,
                         "bench warmup: NVRTC was loaded although every kernel is in the cache");
  }
  return STG_OK;
}

static stg_status measure(struct child *child, const struct stg_bench_options *options,
                          uint64_t spawn_ns, stg_error *reterr) {
  struct stg_warmup_facts *facts = &child->facts;
  uint64_t from_ns = 0;
  stg_status status = open_context(child, options->cache, reterr);
  if (status == STG_OK) {
    status = stg_bench_vectors_init(STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &child->vectors, reterr);
  }
  if (status == STG_OK) {
    describe_step(child);
    status = stg_bench_rows_alloc(child->calls.engine, (size_t)child->calls.step.rows,
                                  STG_BENCH_HIDDEN, &child->calls.rows, reterr);
  }
  if (status == STG_OK && child->kind->compiles) {
    status = load_compiler(child, reterr);
  }
  if (status == STG_OK) {
    from_ns = stg_clock_ns();
    status = reach_result(child, &facts->create_ms, &facts->first_call_ms, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  facts->since_exec_ms = ms_since(spawn_ns);
  facts->after_context_ms = facts->nvrtc_load_ms + facts->create_ms + facts->first_call_ms;
  facts->total_ms = facts->context_ms + facts->after_context_ms;
  status = note_kernel(child, reterr);
  if (status == STG_OK && child->kind->compile == STG_COMPILE_BACKGROUND) {
    status = wait_for_swap(child, from_ns, reterr);
  }
  if (status == STG_OK) {
    status = read_counters(child, reterr);
  }
  if (status == STG_OK) {
    status = time_later(child, options->quick, reterr);
  }
  return status == STG_OK ? time_in_memory(child, reterr) : status;
}

static const struct kind *find_kind(const char *word) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(kinds[i].word, word) == 0) {
      return &kinds[i];
    }
  }
  return NULL;
}

stg_status stg_warmup_child(const struct stg_bench_options *options, const char *kind,
                            uint64_t spawn_ns, struct stg_bench_report *report, stg_error *reterr) {
  struct child child = {.kind = find_kind(kind)};
  if (child.kind == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "bench warmup: no measured process is '%s'", kind);
  }
  stg_status status = measure(&child, options, spawn_ns, reterr);
  if (child.calls.engine != NULL) {
    stg_bench_calls_close(&child.calls);
    stg_bench_calls_let_go(&child.calls);
    stg_mem_free(child.calls.engine, child.calls.rows);
    stg_job_close_engine(child.calls.engine);
  }
  stg_bench_vectors_finish(&child.vectors);
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row = {
      .suite = "warmup",
      .name = child.kind->name,
      .series = STG_BENCH_OURS,
  };
#define ADD(name) stg_bench_row_extra(&row, #name, child.facts.name);
  STG_WARMUP_FACTS(ADD)
#undef ADD
  return stg_bench_report_add(report, &row, reterr);
}
