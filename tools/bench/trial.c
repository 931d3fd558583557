/*
 * trial.c: see trial.h.
 */
#include "tools/bench/trial.h"

#include <stdio.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "tools/bench/agree.h"
#include "tools/bench/bed.h"
#include "tools/report.h"

/* A trial while it runs. */
struct bench {
  const struct stg_bench_lab *lab;
  const struct stg_bench_trial *trial;
  struct stg_bench_report *report;
  struct stg_bench_batch batch;
  struct stg_bench_buffers buffers;
  struct stg_bench_rival rival; /* {0} without baselines */
  uint16_t *ours, *theirs;      /* results of one call */
  struct stg_times floor;       /* of the buffers in use */
  struct stg_times early;       /* the same, by early launches */
  struct stg_bench_row our_row; /* of the cold buffers */
};

/* The result of one call on fresh rows. */
static stg_status result_of(const struct bench *b, stg_bench_launch launch, void *user,
                            uint16_t *ret_rows, stg_error *reterr) {
  stg_engine *engine = b->lab->engine;
  stg_status status = stg_bench_buffers_restore(engine, &b->buffers, reterr);
  if (status == STG_OK) {
    status = launch(user, &b->buffers, 0, stg_mem_stream(engine), reterr);
  }
  return status == STG_OK
             ? stg_mem_download(engine, ret_rows, b->buffers.memory[0], b->buffers.bytes, reterr)
             : status;
}

static bool serves(const struct bench *b, const struct stg_bench_baseline *baseline) {
  return b->rival.kernels != NULL && !(baseline->one_kind && b->trial->mix.kind == STG_BENCH_MIXED);
}

static stg_status check_baselines(struct bench *b, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < STG_BENCH_N_BASELINES; i++) {
    const struct stg_bench_baseline *baseline = &stg_bench_baselines[i];
    if (serves(b, baseline)) {
      status = result_of(b, baseline->launch, &b->rival, b->theirs, reterr);
      if (status == STG_OK) {
        status = stg_bench_agree(&b->batch, baseline->series, b->ours, b->theirs, reterr);
      }
    }
  }
  return status;
}

/* The time over that of another row of ours, of the same batch. */
static void compare(const struct bench *b, const char *other, const char *extra,
                    struct stg_bench_row *row) {
  const struct stg_bench_row *found = NULL;
  if (other != NULL) {
    found = stg_bench_report_find(b->report, row->suite, other, STG_BENCH_OURS);
  }
  if (found != NULL) {
    stg_bench_row_extra(row, extra, row->device.median_us / found->device.median_us);
  }
}

