/*
 * bench/cache_crowd.c: many processes that start with an empty folder and want the same kernels, as
 * the replicas of a service do, beside one process that wants them alone.
 *
 * Kernels are small, so that it is the cache that is measured, and not NVRTC alone. They are built
 * for an architecture, not for a device: there need be none. A process asks for all of them in
 * turn; "in one order" all begin with the same one, otherwise each begins elsewhere.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/module_cache.h"
#include "tools/bench/cache.h"
#include "tools/bench/child.h"
#include "tools/bench/row_json.h"
#include "tools/report.h"

#define PROCESSES 16
#define KERNELS 50
#define QUICK_PROCESSES 3
#define QUICK_KERNELS 4
#define MAX_FOLDER 4096
#define ARCH "sm_90"

/* What a process did, by the keys of its row. */
#define FACTS(X)                                                                                   \
  X(compiles)   /* kernels that it compiled */                                                     \
  X(hits)       /* that it found */                                                                \
  X(compile_ms) /* of all its compiles */

struct facts {
#define MEMBER(name) double name;
  FACTS(MEMBER)
#undef MEMBER
};

/* How many processes want how many kernels. */
struct crowd {
  const char *series;
  unsigned processes, kernels;
  bool one_order;
};

static stg_status build_one(struct stg_disk_cache *disk, unsigned number, struct facts *facts,
                            stg_error *reterr) {
  const struct stg_log log = {stg_report_log, NULL, STG_LOG_WARN};
  char source[256];
  bool compiled = false;
  double compile_ms = 0;
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void bench_small(float *rows, int count) {\n"
           "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
           "  if (i < count) {\n"
           "    rows[i] *= %u.0f;\n"
           "  }\n"
           "}\n",
           number);
  const struct stg_kernel_request request = {.signature = "bench small | " ARCH,
                                             .name = "bench_small",
                                             .prelude = "",
                                             .source = source,
                                             .arch = ARCH,
                                             .threads = 128,
                                             .rows_per_block = 1};
  stg_status status = stg_module_build(disk, &request, &log, &compiled, &compile_ms, reterr);
  if (status == STG_OK) {
    facts->compiles += compiled;
    facts->hits += !compiled;
    facts->compile_ms += compile_ms;
  }
  return status;
}

