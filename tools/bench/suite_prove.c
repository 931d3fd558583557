/*
 * suite_prove.c: `bench prove`: pools of candidates from 64 to 16384, on two bases and in three
 * arithmetics, beside what the policy's operations take alone; the batches that were published; and
 * what a first pool costs a process.
 *
 * Runs on CUDA where there is a device, else on the CPU, where it measures less. Times of the
 * device are of a pool that is there, between an event before and one after its launch; by the wall
 * a pool goes from host to host.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/bench/prove_bed.h"
#include "tools/bench/prove_first.h"
#include "tools/bench/prove_floor.h"
#include "tools/bench/timing.h"
#include "tools/prove/dense.h"
#include "tools/report.h"

/* One base in one arithmetic. */
struct trial {
  const struct stg_bench_options *options;
  struct stg_prove_extent extent;
  struct stg_prove_peaks peaks;
  enum stg_prove_base base;
  enum stg_prover_arithmetic arithmetic;
  struct stg_prove_bed bed;
  stg_proof *largest; /* of the largest pool */
  stg_proof *exact;   /* the same in float32, of this base */
};

/* ---- results ---- */

static stg_status check_same(const struct trial *trial, size_t n, stg_error *reterr) {
  const struct stg_prove_proofs wanted = {trial->largest, trial->extent.largest};
  return stg_prove_check_same(trial->bed.proofs, n, &wanted, reterr);
}

/* The largest pool, which the smaller ones are held against. */
static stg_status prove_largest(struct trial *trial, stg_error *reterr) {
  const size_t n = trial->extent.largest;
  struct stg_prove_pool_run run = stg_prove_pool_of(&trial->bed, 0, n);
  double us;
  stg_status status = stg_prove_bed_time(&run, &us, reterr);
  if (status == STG_OK) {
    status = stg_prove_bed_check(&trial->bed, n, trial->extent.checked, reterr);
  }
  if (status == STG_OK) {
    memcpy(trial->largest, trial->bed.proofs, n * sizeof *trial->largest);
    if (trial->arithmetic == STG_PROVER_F32) {
      memcpy(trial->exact, trial->bed.proofs, n * sizeof *trial->exact);
    }
  }
  return status;
}

static double same_outcomes(const struct trial *trial, size_t n) {
  size_t same = 0;
  for (size_t i = 0; i < n; i++) {
    same += trial->largest[i].outcome == trial->exact[i].outcome;
  }
  return (double)same / (double)n;
}

/* ---- pools ---- */

/* As launches, whose proofs are fetched. */
static stg_status time_launches(const struct stg_bench_timer *timer, struct stg_prove_pool_run *run,
                                struct stg_times *ret_time, stg_error *reterr) {
  const struct stg_bench_buffers once = {.count = 1};
  stg_status status = stg_prove_bed_upload(run, reterr);
  if (status == STG_OK) {
    status = stg_bench_time_eager(timer, &once, stg_prove_bed_launch, run, ret_time, reterr);
  }
  return status == STG_OK ? stg_prove_bed_download(run, reterr) : status;
}

static stg_status time_pool(const struct trial *trial, struct stg_prove_pool_run *run,
                            struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_bench_buffers once = {.count = 1};
  const struct stg_bench_timer timer = {.engine = trial->bed.job.engine,
                                        .warmup = trial->extent.warmup,
                                        .repeats = trial->extent.repeats};
  stg_status status =
      stg_bench_time_wall(&timer, &once, stg_prove_bed_run, run, &row->wall, reterr);
  row->has_wall = true;
  if (status == STG_OK) {
    status = check_same(trial, run->n, reterr);
  }
  if (status == STG_OK && trial->bed.cuda) {
    status = time_launches(&timer, run, &row->device, reterr);
    row->has_device = true;
    status = status == STG_OK ? check_same(trial, run->n, reterr) : status;
  }
  return status;
}

