/*
 * attn_trial.c: see attn_trial.h.
 */
#include "tools/bench/attn_trial.h"

#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/bench/attn_check.h"
#include "tools/report.h"

/* Launches of a line, at least: its start is then little of it. */
#define MIN_LINE 32
#define LONG_LINE 4                  /* of launches beside which it is little anyway */
#define LONG_BYTES ((size_t)1 << 30) /* that such a launch moves, if it is no prompt's */
#define MAX_SETS 256

/* A trial while it runs. */
struct trial {
  const struct stg_bench_lab *lab;
  const struct stg_attn_case *work;
  struct stg_attn_bed bed;
  /* a line of launches; memory and residual are what its floor works on, borrowed from the bed */
  struct stg_bench_buffers line;
};

/* An attention whose rows read again what others have read, for milliseconds. */
static bool is_prompt(const struct stg_attn_case *work) {
  return stg_attn_has_attend(work) && work->rows_each > 1;
}

/* What a launch and its floor read, and of a rope as much that they write. */
static size_t moved_bytes(const struct stg_attn_case *work) {
  return stg_attn_bytes(work) * (stg_attn_has_attend(work) ? 1 : 2);
}

uint32_t stg_attn_sets(stg_engine *engine, const struct stg_attn_case *work) {
  const struct stg_device *device = stg_mem_device(engine);
  if (device == NULL || is_prompt(work)) {
    return 1;
  }
  const size_t sets = 2 * (size_t)stg_device_get_info(device)->l2_bytes / moved_bytes(work) + 1;
  return sets < MAX_SETS ? (uint32_t)sets : MAX_SETS;
}

static char *at(void *memory, size_t offset_bytes) {
  return memory != NULL ? (char *)memory + offset_bytes : NULL;
}

static stg_status make_line(struct trial *trial, stg_error *reterr) {
  const struct stg_attn_bed *bed = &trial->bed;
  const bool attends = stg_attn_has_attend(trial->work);
  const bool is_long = is_prompt(trial->work) || moved_bytes(trial->work) >= LONG_BYTES;
  const size_t least = is_long ? LONG_LINE : MIN_LINE;
  const size_t count = bed->sets > least ? bed->sets : least;
  const size_t unit = stg_dtype_bytes(trial->work->dtype);
  const size_t pitch = attends ? (size_t)bed->cache.layer_stride * unit
                               : stg_attn_bed_pitch(bed, stg_attn_packed(trial->work));
  trial->line = (struct stg_bench_buffers){.count = count,
                                           .bytes = stg_attn_bytes(trial->work) / (attends ? 2 : 1),
                                           .memory = stg_calloc(count, sizeof(void *)),
                                           .residual = stg_calloc(count, sizeof(void *))};
  if (trial->line.memory == NULL || trial->line.residual == NULL) {
    return stg_error_memory(reterr, "a line of launches", count * sizeof(void *));
  }
  for (size_t i = 0; i < count; i++) {
    const size_t offset = i % bed->sets * pitch;
    trial->line.memory[i] = at(attends ? bed->cache.k : bed->qkv, offset);
    trial->line.residual[i] = attends ? at(bed->cache.v, offset) : NULL;
  }
  return STG_OK;
}

/* What the work is held against; the early one is a copy's alone. */
struct floors {
  struct stg_times plain, early;
};

static stg_status time_floors(const struct trial *trial, const struct stg_bench_read_floor *read,
                              struct floors *ret, stg_error *reterr) {
  const struct stg_bench_timer *timer = &trial->lab->timer;
  if (stg_attn_has_attend(trial->work)) {
    return stg_bench_read_floor_time(read, timer, &trial->line, &ret->plain, reterr);
  }
  stg_status status = stg_bench_floor_time(&trial->lab->floor, timer, &trial->line,
                                           STG_BENCH_ORDERED, &ret->plain, reterr);
  return status == STG_OK ? stg_bench_floor_time(&trial->lab->floor, timer, &trial->line,
                                                 STG_BENCH_EARLY, &ret->early, reterr)
                          : status;
}

