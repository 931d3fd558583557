/*
 * bench/padding_shapes.c: 1 000 random batch shapes, met with buckets, with a signature for every
 * shape, and with one fixed size.
 *
 * The first pass meets each shape for the first time and pays for its graph; the second finds what
 * is still there. Row maps are made between calls: a host has its own.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "tools/bench/figures.h"
#include "tools/bench/padding.h"
#include "tools/bench/shapes.h"

#define SHAPES 1000
#define QUICK_SHAPES 50
#define SEED 1
#define KEY_CHARS 33
/* On the CPU nothing is computed, only planned. */
#define CPU_HIDDEN 8

/* A way to meet shapes. */
struct way {
  const char *series;
  const int64_t *row_buckets, *batch_buckets; /* NULL: the default ones */
  size_t n_row_buckets, n_batch_buckets;
  bool fixed;   /* every step has the most rows, requests and length there are */
  int32_t tail; /* of a fixed step: padding, or a slot */
};

struct shapes {
  stg_engine *engine;
  bool cuda;
  size_t count;
  struct stg_bench_shape *list;
  struct stg_bench_vectors vectors;
  void *rows;
  double *us;              /* [count] */
  char (*keys)[KEY_CHARS]; /* [count] graph keys */
  const char *processor;   /* NULL on cuda: the report knows the card */
  int32_t map[STG_SHAPE_MAX_ROWS];
  double compile_ms; /* of one kernel; 0 on the CPU */
};

/* What one way cost. */
struct tally {
  double first_pass_ms, first_pass_p99_us, first_pass_max_us;
  struct stg_times later; /* the second pass */
  double later_p99_us;
  uint64_t graphs, graphs_again; /* instantiated by either pass */
  uint64_t kernels;              /* that had to be compiled or were found in memory; 0 on the CPU */
  size_t signatures;
  double rows, padded_rows;
};

static stg_step step_of(const struct shapes *shapes, const struct stg_bench_shape *shape,
                        bool fixed) {
  stg_step step = {.struct_size = sizeof step,
                   .rows = shape->rows,
                   .row_map = shapes->map,
                   .requests = shape->n_requests,
                   .longest = shape->longest};
  if (fixed) {
    step.rows = STG_SHAPE_MAX_ROWS;
    step.requests = STG_SHAPE_MAX_REQUESTS;
    step.longest = STG_SHAPE_MAX_LENGTH;
  }
  return step;
}

static stg_status one_step(struct shapes *shapes, struct stg_bench_calls *calls, size_t index,
                           stg_error *reterr) {
  shapes->us[index] = 0;
  return shapes->cuda ? stg_bench_call(calls, false, &shapes->us[index], reterr)
                      : stg_steer_step(calls->frame, &calls->step, NULL, reterr);
}

/* Through all shapes once; times in shapes->us, plans in the tally. */
static stg_status run_pass(struct shapes *shapes, const struct way *way,
                           struct stg_bench_calls *calls, struct tally *tally, stg_error *reterr) {
  stg_status status = STG_OK;
  tally->rows = 0;
  tally->padded_rows = 0;
  for (size_t i = 0; status == STG_OK && i < shapes->count; i++) {
    const struct stg_bench_shape *shape = &shapes->list[i];
    stg_plan_info plan = {.struct_size = sizeof plan};
    stg_bench_shape_map(shape, way->tail, shapes->map);
    calls->step = step_of(shapes, shape, way->fixed);
    status = one_step(shapes, calls, i, reterr);
    if (status == STG_OK) {
      status = stg_frame_plan(calls->frame, &plan, reterr);
    }
    if (status == STG_OK) {
      memcpy(shapes->keys[i], plan.graph_key, KEY_CHARS);
      tally->rows += shape->rows;
      tally->padded_rows += (double)plan.row_bucket;
    }
  }
  return status;
}

static int compare_keys(const void *a, const void *b) {
  return memcmp(a, b, KEY_CHARS);
}

static size_t count_signatures(struct shapes *shapes) {
  size_t distinct = 1;
  qsort(shapes->keys, shapes->count, KEY_CHARS, compare_keys);
  for (size_t i = 1; i < shapes->count; i++) {
    distinct += compare_keys(shapes->keys[i - 1], shapes->keys[i]) != 0 ? 1 : 0;
  }
  return distinct;
}

static uint64_t graphs_made(const struct shapes *shapes) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(shapes->engine, &stats);
  return stats.graphs_created;
}

