/*
 * prove_first.c: see prove_first.h. A process pays for a compiler, for loading and for caches of
 * the driver once, so each figure is of a process of its own.
 */
#include "tools/bench/prove_first.h"

#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"
#include "runtime/clock.h"
#include "tools/bench/child.h"
#include "tools/bench/prove_bed.h"
#include "tools/bench/temp_folder.h"
#include "tools/report.h"

/* Members of the child's row. A first result is compiling, loading and the first pool; what makes
 * up base and weights and sends them is not in it. */
#define FACTS(X)                                                                                   \
  X(first_ms)      /* the sum of the next three */                                                 \
  X(compile_ms)    /* in the compiler */                                                           \
  X(load_ms)       /* in the driver's loader */                                                    \
  X(first_call_ms) /* the first pool, but for what of these two came in it */                      \
  X(create_ms)     /* engine, base, queries, weights: made up, and on the device */                \
  X(later_us)      /* the same pool again */                                                       \
  X(compiles)                                                                                      \
  X(pool)

struct facts {
#define MEMBER(name) double name;
  FACTS(MEMBER)
#undef MEMBER
};

/* ---- the measured process ---- */

struct spent {
  double compile_ms, load_ms, compiles;
};

static struct spent spent_by(const struct stg_prove_bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->job.engine, &stats);
  return (struct spent){stats.compile_ms, stats.load_us * 1e-3, (double)stats.kernel_compiles};
}

static stg_status measure(struct stg_prove_bed *bed, size_t pool, struct facts *facts,
                          stg_error *reterr) {
  struct stg_prove_pool_run run = stg_prove_pool_of(bed, 0, pool);
  const struct spent before = spent_by(bed);
  double us = 0;
  stg_status status = stg_prove_bed_time(&run, &us, reterr);
  if (status == STG_OK) {
    status = stg_prove_bed_time(&run, &facts->later_us, reterr);
  }
  const struct spent after = spent_by(bed);
  facts->compile_ms = after.compile_ms;
  facts->load_ms = after.load_ms;
  facts->compiles = after.compiles;
  facts->first_call_ms =
      us * 1e-3 - (after.compile_ms - before.compile_ms) - (after.load_ms - before.load_ms);
  facts->first_ms = facts->compile_ms + facts->load_ms + facts->first_call_ms;
  facts->pool = (double)pool;
  return status;
}

stg_status stg_prove_first_child(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  const bool small = options->quick && !stg_prove_bed_has_gpu();
  const size_t pool = small ? stg_prove_pools[0] : STG_PROVE_BATCH;
  struct stg_prove_bed bed;
  struct facts facts = {0};
  struct stg_bench_row row = {
      .suite = STG_PROVE_SUITE, .name = STG_BENCH_CHILD, .series = STG_BENCH_OURS};
  const uint64_t from = stg_clock_ns();
  stg_status status = stg_prove_bed_init(options, small ? STG_PROVE_COUNTRIES : STG_PROVE_FAMILY,
                                         STG_PROVER_F32, STG_PROVE_BATCH, &bed, reterr);
  facts.create_ms = (double)(stg_clock_ns() - from) * 1e-6;
  if (status == STG_OK) {
    status = measure(&bed, pool, &facts, reterr);
  }
  if (status == STG_OK) {
#define ADD(name) stg_bench_row_extra(&row, #name, facts.name);
    FACTS(ADD)
#undef ADD
    status = stg_bench_report_add(report, &row, reterr);
  }
  stg_prove_bed_finish(&bed);
  return status;
}

/* ---- the process that asks ---- */

static stg_status read_fact(const struct stg_json *row, const char *key, double *ret,
                            stg_error *reterr) {
  struct stg_json value;
  stg_status status = stg_json_get(row, key, &value, reterr);
  return status == STG_OK ? stg_json_double(&value, ret, reterr) : status;
}

static stg_status read_facts(const struct stg_json_doc *doc, struct facts *ret, stg_error *reterr) {
  const struct stg_json root = stg_json_root(doc);
  struct stg_json row;
  stg_status status = stg_json_expect_array(&root, reterr);
  if (status == STG_OK && !stg_json_first(&root, &row)) {
    status = stg_json_unexpected(&root, "one row", reterr);
  }
#define READ(name)                                                                                 \
  if (status == STG_OK) {                                                                          \
    status = read_fact(&row, #name, &ret->name, reterr);                                           \
  }
  FACTS(READ)
#undef READ
  return status;
}

static stg_status report_process(const struct stg_bench_options *options, const char *folder,
                                 const char *name, struct stg_bench_report *report,
                                 stg_error *reterr) {
  const char *const words[] = {"bench",
                               STG_PROVE_SUITE,
                               STG_BENCH_CHILD,
                               "--json",
                               "--cache",
                               folder,
                               options->quick ? "--quick" : NULL,
                               NULL};
  struct stg_json_doc doc;
  struct facts facts = {0};
  struct stg_bench_row row = {
      .suite = STG_PROVE_SUITE, .name = name, .series = STG_BENCH_OURS, .has_wall = true};
  stg_status status = stg_bench_child_run(words, &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = read_facts(&doc, &facts, reterr);
  stg_json_finish(&doc);
  if (status != STG_OK) {
    return status;
  }
  const double us = facts.first_ms * 1e3;
  row.wall = (struct stg_times){us, us, us};
#define ADD(name) stg_bench_row_extra(&row, #name, facts.name);
  FACTS(ADD)
#undef ADD
  return stg_bench_report_add(report, &row, reterr);
}

/* Ctrl-C ends the process; then the folder is removed, and then we end. */
stg_status stg_prove_first_report(const struct stg_bench_options *options,
                                  struct stg_bench_report *report, stg_error *reterr) {
  char *folder = NULL;
  struct stg_interrupt_hold hold;
  stg_report_progress("bench: prove: first results");
  stg_interrupt_hold(&hold);
  stg_status status = stg_bench_temp_folder_make(&folder, reterr);
  if (status == STG_OK) {
    status = report_process(options, folder, "first result, empty cache", report, reterr);
    if (status == STG_OK) {
      status = report_process(options, folder, "first result, disk cache", report, reterr);
    }
    stg_status removed = stg_bench_temp_folder_remove(folder, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? removed : status;
    stg_free(folder);
  }
  stg_interrupt_release(&hold);
  return status;
}
