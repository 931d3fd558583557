/*
 * bench/cache.h: the parts of the suite `cache`: a folder of many entries, lookups in it, the
 * command's work on it, and many processes that want the same kernels at once.
 */
#ifndef STG_TOOLS_BENCH_CACHE_H
#define STG_TOOLS_BENCH_CACHE_H

#include "tools/bench/cache_bed.h"
#include "tools/bench/suite.h"

/* What the parts share. */
struct stg_cache_suite {
  const char *folder; /* temporary, empty at first */
  size_t entries;     /* of the folder that lookups are in */
  bool quick;
  const char *card; /* of the rows: the processor, or NULL where the report knows a card */
  struct stg_bench_report *report;
};

/** A row of the suite with its wall times, p99 and target (0: none). */
struct stg_bench_row stg_cache_row(const struct stg_cache_suite *suite, const char *name,
                                   double *us, size_t count, double target_us);

/** Time hits on disk, whole and in their parts. */
STG_NODISCARD stg_status stg_cache_disk_rows(const struct stg_cache_suite *suite,
                                             struct stg_cache_bed *bed, stg_error *reterr);
/** Time hits in memory: of the table of loaded kernels, and of all of it where there is a GPU. */
STG_NODISCARD stg_status stg_cache_memory_rows(const struct stg_cache_suite *suite,
                                               stg_error *reterr);
/** Time `cache ls`, `cache gc --dry-run` and `cache verify` of the bed's folder. */
STG_NODISCARD stg_status stg_cache_command_rows(const struct stg_cache_suite *suite,
                                                const struct stg_cache_bed *bed, stg_error *reterr);
/**
 * Time processes that start with an empty folder and want the same kernels, beside one process that
 * does it alone. Adds no row, and says why, where there is no NVRTC. STG_E_CORRUPT when they did
 * not compile each kernel once.
 */
STG_NODISCARD stg_status stg_cache_crowd_rows(const struct stg_cache_suite *suite,
                                              stg_error *reterr);
/**
 * One of those processes: have `count` kernels in `folder`, from the one of number `first` on, and
 * add a row of what that took.
 */
STG_NODISCARD stg_status stg_cache_crowd_child(const char *folder, unsigned first, unsigned count,
                                               struct stg_bench_report *report, stg_error *reterr);

#endif
