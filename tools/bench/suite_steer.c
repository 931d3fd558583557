/*
 * suite_steer.c: prefill shapes: numbers of ops, distinct vectors, kinds, lengths, pairs, the
 * epilogue, what a table declares besides, and what the host pays for a call.
 *
 * The standard configuration is 32 requests of 64 rows, hidden size 4096, bf16, one op each. Names
 * say what differs from it.
 */
#include <stdio.h>

#include "engine/hostmem.h"
#include "tools/bench/bed.h"
#include "tools/bench/spec_bench.h"
#include "tools/bench/trial.h"
#include "tools/report.h"

#define SUITE "steer"

static const uint32_t four_lengths[] = {256, 512, 384, 320};
/* 1 to 64 in no order, so that no boundary between requests is a round number. */
static const uint32_t ragged_lengths[STG_BENCH_REQUESTS] = {
    31, 17, 48, 1,  9, 2,  61, 34, 30, 64, 61, 61, 51, 20, 30, 20,
    50, 2,  9,  21, 6, 39, 4,  35, 61, 50, 55, 51, 57, 18, 47, 13};
/* 31 requests that decode, and a chunk of one that is in its prompt. */
static const uint32_t step_lengths[STG_BENCH_REQUESTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 512};

/* What differs from the standard configuration: 0 is the same. Each but pair, norm and more ops is
 * also given to the baselines. */
static const struct stg_bench_mix mixes[] = {
    {.name = "1 op", .n_ops = 1, .kind = STG_BENCH_MIXED},
    {.name = "2 ops", .n_ops = 2, .kind = STG_BENCH_MIXED},
    {.name = "4 ops", .n_ops = 4, .kind = STG_BENCH_MIXED},
    {.name = "8 ops", .n_ops = 8, .kind = STG_BENCH_MIXED},
    {.name = "1 distinct", .n_distinct = 1, .kind = STG_BENCH_MIXED},
    {.name = "2 distinct", .n_distinct = 2, .kind = STG_BENCH_MIXED},
    {.name = "4 distinct", .n_distinct = 4, .kind = STG_BENCH_MIXED},
    {.name = "8 distinct", .n_distinct = 8, .kind = STG_BENCH_MIXED},
    {.name = "16 distinct", .n_distinct = 16, .kind = STG_BENCH_MIXED},
    {.name = "32 distinct", .n_distinct = 32, .kind = STG_BENCH_MIXED},
    {.name = "uniform add", .n_distinct = 1, .kind = STG_BENCH_ADD},
    {.name = "uniform cap", .n_distinct = 1, .kind = STG_BENCH_CAP},
    {.name = "uniform ablation", .n_distinct = 1, .kind = STG_BENCH_ABLATION},
    {.name = "32 caps", .kind = STG_BENCH_CAP},
    {.name = "one request, cap", .n_requests = 1, .rows_each = 2048, .kind = STG_BENCH_CAP},
    {.name = "512 x 4096, cap", .n_requests = 1, .rows_each = 512, .kind = STG_BENCH_CAP},
    {.name = "512 x 4096, ablation", .n_requests = 1, .rows_each = 512, .kind = STG_BENCH_ABLATION},
    {.name = "hidden 2048, add",
     .hidden_size = 2048,
     .n_requests = 4,
     .lengths = four_lengths,
     .kind = STG_BENCH_ADD},
    {.name = "hidden 2048, cap",
     .hidden_size = 2048,
     .n_requests = 4,
     .lengths = four_lengths,
     .kind = STG_BENCH_CAP},
    {.name = "hidden 2048, ablation",
     .hidden_size = 2048,
     .n_requests = 4,
     .lengths = four_lengths,
     .kind = STG_BENCH_ABLATION},
    {.name = "ragged 1-64", .lengths = ragged_lengths, .kind = STG_BENCH_MIXED},
    {.name = "step 31 + 512", .lengths = step_lengths, .kind = STG_BENCH_MIXED},
    {.name = "pair", .kind = STG_BENCH_MIXED, .state = STG_BENCH_PAIR},
};

/* The epilogue add_rmsnorm, as `mixes`. */
static const struct stg_bench_mix norms[] = {
    {.name = "norm, 2048 rows"},
    {.name = "norm, 256 rows", .rows_each = 8},
    {.name = "norm, 32 rows", .rows_each = 1},
};

/* Of the standard configuration, each beside the first, which has no extra. */
static const struct stg_bench_mix declared[] = {
    {.name = "declares nothing more"},
    {.name = "declares windows", .extra = STG_BENCH_WINDOWS},
    {.name = "declares counters", .extra = STG_BENCH_COUNTERS},
    {.name = "declares a probe", .extra = STG_BENCH_PROBE},
};

static uint32_t or_else(uint32_t value, uint32_t standard) {
  return value != 0 ? value : standard;
}

