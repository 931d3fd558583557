/*
 * bench/suite_cache.c: `bench cache [ENTRIES]`: the disk cache with many entries in it, kernels
 * that are loaded, and processes that want the same kernels at once. Needs no GPU.
 *
 * All of it is in a temporary folder: 1.7 GB under TMPDIR for the 10 000 entries that there are
 * unless the word says otherwise. A row with a target has it in target_us.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "runtime/device.h"
#include "tools/bench/cache.h"
#include "tools/bench/calls.h"
#include "tools/bench/figures.h"
#include "tools/bench/temp_folder.h"
#include "tools/report.h"

#define ENTRIES 10000
#define QUICK_ENTRIES 100
#define MIN_ENTRIES 10
#define MAX_ENTRIES 1000000
#define MAX_KERNELS 10000 /* that a process is asked for */
#define P99 0.99

struct stg_bench_row stg_cache_row(const struct stg_cache_suite *suite, const char *name,
                                   double *us, size_t count, double target_us) {
  struct stg_bench_row row = {.suite = "cache",
                              .name = name,
                              .series = STG_BENCH_OURS,
                              .wall = stg_times_of(us, count),
                              .has_wall = true,
                              .card = suite->card};
  if (target_us > 0) {
    stg_bench_row_extra(&row, "target_us", target_us);
  }
  if (count > 1) {
    stg_bench_row_extra(&row, "p99_us", stg_bench_percentile(us, count, P99));
  }
  return row;
}

/* Between two parts, of which each ends soon. */
static stg_status go_on(stg_error *reterr) {
  return stg_interrupt_waits() ? stg_error_set(reterr, STG_E_CANCELLED, "stopped by a signal")
                               : STG_OK;
}

static stg_status measure_folder(const struct stg_cache_suite *suite, stg_error *reterr) {
  struct stg_cache_bed bed = {0};
  char *folder = stg_path_join(suite->folder, "full");
  if (folder == NULL) {
    return stg_error_memory(reterr, "the path of a cache", 0);
  }
  stg_report_progress("bench: cache: making %zu entries", suite->entries);
  stg_status status = stg_cache_bed_init(folder, suite->entries, &bed, reterr);
  if (status == STG_OK) {
    status = stg_cache_disk_rows(suite, &bed, reterr);
  }
  if (status == STG_OK) {
    status = go_on(reterr);
  }
  if (status == STG_OK) {
    status = stg_cache_command_rows(suite, &bed, reterr);
  }
  stg_cache_bed_finish(&bed);
  stg_free(folder);
  return status;
}

static stg_status measure(const struct stg_cache_suite *suite, stg_error *reterr) {
  stg_status status = measure_folder(suite, reterr);
  if (status == STG_OK) {
    status = go_on(reterr);
  }
  if (status == STG_OK) {
    status = stg_cache_memory_rows(suite, reterr);
  }
  return status == STG_OK ? stg_cache_crowd_rows(suite, reterr) : status;
}

/* Ctrl-C ends the children, which end this; then the folder is removed, and then we end. */
static stg_status measure_in_folder(struct stg_cache_suite *suite, stg_error *reterr) {
  char *folder = NULL;
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_bench_temp_folder_make(&folder, reterr);
  if (status == STG_OK) {
    suite->folder = folder;
    status = measure(suite, reterr);
    stg_status removed = stg_bench_temp_folder_remove(folder, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? removed : status;
    stg_free(folder);
  }
  stg_interrupt_release(&hold);
  return status;
}

/* Where there is a card, all rows of a run are said to be of that one. */
static stg_status run_suite(const struct stg_bench_options *options, size_t entries,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct stg_cache_suite suite = {.entries = entries, .quick = options->quick, .report = report};
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine *engine = NULL;
  int n_cards = 0;
  int driver = 0;
  stg_status status = stg_bench_engine_open(STG_BACKEND_CPU, STG_COMPILE_BLOCK, &engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_engine_get_info(engine, &info);
  if (stg_device_count(&n_cards, &driver, NULL) != STG_OK || n_cards == 0) {
    suite.card = info.device;
  }
  status = measure_in_folder(&suite, reterr);
  stg_status closed = stg_engine_destroy(engine, status == STG_OK ? reterr : NULL);
  return status == STG_OK ? closed : status;
}

static bool parse_count(const char *word, unsigned long least, unsigned long most,
                        unsigned long *ret) {
  char *end = NULL;
  if (word[0] < '0' || word[0] > '9') {
    return false;
  }
  *ret = strtoul(word, &end, 10);
  return *end == '\0' && *ret >= least && *ret <= most;
}

stg_status stg_bench_suite_cache(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  const char *const *words = options->words;
  unsigned long entries = options->quick ? QUICK_ENTRIES : ENTRIES;
  unsigned long first = 0;
  unsigned long count = 0;
  if (options->n_words == 0 ||
      (options->n_words == 1 && parse_count(words[0], MIN_ENTRIES, MAX_ENTRIES, &entries))) {
    return run_suite(options, entries, report, reterr);
  }
  if (options->n_words == 4 && strcmp(words[0], STG_BENCH_CHILD) == 0 &&
      parse_count(words[2], 0, MAX_KERNELS, &first) &&
      parse_count(words[3], 1, MAX_KERNELS, &count)) {
    return stg_cache_crowd_child(words[1], (unsigned)first, (unsigned)count, report, reterr);
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "bench cache: '%s' is no number of entries, %d to %d, the one word that may "
                       "follow",
                       words[0], MIN_ENTRIES, MAX_ENTRIES);
}