static void add_facts(const struct trial *trial, size_t n, struct stg_bench_row *row) {
  const struct stg_prover_workload *w = &trial->bed.job.workload;
  const stg_prover_counts counts = stg_prove_bed_counts(&trial->bed);
  const double flop = (double)counts.states * stg_prove_flop_of_state(&w->sizes);
  const double us = row->has_device ? row->device.median_us : row->wall.median_us;
  stg_prove_add_counts(&counts, n, us, row);
  stg_bench_row_extra(row, "gflop", flop * 1e-9);
  stg_bench_row_extra(row, "tflop_per_s", flop / us * 1e-6);
  row->floor_us = stg_prove_floor_us(&trial->peaks, trial->arithmetic, flop);
  if (row->floor_us > 0) {
    stg_bench_row_extra(row, "peak_tflop_per_s", flop / row->floor_us * 1e-6);
  }
  stg_bench_row_extra(row, "kernels", stg_prove_bed_kernels(&trial->bed));
  double states_bytes;
  stg_bench_row_extra(row, "memory_mb", stg_prove_bed_bytes(&trial->bed, &states_bytes) * 1e-6);
  stg_bench_row_extra(row, "states_mb", states_bytes * 1e-6);
  stg_bench_row_extra(row, "dense_mb", (double)stg_prove_dense_bytes(n, w->children) * 1e-6);
  if (trial->arithmetic != STG_PROVER_F32) {
    stg_bench_row_extra(row, "same_outcomes", same_outcomes(trial, n));
  }
}

static stg_status measure_pool(struct trial *trial, size_t n, struct stg_bench_report *report,
                               stg_error *reterr) {
  char name[STG_PROVE_NAME_BYTES];
  struct stg_prove_pool_run run = stg_prove_pool_of(&trial->bed, 0, n);
  struct stg_bench_row row = {
      .suite = STG_PROVE_SUITE, .name = name, .series = stg_prove_series(trial->arithmetic)};
  stg_prove_pool_name(trial->base, n, name);
  stg_status status = time_pool(trial, &run, &row, reterr);
  if (status == STG_OK) {
    add_facts(trial, n, &row);
    status = stg_bench_report_add(report, &row, reterr);
  }
  return status;
}

/* ---- the published batches ---- */

/* How many candidates there are at least: of the largest pool, or of a batch. */
static size_t least_of(const struct trial *trial) {
  return trial->extent.largest > STG_PROVE_BATCH ? trial->extent.largest : STG_PROVE_BATCH;
}

/* Which candidates, of which those of `repeated` are one again and again. */
static struct stg_prove_pool_run published_run(struct trial *trial, const stg_atom *repeated,
                                               enum stg_prove_published which) {
  const size_t n = stg_prove_published_count(which);
  struct stg_prove_pool_run run = stg_prove_pool_of(&trial->bed, 0, n);
  run.queries = which == STG_PROVE_REPEATED ? repeated : run.queries;
  return run;
}

