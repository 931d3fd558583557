/*
 * suite_components.c: masked low-rank components, y alone and with all gradients, at the shapes of
 * a small model and at the published sizes, beside a copy of the bytes that must move. What they
 * compute is in `gflop`: at most sizes that, and not the bytes, is the floor.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/bench/components_check.h"
#include "tools/bench/lab.h"
#include "tools/report.h"

#define LINE 8 /* launches of a line: each takes long beside its start */

/* A case while it runs. */
struct trial {
  const struct stg_bench_lab *lab;
  const struct stg_bench_components *work;
  struct stg_bench_components_bed bed;
  struct stg_bench_buffers line; /* memory is the bed's: what the floor copies */
};

static double moved_mb(const struct stg_bench_components *work) {
  return stg_bench_components_bytes(work) * 1e-6;
}

/* A copy in place reads and writes half of what must move. */
static stg_status make_line(struct trial *trial, stg_error *reterr) {
  const struct stg_bench_components_bed *bed = &trial->bed;
  const size_t count = bed->sets > LINE ? bed->sets : LINE;
  const size_t half = (size_t)(stg_bench_components_bytes(trial->work) / 2) / 16 * 16;
  trial->line = (struct stg_bench_buffers){.count = count,
                                           .bytes = half < bed->pitch ? half : bed->pitch,
                                           .memory = stg_calloc(count, sizeof(void *)),
                                           .residual = stg_calloc(count, sizeof(void *))};
  if (trial->line.memory == NULL || trial->line.residual == NULL) {
    return stg_error_memory(reterr, "a line of launches", count * sizeof(void *));
  }
  for (size_t i = 0; i < count; i++) {
    trial->line.memory[i] = (char *)bed->area + i % bed->sets * bed->pitch;
  }
  return STG_OK;
}

static stg_status time_all(struct trial *trial, struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_bench_timer *timer = &trial->lab->timer;
  struct stg_times eager = {0};
  stg_status status = stg_bench_time(timer, &trial->line, stg_bench_components_launch, &trial->bed,
                                     &row->device, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_wall(timer, &trial->line, stg_bench_components_launch, &trial->bed,
                                 &row->wall, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_time_eager(timer, &trial->line, stg_bench_components_launch, &trial->bed,
                                  &eager, reterr);
  }
  row->has_device = row->has_wall = true;
  stg_bench_row_extra(row, "eager_us", eager.median_us);
  stg_bench_row_extra(row, "tflops",
                      stg_bench_components_flop(trial->work) / row->device.median_us * 1e-6);
  return status;
}

static stg_status add_floor(const struct trial *trial, const struct stg_times *floor,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_row row = {.suite = STG_BENCH_COMPONENTS,
                              .name = trial->work->name,
                              .series = "copy",
                              .device = *floor,
                              .has_device = true,
                              .floor_us = floor->median_us};
  stg_bench_row_extra(&row, "moved_mb", moved_mb(trial->work));
  return stg_bench_report_add(report, &row, reterr);
}

/* The copy writes over results alone and leaves inputs as they are: it is in place. */
static stg_status measure(struct trial *trial, const struct stg_bench_components_verdict *verdict,
                          struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_row row = {
      .suite = STG_BENCH_COMPONENTS, .name = trial->work->name, .series = STG_BENCH_OURS};
  struct stg_times floor = {0};
  stg_status status = stg_bench_floor_time(&trial->lab->floor, &trial->lab->timer, &trial->line,
                                           STG_BENCH_ORDERED, &floor, reterr);
  row.floor_us = floor.median_us;
  stg_bench_row_extra(&row, "rows", (double)trial->work->rows);
  stg_bench_row_extra(&row, "moved_mb", moved_mb(trial->work));
  stg_bench_row_extra(&row, "gflop", stg_bench_components_flop(trial->work) * 1e-9);
  stg_bench_row_extra(&row, "mae", verdict->mae);
  stg_bench_row_extra(&row, "worst_ratio", verdict->worst_ratio);
  if (status == STG_OK) {
    status = time_all(trial, &row, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_report_add(report, &row, reterr);
  }
  return status == STG_OK ? add_floor(trial, &floor, report, reterr) : status;
}

/* A row that says so, so that what PyTorch takes for it stands beside something. */
static stg_status add_unsupported(const struct stg_bench_components *work,
                                  struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_row row = {
      .suite = STG_BENCH_COMPONENTS, .name = work->name, .series = STG_BENCH_OURS};
  stg_bench_row_extra(&row, "rows", (double)work->rows);
  stg_bench_row_extra(&row, "moved_mb", moved_mb(work));
  stg_bench_row_extra(&row, "gflop", stg_bench_components_flop(work) * 1e-9);
  stg_bench_row_extra(&row, "unsupported", 1);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status run_open(struct trial *trial, struct stg_bench_report *report,
                           stg_error *reterr) {
  struct stg_bench_components_references references;
  struct stg_bench_components_verdict verdict = {.mae = 0};
  stg_status status = stg_bench_components_refer(trial->work, &references, reterr);
  if (status == STG_OK) {
    status = stg_bench_components_check(&trial->bed, &references, &verdict, reterr);
  }
  stg_bench_components_references_finish(&references);
  if (status == STG_OK) {
    status = make_line(trial, reterr);
  }
  return status == STG_OK ? measure(trial, &verdict, report, reterr) : status;
}

static stg_status run_case(const struct stg_bench_lab *lab, const struct stg_bench_components *work,
                           struct stg_bench_report *report, stg_error *reterr) {
  struct trial trial = {.lab = lab, .work = work};
  stg_error why = STG_ERROR_INIT;
  stg_report_progress("bench: components: %s", work->name);
  stg_status status = stg_bench_components_bed_init(
      lab->engine, work, stg_bench_components_sets(lab->engine, work), &trial.bed, &why);
  if (status == STG_E_UNSUPPORTED) {
    stg_report_progress("bench: components: %s: %s", work->name, why.message);
    status = add_unsupported(work, report, reterr);
  } else if (status == STG_OK) {
    status = run_open(&trial, report, reterr);
  } else {
    status = stg_error_set(reterr, status, "%s", why.message);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench components, %s: ", work->name);
  }
  stg_bench_components_bed_finish(&trial.bed);
  stg_free(trial.line.memory);
  stg_free(trial.line.residual);
  return status;
}

stg_status stg_bench_suite_components(const struct stg_bench_options *options,
                                      struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_DEFAULT, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < stg_bench_components_n_cases; i++) {
    status = run_case(&lab, &stg_bench_components_cases[i], report, reterr);
  }
  stg_bench_lab_close(&lab);
  return status;
}