stg_status stg_cache_crowd_child(const char *folder, unsigned first, unsigned count,
                                 struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_disk_options options = {.path_list = folder,
                                           .log = {stg_report_log, NULL, STG_LOG_WARN}};
  struct facts facts = {0};
  struct stg_disk_cache *disk = NULL;
  stg_status status = stg_disk_cache_open(&options, &disk, reterr);
  for (unsigned i = 0; status == STG_OK && i < count; i++) {
    status = build_one(disk, (first + i) % count, &facts, reterr);
  }
  stg_disk_cache_close(disk);
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row = {.suite = "cache", .name = STG_BENCH_CHILD, .series = STG_BENCH_OURS};
#define ADD(name) stg_bench_row_extra(&row, #name, facts.name);
  FACTS(ADD)
#undef ADD
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status start_child(const char *folder, const struct crowd *crowd, unsigned index,
                              struct stg_child_running *ret, stg_error *reterr) {
  char first[16];
  char count[16];
  snprintf(first, sizeof first, "%u",
           crowd->one_order ? 0 : index * crowd->kernels / crowd->processes);
  snprintf(count, sizeof count, "%u", crowd->kernels);
  const char *const words[] = {"bench", "cache", STG_BENCH_CHILD, folder,
                               first,   count,   "--json",        NULL};
  return stg_bench_child_start(words, ret, reterr);
}

/* Add what the process did, as its row says, to `facts`. */
static stg_status add_facts(const struct stg_json_doc *doc, struct facts *facts,
                            stg_error *reterr) {
  const struct stg_json root = stg_json_root(doc);
  struct stg_json object;
  struct stg_bench_row row = {0};
  int driver = 0;
  stg_status status = stg_json_expect_array(&root, reterr);
  if (status == STG_OK && !stg_json_first(&root, &object)) {
    status = stg_json_unexpected(&root, "one row", reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_row_read(&object, &row, &driver, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < row.n_extras; i++) {
#define ADD(name) facts->name += strcmp(row.extras[i].key, #name) == 0 ? row.extras[i].value : 0;
    FACTS(ADD)
#undef ADD
  }
  return status;
}

static stg_status finish_child(const struct stg_child_running *running, struct facts *facts,
                               stg_error *reterr) {
  struct stg_json_doc doc;
  stg_status status = stg_bench_child_finish(running, &doc, reterr);
  if (status == STG_OK) {
    status = add_facts(&doc, facts, reterr);
    stg_json_finish(&doc);
  }
  return status;
}

/* Start all, wait for all, also where one fails. */
static stg_status run_all(const char *folder, const struct crowd *crowd, struct facts *facts,
                          stg_error *reterr) {
  struct stg_child_running running[PROCESSES];
  unsigned n_running = 0;
  stg_status status = STG_OK;
  while (status == STG_OK && n_running < crowd->processes) {
    status = start_child(folder, crowd, n_running, &running[n_running], reterr);
    n_running += status == STG_OK;
  }
  for (unsigned i = 0; i < n_running; i++) {
    stg_status ended = finish_child(&running[i], facts, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? ended : status;
  }
  return status;
}

/* However many processes there are, each kernel is compiled by one and found by the rest. */
static stg_status check_facts(const struct crowd *crowd, const struct facts *facts,
                              stg_error *reterr) {
  const double asked = (double)crowd->processes * crowd->kernels;
  if (facts->compiles == crowd->kernels && facts->hits == asked - crowd->kernels) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT,
                       "bench cache: %u processes compiled %.0f times and found %.0f times what "
                       "should be compiled %u times; is the folder's file system without locks?",
                       crowd->processes, facts->compiles, facts->hits, crowd->kernels);
}

static stg_status measure(const struct stg_cache_suite *suite, const struct crowd *crowd,
                          double alone_us, double *ret_us, stg_error *reterr) {
  char folder[MAX_FOLDER];
  char name[64];
  struct facts facts = {0};
  snprintf(folder, sizeof folder, "%s/crowd-%u%s", suite->folder, crowd->processes,
           crowd->one_order ? "-in-order" : "");
  snprintf(name, sizeof name, "%u kernels, empty folder", crowd->kernels);
  const uint64_t from_ns = stg_clock_ns();
  stg_status status = run_all(folder, crowd, &facts, reterr);
  *ret_us = (double)(stg_clock_ns() - from_ns) * 1e-3;
  if (status == STG_OK) {
    status = check_facts(crowd, &facts, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row = stg_cache_row(suite, name, ret_us, 1, 0);
  row.series = crowd->series;
  stg_bench_row_extra(&row, "processes", crowd->processes);
  stg_bench_row_extra(&row, "kernels", crowd->kernels);
#define ADD(name) stg_bench_row_extra(&row, #name, facts.name);
  FACTS(ADD)
#undef ADD
  if (alone_us > 0) {
    stg_bench_row_extra(&row, "alone_x", *ret_us / alone_us);
  }
  return stg_bench_report_add(suite->report, &row, reterr);
}

stg_status stg_cache_crowd_rows(const struct stg_cache_suite *suite, stg_error *reterr) {
  const unsigned processes = suite->quick ? QUICK_PROCESSES : PROCESSES;
  const unsigned kernels = suite->quick ? QUICK_KERNELS : KERNELS;
  const struct crowd alone = {"one process", 1, kernels, false};
  const struct crowd crowds[] = {
      {"many processes", processes, kernels, false},
      {"many processes, in one order", processes, kernels, true},
  };
  struct stg_nvrtc_info nvrtc;
  stg_error why = STG_ERROR_INIT;
  double alone_us = 0;
  double us = 0;
  stg_status status = stg_nvrtc_info(&nvrtc, &why);
  if (status == STG_E_NO_DEVICE) {
    stg_report_progress("bench: cache: no rows of many processes: %s", why.message);
    return STG_OK;
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", why.message);
  }
  status = measure(suite, &alone, 0, &alone_us, reterr);
  for (size_t i = 0; status == STG_OK && i < sizeof crowds / sizeof crowds[0]; i++) {
    status = measure(suite, &crowds[i], alone_us, &us, reterr);
  }
  return status;
}
