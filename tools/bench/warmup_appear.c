/*
 * bench/warmup_appear.c: does a call ever wait for a compiler that works for its own thread?
 *
 * One thread serves, and creates a table with a declaration that nobody has compiled every so many
 * calls, and calls it too. Kernels are compiled in the background, and the general ones, which all
 * tables of one geometry share, serve until then. Every other table declares a user op.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "tools/bench/figures.h"
#include "tools/bench/warmup.h"
#include "tools/bench/warmup_pace.h"

#define TABLES 50
#define QUICK_TABLES 2
#define MAX_OPS 3

static const char *const builtins[] = {"ablation",  "add_keep_norm",  "add_norm_matched",
                                       "gated_add", "projection_cap", "scale_norm",
                                       "swap"};
#define N_BUILTINS (sizeof builtins / sizeof builtins[0])
#define N_PAIRS (N_BUILTINS * (N_BUILTINS - 1) / 2)

/* The tables that appear. */
struct appearing {
  struct stg_pace *pace;
  size_t every, count, made; /* calls from one to the next; of tables; of them made */
  struct stg_bench_calls tables[TABLES];
  double create_us[TABLES], first_us[TABLES];
};

/* The n-th pair of built-in ops beside `add`. */
static void choose_pair(size_t n, const char *ret[2]) {
  for (size_t a = 0; a + 1 < N_BUILTINS; a++) {
    const size_t more = N_BUILTINS - 1 - a;
    if (n < more) {
      ret[0] = builtins[a];
      ret[1] = builtins[a + 1 + n];
      return;
    }
    n -= more;
  }
}

static stg_status register_op(stg_engine *engine, size_t n, char name[32], stg_error *reterr) {
  char json[256];
  snprintf(name, 32, "bench_%zu", n);
  snprintf(json, sizeof json,
           "{\"op\": \"%s\", \"vectors\": [\"v\"], \"params\": {\"scale\": {\"default\": 1}},"
           " \"body\": [\"h += (scale * %zu) * v\"]}",
           name, n + 2);
  return stg_op_register(engine, name, json, strlen(json), reterr);
}

/* Even tables declare a user op of their own, odd ones a pair that no other has, and when there are
 * no more pairs a single op. */
static stg_status create_table(const struct appearing *all, size_t n, stg_steer **ret_steer,
                               stg_error *reterr) {
  const char *ops[MAX_OPS] = {"add"};
  char name[32];
  stg_steer_desc desc = stg_bench_calls_desc();
  stg_status status = STG_OK;
  desc.ops = ops;
  if (n % 2 == 0) {
    status = register_op(all->pace->calls.engine, n, name, reterr);
    ops[1] = name;
    desc.n_ops = 2;
  } else if (n / 2 < N_PAIRS) {
    choose_pair(n / 2, &ops[1]);
    desc.n_ops = 3;
  } else {
    ops[1] = builtins[n / 2 - N_PAIRS];
    desc.n_ops = 2;
  }
  return status == STG_OK ? stg_steer_create(all->pace->calls.engine, &desc, ret_steer, reterr)
                          : status;
}

/* One `add` in slot 0, and a frame of its own. */
static stg_status fill_table(struct stg_bench_calls *calls, const struct stg_bench_vectors *vectors,
                             stg_error *reterr) {
  stg_vector vector = 0;
  stg_status status =
      stg_vector_intern(calls->engine, STG_BF16, vectors->data, vectors->length, &vector, reterr);
  if (status != STG_OK) {
    return status;
  }
  const stg_op_call call = {.op = "add", .vectors = {vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  status = stg_steer_slot_set(calls->steer, 0, &chain, 1, reterr);
  const stg_status released =
      stg_vector_release(calls->engine, vector, status == STG_OK ? reterr : NULL);
  status = status == STG_OK ? released : status;
  return status == STG_OK ? stg_frame_create(calls->steer, &calls->frame, reterr) : status;
}

/* Before a call: now and then a table, and its first call, which is timed as others are. */
static stg_status appear(void *user, size_t call, stg_error *reterr) {
  struct appearing *all = user;
  if (all->made == all->count || call / all->every < all->made) {
    return STG_OK;
  }
  struct stg_bench_calls *calls = &all->tables[all->made];
  *calls = all->pace->calls;
  calls->steer = NULL;
  calls->frame = NULL;
  const uint64_t from_ns = stg_clock_ns();
  stg_status status = create_table(all, all->made, &calls->steer, reterr);
  if (status == STG_OK) {
    status = fill_table(calls, &all->pace->vectors, reterr);
  }
  all->create_us[all->made] = (double)(stg_clock_ns() - from_ns) * 1e-3;
  if (status == STG_OK) {
    status = stg_bench_call(calls, false, &all->first_us[all->made], reterr);
  }
  all->made++;
  return status;
}

/* Until all that was declared is there, so that calls see the swaps too; or was given up. */
static bool is_compiling(void *user) {
  const struct appearing *all = user;
  return stg_bench_engine_compiles(all->pace->calls.engine);
}

static stg_status report_appear(struct appearing *all, size_t count, const stg_stats *before,
                                struct stg_bench_report *report, stg_error *reterr) {
  stg_stats after = {.struct_size = sizeof after};
  stg_engine_stats(all->pace->calls.engine, &after);
  char name[96];
  snprintf(name, sizeof name, "calls, their own thread declaring %zu new tables", all->count);
  struct stg_bench_row row = stg_pace_row(all->pace, count, name);
  const struct stg_times create = stg_times_of(all->create_us, all->made);
  const struct stg_times first = stg_times_of(all->first_us, all->made);
  stg_bench_row_extra(&row, "create_p50_us", create.median_us);
  stg_bench_row_extra(&row, "create_p100_us", create.max_us);
  stg_bench_row_extra(&row, "first_call_p50_us", first.median_us);
  stg_bench_row_extra(&row, "first_call_p100_us", first.max_us);
  stg_bench_row_extra(&row, "kernels", (double)(after.kernel_compiles - before->kernel_compiles));
  stg_bench_row_extra(&row, "compile_ms", after.compile_ms - before->compile_ms);
  stg_bench_row_extra(&row, "swaps", (double)(after.kernel_swaps - before->kernel_swaps));
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status measure(struct appearing *all, const struct stg_bench_options *options,
                          struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_pace_beside beside = {.before = appear, .goes_on = is_compiling, .user = all};
  const size_t calls = options->quick ? STG_PACE_QUICK_CALLS : STG_PACE_CALLS;
  stg_stats before = {.struct_size = sizeof before};
  stg_engine_stats(all->pace->calls.engine, &before);
  all->every = calls / all->count;
  size_t count = 0;
  stg_status status = stg_pace_run(all->pace, calls, &beside, &count, reterr);
  if (status == STG_OK) {
    status = report_appear(all, count, &before, report, reterr);
  }
  for (size_t i = 0; i < all->made; i++) {
    stg_bench_calls_close(&all->tables[i]);
  }
  return status;
}

stg_status stg_warmup_appear(const struct stg_bench_options *options,
                             struct stg_bench_report *report, stg_error *reterr) {
  struct stg_pace pace;
  stg_status status = stg_pace_open(&pace, STG_COMPILE_BACKGROUND, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct appearing all = {.pace = &pace, .count = options->quick ? QUICK_TABLES : TABLES};
  status = measure(&all, options, report, reterr);
  stg_pace_close(&pace);
  return status;
}
