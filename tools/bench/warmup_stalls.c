/*
 * bench/warmup_stalls.c: does a call ever wait for a compiler that works for a second thread?
 *
 * Where stg_steer_create compiles in its caller (block), new tables are created on a second thread,
 * as a host does it that must go on serving.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tools/bench/warmup.h"
#include "tools/bench/warmup_pace.h"

#define TABLES 50
#define QUICK_TABLES 2

/* Hidden sizes that no other part of the bench has; rows of 16-byte multiples. */
#define FIRST_HIDDEN 1000
#define HIDDEN_STEP 40

struct builder {
  stg_engine *engine;
  size_t count;
  stg_steer *tables[TABLES];
  stg_status status;
  stg_error err;
  atomic_bool stop, done;
};

/* Every other table declares all built-ins, the rest two ops. */
static stg_steer_desc describe_table(size_t index) {
  static const char *const few[] = {"add", "ablation"};
  return (stg_steer_desc){
      .struct_size = sizeof(stg_steer_desc),
      .hidden_size = FIRST_HIDDEN + HIDDEN_STEP * (int64_t)index,
      .dtype = STG_BF16,
      .max_rows = 64,
      .max_slots = 8,
      .ops = index % 2 != 0 ? few : NULL,
      .n_ops = index % 2 != 0 ? 2 : 0,
  };
}

static void *build_tables(void *user) {
  struct builder *builder = user;
  for (size_t i = 0; i < builder->count && builder->status == STG_OK; i++) {
    const stg_steer_desc desc = describe_table(i);
    if (atomic_load(&builder->stop)) {
      break;
    }
    builder->status = stg_steer_create(builder->engine, &desc, &builder->tables[i], &builder->err);
  }
  atomic_store(&builder->done, true);
  return NULL;
}

static void destroy_tables(struct builder *builder) {
  for (size_t i = 0; i < builder->count; i++) {
    stg_bench_calls_close(&(struct stg_bench_calls){.steer = builder->tables[i]});
  }
}

static bool is_building(void *user) {
  struct builder *builder = user;
  return !atomic_load(&builder->done);
}

static stg_status measure_alone(struct stg_pace *pace, size_t calls,
                                struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_pace_beside nothing = {.user = NULL};
  size_t count = 0;
  stg_status status = stg_pace_run(pace, calls, &nothing, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_bench_row row = stg_pace_row(pace, count, "calls, nothing beside them");
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status report_beside(struct stg_pace *pace, size_t count, const struct builder *builder,
                                const stg_stats *before, struct stg_bench_report *report,
                                stg_error *reterr) {
  stg_stats after = {.struct_size = sizeof after};
  stg_engine_stats(pace->calls.engine, &after);
  char name[96];
  snprintf(name, sizeof name, "calls, a second thread creating %zu new tables", builder->count);
  struct stg_bench_row row = stg_pace_row(pace, count, name);
  stg_bench_row_extra(&row, "kernels", (double)(after.kernel_compiles - before->kernel_compiles));
  stg_bench_row_extra(&row, "compile_ms", after.compile_ms - before->compile_ms);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status measure_beside(struct stg_pace *pace, const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  struct builder builder = {.engine = pace->calls.engine,
                            .count = options->quick ? QUICK_TABLES : TABLES,
                            .err = STG_ERROR_INIT};
  const struct stg_pace_beside beside = {.goes_on = is_building, .user = &builder};
  stg_stats before = {.struct_size = sizeof before};
  stg_engine_stats(builder.engine, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, NULL, build_tables, &builder);
  if (failed != 0) {
    return stg_error_io(reterr, failed, "start", "a thread that creates tables");
  }
  size_t count = 0;
  stg_status status = stg_pace_run(pace, options->quick ? STG_PACE_QUICK_CALLS : STG_PACE_CALLS,
                                   &beside, &count, reterr);
  atomic_store(&builder.stop, status != STG_OK);
  pthread_join(thread, NULL);
  if (status == STG_OK && builder.status != STG_OK) {
    status = stg_error_set(reterr, builder.status, "%s", builder.err.message);
  }
  if (status == STG_OK) {
    status = report_beside(pace, count, &builder, &before, report, reterr);
  }
  destroy_tables(&builder);
  return status;
}

stg_status stg_warmup_stalls(const struct stg_bench_options *options,
                             struct stg_bench_report *report, stg_error *reterr) {
  struct stg_pace pace;
  stg_status status = stg_pace_open(&pace, STG_COMPILE_BLOCK, reterr);
  if (status != STG_OK) {
    return status;
  }
  status =
      measure_alone(&pace, options->quick ? STG_PACE_QUICK_CALLS : STG_PACE_CALLS, report, reterr);
  if (status == STG_OK) {
    status = measure_beside(&pace, options, report, reterr);
  }
  stg_pace_close(&pace);
  return status;
}