/* The first call with such a batch, behind one that has warmed the prover up with repeats. */
static stg_status measure_published(struct trial *trial, const stg_atom *repeated,
                                    enum stg_prove_published which, struct stg_bench_report *report,
                                    stg_error *reterr) {
  char name[STG_PROVE_NAME_BYTES];
  struct stg_prove_pool_run run = published_run(trial, repeated, which);
  const double kernels = stg_prove_bed_kernels(&trial->bed);
  struct stg_bench_row row = {
      .suite = STG_PROVE_SUITE, .name = name, .series = STG_BENCH_OURS, .has_wall = true};
  double first_us = 0;
  stg_prove_published_name(trial->base, which, name);
  stg_status status = stg_prove_bed_time(&run, &first_us, reterr);
  if (status != STG_OK) {
    return status;
  }
  const stg_prover_counts counts = stg_prove_bed_counts(&trial->bed);
  row.wall = (struct stg_times){first_us, first_us, first_us};
  stg_prove_add_counts(&counts, run.n, first_us, &row);
  stg_bench_row_extra(&row, "compiles", stg_prove_bed_kernels(&trial->bed) - kernels);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status measure_all_published(struct trial *trial, struct stg_bench_report *report,
                                        stg_error *reterr) {
  stg_atom repeated[STG_PROVE_BATCH];
  for (size_t i = 0; i < STG_PROVE_BATCH; i++) {
    repeated[i] = trial->bed.queries[0];
  }
  struct stg_prove_pool_run warmup = published_run(trial, repeated, STG_PROVE_REPEATED);
  double us;
  stg_status status = stg_prove_bed_time(&warmup, &us, reterr);
  for (int i = 0; status == STG_OK && i < STG_PROVE_PUBLISHED; i++) {
    const enum stg_prove_published which = (enum stg_prove_published)i;
    if (stg_prove_published_count(which) <= least_of(trial)) {
      status = measure_published(trial, repeated, which, report, reterr);
    }
  }
  return status;
}

/* ---- all of it ---- */

static stg_status measure_peaks(struct trial *trial, stg_error *reterr) {
  return trial->bed.cuda && trial->peaks.fma <= 0
             ? stg_prove_peaks_measure(trial->bed.job.engine, trial->options->quick, &trial->peaks,
                                       reterr)
             : STG_OK;
}

static stg_status measure_bed(struct trial *trial, struct stg_bench_report *report,
                              stg_error *reterr) {
  stg_status status = measure_peaks(trial, reterr);
  if (status == STG_OK && trial->arithmetic == STG_PROVER_F32) {
    status = measure_all_published(trial, report, reterr);
  }
  if (status == STG_OK) {
    status = prove_largest(trial, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < STG_PROVE_POOLS; i++) {
    if (stg_prove_pools[i] <= trial->extent.largest) {
      status = measure_pool(trial, stg_prove_pools[i], report, reterr);
    }
  }
  return status;
}

static stg_status run_trial(struct trial *trial, struct stg_bench_report *report,
                            stg_error *reterr) {
  const char *base = stg_prove_base_name(trial->base);
  const char *series = stg_prove_series(trial->arithmetic);
  stg_report_progress("bench: prove: %s, %s", base, series);
  stg_status status = stg_prove_bed_init(trial->options, trial->base, trial->arithmetic,
                                         least_of(trial), &trial->bed, reterr);
  if (status == STG_OK) {
    status = measure_bed(trial, report, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench prove, %s, %s: ", base, series);
  }
  stg_prove_bed_finish(&trial->bed);
  return status;
}

static stg_status run_trials(struct trial *trial, struct stg_bench_report *report,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t base = 0; status == STG_OK && base < trial->extent.bases; base++) {
    for (size_t i = 0; status == STG_OK && i < trial->extent.arithmetics; i++) {
      trial->base = (enum stg_prove_base)base;
      trial->arithmetic = (enum stg_prover_arithmetic)i;
      status = run_trial(trial, report, reterr);
    }
  }
  return status;
}

static stg_status run_suite(const struct stg_bench_options *options,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct trial trial = {
      .options = options,
      .extent = stg_prove_extent_of(stg_prove_bed_has_gpu(), options->quick),
  };
  const size_t bytes = trial.extent.largest * sizeof *trial.largest;
  trial.largest = stg_malloc(bytes);
  trial.exact = stg_malloc(bytes);
  stg_status status = trial.largest != NULL && trial.exact != NULL
                          ? stg_prove_first_report(options, report, reterr)
                          : stg_error_memory(reterr, "proofs of the bench", bytes);
  if (status == STG_OK) {
    status = run_trials(&trial, report, reterr);
  }
  stg_free(trial.largest);
  stg_free(trial.exact);
  return status;
}

stg_status stg_bench_suite_prove(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  if (options->n_words == 0) {
    return run_suite(options, report, reterr);
  }
  if (options->n_words == 1 && strcmp(options->words[0], STG_BENCH_CHILD) == 0) {
    return stg_prove_first_child(options, report, reterr);
  }
  return stg_error_set(reterr, STG_E_INVALID, "bench prove: it takes no word, found '%s'",
                       options->words[0]);
}