static struct stg_bench_trial trial_of(const struct stg_bench_mix *mix) {
  struct stg_bench_trial trial = {.suite = SUITE, .mix = *mix, .baselines = true};
  trial.every_op = mix->n_ops != 0; /* the targets' own lines */
  trial.mix.hidden_size = or_else(mix->hidden_size, STG_BENCH_HIDDEN);
  trial.mix.n_requests = or_else(mix->n_requests, STG_BENCH_REQUESTS);
  trial.mix.rows_each = or_else(mix->rows_each, STG_BENCH_ROWS_PER_REQUEST);
  trial.mix.n_ops = or_else(mix->n_ops, 1);
  trial.mix.n_distinct = or_else(mix->n_distinct, trial.mix.n_requests);
  return trial;
}

/* Unsteered, then steered and compared with that. */
static stg_status bench_norm(const struct stg_bench_lab *lab, const struct stg_bench_mix *mix,
                             struct stg_bench_report *report, stg_error *reterr) {
  char name[64];
  snprintf(name, sizeof name, "%s, unsteered", mix->name);
  struct stg_bench_trial steered = trial_of(mix);
  steered.mix.kind = STG_BENCH_MIXED;
  steered.mix.state = STG_BENCH_NORM;
  struct stg_bench_trial unsteered = steered;
  unsteered.mix.name = name;
  unsteered.mix.unsteered = true;
  steered.unsteered = name;
  stg_status status = stg_bench_trial_run(lab, &unsteered, report, reterr);
  return status == STG_OK ? stg_bench_trial_run(lab, &steered, report, reterr) : status;
}

static stg_status bench_declared(const struct stg_bench_lab *lab, const struct stg_bench_mix *mix,
                                 struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_trial trial = trial_of(mix);
  trial.mix.kind = STG_BENCH_MIXED;
  trial.baselines = false; /* of the first it is the row "1 op" that they are beside */
  trial.without = mix->extra != STG_BENCH_NO_EXTRA ? declared[0].name : NULL;
  return stg_bench_trial_run(lab, &trial, report, reterr);
}

/* CPU time of an apply in one launch mode, on rows that cost the device little. */
static stg_status time_host(const struct stg_bench_lab *lab, const struct stg_bench_batch *batch,
                            struct stg_bench_row *row, stg_error *reterr) {
  struct stg_bench_buffers buffers = {0};
  struct stg_bench_bed bed = {0};
  struct stg_times apply = {0};
  struct stg_times bare = {0};
  stg_status status = stg_bench_bed_buffers(lab->engine, batch, &buffers, reterr);
  if (status == STG_OK) {
    status = stg_bench_bed_init(lab->engine, batch, false, &bed, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_time_cpu(&lab->timer, &buffers, stg_bench_bed_launch, &bed, &apply, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_floor_cpu(&lab->floor, &lab->timer, &buffers, &bare, reterr);
  }
  if (status == STG_OK) {
    stg_bench_row_extra(row, "cpu_us", apply.median_us);
    stg_bench_row_extra(row, "cpu_min_us", apply.min_us);
    stg_bench_row_extra(row, "bare_launch_cpu_us", bare.median_us);
    stg_bench_row_extra(row, "cpu_x", apply.median_us / bare.median_us);
  }
  stg_bench_bed_finish(&bed);
  stg_bench_buffers_finish(lab->engine, &buffers);
  return status;
}

static stg_status bench_host(const struct stg_bench_options *options, stg_launch_mode launch,
                             const char *name, struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_bench_mix mix = {.name = name,
                                    .hidden_size = STG_BENCH_HIDDEN,
                                    .n_requests = STG_BENCH_REQUESTS,
                                    .rows_each = 1,
                                    .n_ops = 1,
                                    .n_distinct = STG_BENCH_REQUESTS,
                                    .kind = STG_BENCH_MIXED};
  struct stg_bench_row row = {.suite = SUITE, .name = name, .series = STG_BENCH_OURS};
  struct stg_bench_batch batch = {0};
  struct stg_bench_lab lab;
  stg_report_progress("bench: %s: %s", SUITE, name);
  stg_status status = stg_bench_lab_open(options, launch, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_bench_batch_init(&mix, &batch, reterr);
  if (status == STG_OK) {
    status = time_host(&lab, &batch, &row, reterr);
  }
  stg_bench_batch_finish(&batch);
  stg_bench_lab_close(&lab);
  return status == STG_OK ? stg_bench_report_add(report, &row, reterr) : status;
}

static stg_status bench_mixes(const struct stg_bench_options *options,
                              struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_DEFAULT, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < sizeof mixes / sizeof mixes[0]; i++) {
    const struct stg_bench_trial trial = trial_of(&mixes[i]);
    status = stg_bench_trial_run(&lab, &trial, report, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < sizeof norms / sizeof norms[0]; i++) {
    status = bench_norm(&lab, &norms[i], report, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < sizeof declared / sizeof declared[0]; i++) {
    status = bench_declared(&lab, &declared[i], report, reterr);
  }
  stg_bench_lab_close(&lab);
  return status;
}

stg_status stg_bench_suite_steer(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  if (options->n_words > 0) {
    return stg_bench_specs(options, report, reterr);
  }
  stg_status status = bench_mixes(options, report, reterr);
  if (status == STG_OK) {
    status = bench_host(options, STG_LAUNCH_GRAPH, "host, graph launch", report, reterr);
  }
  return status == STG_OK
             ? bench_host(options, STG_LAUNCH_PLAIN, "host, plain launch", report, reterr)
             : status;
}