static void set_floors(const struct trial *trial, const struct floors *floors,
                       struct stg_bench_row *row) {
  row->floor_us = floors->plain.median_us;
  if (!stg_attn_has_attend(trial->work)) {
    stg_bench_row_extra(row, "floor_early_us", floors->early.median_us);
  }
}

static stg_status time_ours(struct trial *trial, struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_bench_timer *timer = &trial->lab->timer;
  struct stg_times eager = {0}, cpu = {0};
  stg_status status =
      stg_bench_time(timer, &trial->line, stg_attn_bed_launch, &trial->bed, &row->device, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_wall(timer, &trial->line, stg_attn_bed_launch, &trial->bed, &row->wall,
                                 reterr);
  }
  if (status == STG_OK) {
    status =
        stg_bench_time_eager(timer, &trial->line, stg_attn_bed_launch, &trial->bed, &eager, reterr);
  }
  if (status == STG_OK && trial->bed.block != NULL) {
    status =
        stg_bench_time_cpu(timer, &trial->line, stg_attn_bed_launch, &trial->bed, &cpu, reterr);
    stg_bench_row_extra(row, "cpu_us", cpu.median_us);
  }
  row->has_device = row->has_wall = true;
  stg_bench_row_extra(row, "eager_us", eager.median_us);
  return status;
}

static stg_status add_floor(const struct trial *trial, const struct floors *floors,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_row row = {.suite = trial->work->suite,
                              .name = trial->work->name,
                              .series = stg_attn_has_attend(trial->work) ? "read" : "copy",
                              .device = floors->plain,
                              .has_device = true};
  set_floors(trial, floors, &row);
  return stg_bench_report_add(report, &row, reterr);
}

/* Our rows of a case have one floor: that of the first. Only attentions have more than one. */
static stg_status find_floor(struct trial *trial, const struct stg_bench_read_floor *read,
                             struct stg_bench_report *report, struct stg_bench_row *row,
                             stg_error *reterr) {
  const struct stg_bench_row *ours =
      stg_bench_report_find(report, row->suite, row->name, STG_BENCH_OURS);
  struct floors floors = {0};
  if (ours != NULL) {
    row->floor_us = ours->floor_us;
    return STG_OK;
  }
  stg_status status = time_floors(trial, read, &floors, reterr);
  set_floors(trial, &floors, row);
  return status == STG_OK ? add_floor(trial, &floors, report, reterr) : status;
}

static stg_status measure(struct trial *trial, const struct stg_bench_read_floor *read,
                          const char *series, struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_row row = {
      .suite = trial->work->suite, .name = trial->work->name, .series = series};
  struct stg_attn_result result = {0};
  struct stg_attn_verdict verdict = {0};
  stg_status status = stg_attn_check(&trial->bed, &result, &verdict, reterr);
  stg_attn_result_finish(&result);
  if (status == STG_OK) {
    status = find_floor(trial, read, report, &row, reterr);
  }
  stg_bench_row_extra(&row, "rows", (double)stg_attn_rows(trial->work));
  stg_bench_row_extra(&row, "moved_mb", (double)moved_bytes(trial->work) * 1e-6);
  stg_bench_row_extra(&row, "mae", verdict.mae);
  stg_bench_row_extra(&row, "worst_ratio", verdict.worst_ratio);
  if (status == STG_OK) {
    status = time_ours(trial, &row, reterr);
  }
  return status == STG_OK ? stg_bench_report_add(report, &row, reterr) : status;
}

stg_status stg_attn_trial_run(const struct stg_bench_lab *lab,
                              const struct stg_bench_read_floor *read,
                              const struct stg_attn_case *work, const char *series,
                              struct stg_bench_report *report, stg_error *reterr) {
  struct trial trial = {.lab = lab, .work = work};
  stg_report_progress("bench: %s: %s", work->suite, work->name);
  stg_status status =
      stg_attn_bed_init(lab->engine, work, stg_attn_sets(lab->engine, work), &trial.bed, reterr);
  if (status == STG_OK) {
    status = make_line(&trial, reterr);
  }
  if (status == STG_OK) {
    status = measure(&trial, read, series, report, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench %s, %s: ", work->suite, work->name);
  }
  stg_attn_bed_finish(&trial.bed);
  stg_free(trial.line.memory);
  stg_free(trial.line.residual);
  return status;
}
