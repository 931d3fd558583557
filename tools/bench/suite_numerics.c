/*
 * bench/suite_numerics.c: `bench numerics [OP...]`: how near the result is to the float64 oracle.
 *
 * For each op, dtype and chain length: the largest error over its own bound (worst_ratio, at most
 * 1), the elements beyond theirs (violations), and the share of elements whose bits differ from
 * what eager PyTorch would store (differs_share, eager_rounding.h), with the worst ratio of that.
 * The chains of `mixed` draw each op from all of them. Runs on CUDA where there is a device,
 * else on the CPU.
 */
#include <stdio.h>
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "tools/bench/numerics_bed.h"
#include "tools/bench/numerics_draw.h"
#include "tools/bench/suite.h"
#include "tools/workload_job.h"

#define MAX_OPS 64
#define MIXED "mixed"
#define ROWS 32
#define QUICK_ROWS STG_NUMERICS_SLOTS

static const size_t chain_lengths[] = {1, 2, 4, 8};
static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
static const int64_t hidden_sizes[] = {STG_BENCH_HIDDEN, STG_BENCH_HIDDEN + 1};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct suite {
  stg_engine *engine;
  stg_engine_info info;
  const char *ops[MAX_OPS]; /* that chains may draw from */
  size_t n_ops;
  const char *const *words; /* rows that are wanted; none: all */
  size_t n_words;
  int64_t rows;
  struct stg_bench_report *report;
};

static bool is_wanted(const struct suite *suite, const char *op) {
  for (size_t i = 0; i < suite->n_words; i++) {
    if (strcmp(suite->words[i], op) == 0) {
      return true;
    }
  }
  return suite->n_words == 0;
}

/* Every built-in op that edits; a word must be one of them, or `mixed`. */
static stg_status list_ops(struct suite *suite, stg_error *reterr) {
  const size_t count = stg_engine_op_count(suite->engine);
  for (size_t i = 0; i < count && suite->n_ops < MAX_OPS; i++) {
    struct stg_op_info info;
    stg_status status = stg_engine_op_at(suite->engine, i, &info, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!info.has_output) {
      suite->ops[suite->n_ops++] = info.name;
    }
  }
  for (size_t i = 0; i < suite->n_words; i++) {
    struct stg_op_info info;
    if (strcmp(suite->words[i], MIXED) == 0) {
      continue;
    }
    stg_status status = stg_engine_op_find(suite->engine, suite->words[i], &info, reterr);
    if (status == STG_OK && info.has_output) {
      status = stg_error_set(reterr, STG_E_INVALID, "op '%s' edits no row", info.name);
    }
    if (status != STG_OK) {
      stg_error_prefix(reterr, "bench numerics: ");
      return status;
    }
  }
  return STG_OK;
}

/* Random chains of `op`, NULL for any, into every slot. */
static stg_status set_slots(const struct suite *suite, struct stg_numerics_bed *bed, const char *op,
                            size_t length, stg_error *reterr) {
  struct stg_numerics_draws draws = {.seed = (uint32_t)length};
  stg_status status = STG_OK;
  for (uint32_t slot = 0; status == STG_OK && slot < STG_NUMERICS_SLOTS; slot++) {
    stg_op_call calls[STG_NUMERICS_MAX_CHAIN];
    for (size_t k = 0; k < length; k++) {
      const char *drawn = op;
      if (op == NULL) {
        drawn = suite->ops[stg_numerics_below(&draws, (uint32_t)suite->n_ops)];
      }
      stg_numerics_draw_call(&draws, drawn, bed->vectors, bed->n_vectors, &calls[k]);
    }
    status = stg_numerics_bed_set(bed, slot, calls, length, reterr);
  }
  return status;
}

static stg_status add_row(const struct suite *suite, const struct stg_numerics_bed *bed,
                          const char *name, size_t length,
                          const struct stg_numerics_verdict *verdict, stg_error *reterr) {
  struct stg_bench_row row = {
      .suite = "numerics", .name = name, .series = STG_BENCH_OURS, .card = suite->info.device};
  stg_bench_row_extra(&row, "chain", (double)length);
  stg_bench_row_extra(&row, "hidden", (double)bed->hidden_size);
  stg_bench_row_extra(&row, "rows", (double)bed->rows);
  stg_bench_row_extra(&row, "worst_ratio", verdict->ours.worst_ratio);
  stg_bench_row_extra(&row, "violations", (double)verdict->ours.violations);
  stg_bench_row_extra(&row, "differs_share", verdict->differs_share);
  stg_bench_row_extra(&row, "eager_worst_ratio", verdict->eager_worst_ratio);
  return stg_bench_report_add(suite->report, &row, reterr);
}

static stg_status judge_op(const struct suite *suite, struct stg_numerics_bed *bed, const char *op,
                           size_t length, stg_error *reterr) {
  char name[128];
  struct stg_numerics_verdict verdict;
  snprintf(name, sizeof name, "%s x%zu, %s, %lld wide", op != NULL ? op : MIXED, length,
           stg_dtype_name(bed->dtype), (long long)bed->hidden_size);
  stg_status status = set_slots(suite, bed, op, length, reterr);
  if (status == STG_OK) {
    status = stg_numerics_bed_judge(bed, &verdict, reterr);
  }
  if (status == STG_OK) {
    status = add_row(suite, bed, name, length, &verdict, reterr);
  }
  if (status == STG_OK && verdict.ours.violations > 0) {
    status = stg_error_set(reterr, STG_E_CORRUPT,
                           "%llu elements are beyond their bounds, the first is element %lld of "
                           "row %lld, the worst ratio %g",
                           (unsigned long long)verdict.ours.violations,
                           (long long)verdict.ours.first_element, (long long)verdict.ours.first_row,
                           verdict.ours.worst_ratio);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench numerics: %s: ", name);
  }
  return status;
}

static stg_status judge_dtype(const struct suite *suite, int64_t hidden_size, stg_dtype dtype,
                              stg_error *reterr) {
  struct stg_numerics_bed bed;
  stg_status status =
      stg_numerics_bed_init(suite->engine, hidden_size, dtype, suite->rows, &bed, reterr);
  for (size_t i = 0; status == STG_OK && i <= suite->n_ops; i++) {
    const char *op = i < suite->n_ops ? suite->ops[i] : NULL;
    if (!is_wanted(suite, op != NULL ? op : MIXED)) {
      continue;
    }
    for (size_t k = 0; status == STG_OK && k < COUNT(chain_lengths); k++) {
      status = judge_op(suite, &bed, op, chain_lengths[k], reterr);
    }
  }
  stg_status finished = stg_numerics_bed_finish(&bed, status == STG_OK ? reterr : NULL);
  return status != STG_OK ? status : finished;
}

stg_status stg_bench_suite_numerics(const struct stg_bench_options *options,
                                    struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_job_options engine_options = {.cache_path = options->cache};
  struct suite suite = {.info = {.struct_size = sizeof suite.info},
                        .words = options->words,
                        .n_words = options->n_words,
                        .rows = options->quick ? QUICK_ROWS : ROWS,
                        .report = report};
  stg_status status = stg_job_open_engine(&engine_options, &suite.engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_engine_get_info(suite.engine, &suite.info);
  status = list_ops(&suite, reterr);
  for (size_t h = 0; status == STG_OK && h < COUNT(hidden_sizes); h++) {
    for (size_t d = 0; status == STG_OK && d < COUNT(dtypes); d++) {
      status = judge_dtype(&suite, hidden_sizes[h], dtypes[d], reterr);
    }
  }
  stg_job_close_engine(suite.engine);
  return status;
}