static stg_status time_ours(struct bench *b, struct stg_bench_bed *bed,
                            const struct stg_bench_buffers *buffers, struct stg_bench_row *row,
                            stg_error *reterr) {
  const struct stg_bench_timer *timer = &b->lab->timer;
  struct stg_times eager = {0};
  stg_status status =
      stg_bench_time(timer, buffers, stg_bench_bed_launch, bed, &row->device, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_wall(timer, buffers, stg_bench_bed_launch, bed, &row->wall, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_time_eager(timer, buffers, stg_bench_bed_launch, bed, &eager, reterr);
  }
  row->has_device = row->has_wall = true;
  row->floor_us = b->floor.median_us;
  stg_bench_row_extra(row, "rows", b->batch.rows);
  stg_bench_row_extra(row, "rows_changed", stg_bench_rows_changed(&b->batch, b->ours));
  stg_bench_row_extra(row, "eager_us", eager.median_us);
  stg_bench_row_extra(row, "floor_early_us", b->early.median_us);
  stg_bench_row_extra(row, "moved_mb", stg_bench_floor_mb(buffers));
  compare(b, b->trial->unsteered, "unsteered_x", row);
  compare(b, b->trial->without, "without_x", row);
  return status == STG_OK ? stg_bench_bed_plan(bed->frame, row, reterr) : status;
}

static stg_status add_copy(const struct bench *b, const char *name, stg_error *reterr) {
  struct stg_bench_row row = {.suite = b->trial->suite,
                              .name = name,
                              .series = "copy",
                              .device = b->floor,
                              .has_device = true,
                              .floor_us = b->floor.median_us};
  stg_bench_row_extra(&row, "floor_early_us", b->early.median_us);
  return stg_bench_report_add(b->report, &row, reterr);
}

/* One table on one set of buffers: ours, with its floor. */
static stg_status measure(struct bench *b, struct stg_bench_bed *bed, const char *name,
                          const char *series, const struct stg_bench_buffers *buffers,
                          stg_error *reterr) {
  struct stg_bench_row row = {.suite = b->trial->suite, .name = name, .series = series};
  stg_status status = time_ours(b, bed, buffers, &row, reterr);
  if (status == STG_OK) {
    status = stg_bench_report_add(b->report, &row, reterr);
  }
  if (status == STG_OK && b->our_row.name == NULL) {
    b->our_row = row;
  }
  return status;
}

static stg_status measure_table(struct bench *b, const char *name, bool every_op,
                                const struct stg_bench_buffers *buffers, stg_error *reterr) {
  const char *series = every_op ? STG_BENCH_OURS_EVERY_OP : STG_BENCH_OURS;
  struct stg_bench_bed bed = {0};
  stg_status status = stg_bench_bed_init(b->lab->engine, &b->batch, every_op, &bed, reterr);
  if (status == STG_OK) {
    status = result_of(b, stg_bench_bed_launch, &bed, b->ours, reterr);
  }
  if (status == STG_OK) {
    status = check_baselines(b, reterr);
  }
  if (status == STG_OK) {
    status = measure(b, &bed, name, series, buffers, reterr);
  }
  stg_bench_bed_finish(&bed);
  return status;
}

/* Every table on one set of buffers, and the copy. */
static stg_status measure_tables(struct bench *b, const char *name,
                                 const struct stg_bench_buffers *buffers, stg_error *reterr) {
  stg_status status = stg_bench_floor_time(&b->lab->floor, &b->lab->timer, buffers,
                                           STG_BENCH_ORDERED, &b->floor, reterr);
  if (status == STG_OK) {
    status = stg_bench_floor_time(&b->lab->floor, &b->lab->timer, buffers, STG_BENCH_EARLY,
                                  &b->early, reterr);
  }
  if (status == STG_OK) {
    status = measure_table(b, name, false, buffers, reterr);
  }
  if (status == STG_OK && b->trial->every_op) {
    status = measure_table(b, name, true, buffers, reterr);
  }
  return status == STG_OK ? add_copy(b, name, reterr) : status;
}

static stg_status measure_baseline(struct bench *b, const struct stg_bench_baseline *baseline,
                                   stg_error *reterr) {
  const struct stg_bench_timer *timer = &b->lab->timer;
  struct stg_bench_row row = {.suite = b->trial->suite,
                              .name = b->trial->mix.name,
                              .series = baseline->series,
                              .has_device = true,
                              .floor_us = b->our_row.floor_us};
  stg_status status = (baseline->captured ? stg_bench_time : stg_bench_time_eager)(
      timer, &b->buffers, baseline->launch, &b->rival, &row.device, reterr);
  stg_bench_row_extra(&row, "floor_early_us", b->early.median_us);
  stg_bench_row_extra(&row, "steergraph_x", row.device.median_us / b->our_row.device.median_us);
  if (status == STG_OK && !baseline->captured) {
    status =
        stg_bench_time_wall(timer, &b->buffers, baseline->launch, &b->rival, &row.wall, reterr);
    row.has_wall = true;
    stg_bench_row_extra(&row, "steergraph_wall_x", row.wall.median_us / b->our_row.wall.median_us);
  }
  return status == STG_OK ? stg_bench_report_add(b->report, &row, reterr) : status;
}

static stg_status measure_all(struct bench *b, stg_error *reterr) {
  const struct stg_bench_trial *trial = b->trial;
  stg_status status = measure_tables(b, trial->mix.name, &b->buffers, reterr);
  for (size_t i = 0; status == STG_OK && i < STG_BENCH_N_BASELINES; i++) {
    if (serves(b, &stg_bench_baselines[i])) {
      status = measure_baseline(b, &stg_bench_baselines[i], reterr);
    }
  }
  if (status == STG_OK && trial->warm) {
    char name[96];
    snprintf(name, sizeof name, "%s, warm", trial->mix.name);
    const struct stg_bench_buffers warm = stg_bench_buffers_warm(b->lab->engine, &b->buffers);
    status = measure_tables(b, name, &warm, reterr);
  }
  return status;
}

static stg_status prepare(struct bench *b, stg_error *reterr) {
  const struct stg_bench_trial *trial = b->trial;
  stg_status status = stg_bench_batch_init(&trial->mix, &b->batch, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t bytes = stg_bench_batch_bytes(&b->batch);
  b->ours = stg_calloc(bytes, 1);
  b->theirs = stg_calloc(bytes, 1);
  if (b->ours == NULL || b->theirs == NULL) {
    return stg_error_memory(reterr, "results", bytes);
  }
  status = stg_bench_bed_buffers(b->lab->engine, &b->batch, &b->buffers, reterr);
  if (status == STG_OK && trial->baselines && stg_bench_rival_can(&trial->mix)) {
    status = stg_bench_rival_init(&b->lab->rivals, &b->batch, &b->rival, reterr);
  }
  return status;
}

stg_status stg_bench_trial_run(const struct stg_bench_lab *lab, const struct stg_bench_trial *trial,
                               struct stg_bench_report *report, stg_error *reterr) {
  struct bench b = {.lab = lab, .trial = trial, .report = report};
  stg_report_progress("bench: %s: %s", trial->suite, trial->mix.name);
  stg_status status = prepare(&b, reterr);
  if (status == STG_OK) {
    status = measure_all(&b, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench %s, %s: ", trial->suite, trial->mix.name);
  }
  stg_bench_rival_finish(&b.rival);
  stg_bench_buffers_finish(lab->engine, &b.buffers);
  stg_bench_batch_finish(&b.batch);
  stg_free(b.ours);
  stg_free(b.theirs);
  return status;
}