static stg_status run_passes(struct shapes *shapes, const struct way *way,
                             struct stg_bench_calls *calls, struct tally *tally,
                             stg_error *reterr) {
  const uint64_t before = graphs_made(shapes);
  stg_status status = run_pass(shapes, way, calls, tally, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; i < shapes->count; i++) {
    tally->first_pass_ms += shapes->us[i] * 1e-3;
  }
  tally->first_pass_max_us = stg_times_of(shapes->us, shapes->count).max_us;
  tally->first_pass_p99_us = stg_bench_percentile(shapes->us, shapes->count, 0.99);
  tally->graphs = graphs_made(shapes) - before;
  tally->signatures = count_signatures(shapes);
  status = run_pass(shapes, way, calls, tally, reterr);
  if (status == STG_OK) {
    tally->later = stg_times_of(shapes->us, shapes->count);
    tally->later_p99_us = stg_bench_percentile(shapes->us, shapes->count, 0.99);
    tally->graphs_again = graphs_made(shapes) - before - tally->graphs;
  }
  return status;
}

static stg_steer_desc describe(const struct shapes *shapes, const struct way *way) {
  stg_steer_desc desc = stg_bench_calls_desc();
  desc.hidden_size = (int64_t)shapes->vectors.length;
  desc.row_buckets = way->row_buckets;
  desc.n_row_buckets = way->n_row_buckets;
  desc.batch_buckets = way->batch_buckets;
  desc.n_batch_buckets = way->n_batch_buckets;
  return desc;
}

static struct stg_bench_row row_of(const struct shapes *shapes, const char *series) {
  return (struct stg_bench_row){
      .suite = "padding",
      .name = shapes->count == SHAPES ? "1000 random shapes" : "few random shapes",
      .series = series,
      .card = shapes->processor,
  };
}

static stg_status report_way(const struct shapes *shapes, const struct way *way,
                             const struct tally *tally, struct stg_bench_report *report,
                             stg_error *reterr) {
  struct stg_bench_row row = row_of(shapes, way->series);
  stg_bench_row_extra(&row, "signatures", (double)tally->signatures);
  stg_bench_row_extra(&row, "padded_rows_x", tally->padded_rows / tally->rows);
  if (shapes->cuda) {
    stg_bench_row_extra(&row, "compiles", (double)tally->kernels);
    row.has_wall = true;
    row.wall = tally->later;
    stg_bench_row_extra(&row, "graphs", (double)tally->graphs);
    stg_bench_row_extra(&row, "graphs_second_pass", (double)tally->graphs_again);
    stg_bench_row_extra(&row, "compile_total_ms", (double)tally->kernels * shapes->compile_ms);
    stg_bench_row_extra(&row, "first_pass_ms", tally->first_pass_ms);
    stg_bench_row_extra(&row, "first_pass_p99_us", tally->first_pass_p99_us);
    stg_bench_row_extra(&row, "first_pass_max_us", tally->first_pass_max_us);
    stg_bench_row_extra(&row, "p99_us", tally->later_p99_us);
  }
  return stg_bench_report_add(report, &row, reterr);
}

/* The kernels of the table: the first way compiles them, the others find them in memory. */
static void read_kernels(struct shapes *shapes, const stg_stats *before, struct tally *tally) {
  stg_stats after = {.struct_size = sizeof after};
  stg_engine_stats(shapes->engine, &after);
  const uint64_t compiled = after.kernel_compiles - before->kernel_compiles;
  tally->kernels = compiled + (after.kernel_memory_hits - before->kernel_memory_hits);
  if (compiled > 0) {
    shapes->compile_ms = (after.compile_ms - before->compile_ms) / (double)compiled;
  }
}

static stg_status measure_way(struct shapes *shapes, const struct way *way,
                              struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_calls calls = {
      .engine = shapes->engine, .stream = stg_mem_stream(shapes->engine), .rows = shapes->rows};
  const stg_steer_desc desc = describe(shapes, way);
  stg_stats before = {.struct_size = sizeof before};
  struct tally tally = {0};
  stg_engine_stats(shapes->engine, &before);
  stg_status status = stg_bench_calls_open(&calls, &desc, &shapes->vectors, reterr);
  if (status != STG_OK) {
    return status;
  }
  read_kernels(shapes, &before, &tally);
  status = stg_bench_calls_hold(&calls, reterr);
  if (status == STG_OK) {
    status = run_passes(shapes, way, &calls, &tally, reterr);
  }
  stg_bench_calls_let_go(&calls);
  stg_bench_calls_close(&calls);
  return status == STG_OK ? report_way(shapes, way, &tally, report, reterr) : status;
}

/* What a system compiles that takes two batches for one only when these sizes agree. Not run: the
 * time is so many compiles of our own kernel. */
static stg_status report_specialised(struct shapes *shapes, enum stg_shape_identity identity,
                                     const char *series, struct stg_bench_report *report,
                                     stg_error *reterr) {
  const size_t compiles = stg_bench_shapes_distinct(shapes->list, shapes->count, identity);
  struct stg_bench_row row = row_of(shapes, series);
  stg_bench_row_extra(&row, "compiles", (double)compiles);
  if (shapes->cuda) {
    stg_bench_row_extra(&row, "compile_total_ms", (double)compiles * shapes->compile_ms);
  }
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status report_all_specialised(struct shapes *shapes, struct stg_bench_report *report,
                                         stg_error *reterr) {
  stg_status status = report_specialised(shapes, STG_SHAPE_BY_LENGTHS,
                                         "a compile for every list of lengths", report, reterr);
  if (status == STG_OK) {
    status = report_specialised(shapes, STG_SHAPE_BY_COUNTS,
                                "a compile for every requests, longest, rows", report, reterr);
  }
  return status == STG_OK ? report_specialised(shapes, STG_SHAPE_BY_ROWS,
                                               "a compile for every number of rows", report, reterr)
                          : status;
}

static stg_status measure_ways(struct shapes *shapes, struct stg_bench_report *report,
                               stg_error *reterr) {
  static const int64_t most_rows[] = {STG_SHAPE_MAX_ROWS};
  static const int64_t most_requests[] = {STG_SHAPE_MAX_REQUESTS};
  int64_t every[STG_SHAPE_MAX_ROWS];
  for (size_t i = 0; i < STG_SHAPE_MAX_ROWS; i++) {
    every[i] = (int64_t)i + 1;
  }
  const struct way ways[] = {
      {.series = STG_BENCH_OURS ", buckets", .tail = STG_ROW_PADDING},
      {.series = STG_BENCH_OURS ", a signature for every shape",
       .tail = STG_ROW_PADDING,
       .row_buckets = every,
       .n_row_buckets = STG_SHAPE_MAX_ROWS,
       .batch_buckets = every,
       .n_batch_buckets = STG_SHAPE_MAX_REQUESTS},
      {.series = STG_BENCH_OURS ", one fixed size of 2048 rows",
       .fixed = true,
       .tail = STG_ROW_PADDING,
       .row_buckets = most_rows,
       .n_row_buckets = 1,
       .batch_buckets = most_requests,
       .n_batch_buckets = 1},
      {.series = "one fixed size of 2048 rows, padding computed",
       .fixed = true,
       .tail = 0,
       .row_buckets = most_rows,
       .n_row_buckets = 1,
       .batch_buckets = most_requests,
       .n_batch_buckets = 1},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof ways / sizeof ways[0]; i++) {
    status = measure_way(shapes, &ways[i], report, reterr);
  }
  return status;
}

static stg_status make_shapes(struct shapes *shapes, stg_error *reterr) {
  const size_t hidden = shapes->cuda ? STG_BENCH_HIDDEN : CPU_HIDDEN;
  shapes->list = stg_calloc(shapes->count, sizeof *shapes->list);
  shapes->us = stg_calloc(shapes->count, sizeof *shapes->us);
  shapes->keys = stg_calloc(shapes->count, sizeof *shapes->keys);
  if (shapes->list == NULL || shapes->us == NULL || shapes->keys == NULL) {
    return stg_error_memory(reterr, "random shapes", shapes->count * sizeof *shapes->list);
  }
  stg_bench_shapes_fill(SEED, shapes->count, shapes->list);
  stg_status status = stg_bench_vectors_init(STG_BENCH_REQUESTS, hidden, &shapes->vectors, reterr);
  return status == STG_OK ? stg_bench_rows_alloc(shapes->engine, STG_SHAPE_MAX_ROWS, hidden,
                                                 &shapes->rows, reterr)
                          : status;
}

stg_status stg_padding_shapes(stg_engine *engine, const struct stg_bench_options *options,
                              struct stg_bench_report *report, stg_error *reterr) {
  struct shapes *shapes = stg_calloc(1, sizeof *shapes);
  if (shapes == NULL) {
    return stg_error_memory(reterr, "random shapes", sizeof *shapes);
  }
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(engine, &info);
  shapes->engine = engine;
  shapes->cuda = stg_mem_device(engine) != NULL;
  shapes->count = options->quick ? QUICK_SHAPES : SHAPES;
  shapes->processor = shapes->cuda ? NULL : info.device;
  stg_status status = make_shapes(shapes, reterr);
  if (status == STG_OK) {
    status = measure_ways(shapes, report, reterr);
  }
  if (status == STG_OK) {
    status = report_all_specialised(shapes, report, reterr);
  }
  stg_mem_free(engine, shapes->rows);
  stg_bench_vectors_finish(&shapes->vectors);
  stg_free(shapes->list);
  stg_free(shapes->us);
  stg_free(shapes->keys);
  stg_free(shapes);
  return status;
}
