/*
 * suite_warmup.c: `bench warmup`: first call, later calls, calls to amortise.
 *
 * Each figure of a first call comes from a process of its own: this command runs itself, first with
 * an empty cache folder, then with the folder that the first one left, then with a pack of what is
 * in it; and with an empty folder and compiles in the background. The driver is awake meanwhile:
 * this process has asked it for its devices.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "tools/bench/child.h"
#include "tools/bench/figures.h"
#include "tools/bench/temp_folder.h"
#include "tools/bench/warmup.h"

#define PROCESSES 5

/* What one kind of process measured, time after time. */
struct kind {
  struct stg_warmup_facts facts[PROCESSES];
};

struct warmup {
  struct kind cold, disk, pack, tiers;
  size_t count;
  double eager_us; /* of a call that this library does not serve; 0: not known yet */
};

static stg_status read_fact(const struct stg_json *row, const char *key, double *ret,
                            stg_error *reterr) {
  struct stg_json value;
  float number = 0;
  stg_status status = stg_json_get(row, key, &value, reterr);
  if (status == STG_OK) {
    status = stg_json_float(&value, &number, reterr);
  }
  *ret = (double)number;
  return status;
}

static stg_status read_facts(const struct stg_json_doc *doc, struct stg_warmup_facts *ret,
                             stg_error *reterr) {
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
  STG_WARMUP_FACTS(READ)
#undef READ
  return status;
}

static stg_status run_child(const struct stg_bench_options *options, const char *folder,
                            const char *kind, struct stg_warmup_facts *ret, stg_error *reterr) {
  char spawn_ns[24];
  snprintf(spawn_ns, sizeof spawn_ns, "%" PRIu64, stg_clock_ns());
  const char *const words[] = {"bench",   "warmup", STG_BENCH_CHILD,
                               kind,      spawn_ns, "--json",
                               "--cache", folder,   options->quick ? "--quick" : NULL,
                               NULL};
  struct stg_json_doc doc;
  stg_status status = stg_bench_child_run(words, &doc, reterr);
  if (status == STG_OK) {
    status = read_facts(&doc, ret, reterr);
    stg_json_finish(&doc);
  }
  return status;
}

/* The processes of one turn, with what each leaves to the next. */
static stg_status run_kinds(const struct stg_bench_options *options, struct warmup *warmup,
                            size_t index, const char *folder, stg_error *reterr) {
  struct stg_warmup_facts *cold = &warmup->cold.facts[index];
  char *cache = stg_path_join(folder, "cold");
  char *empty = stg_path_join(folder, "tiers");
  char *pack = NULL;
  stg_status status = cache != NULL && empty != NULL
                          ? run_child(options, cache, STG_WARMUP_COLD, cold, reterr)
                          : stg_error_memory(reterr, "the path of a cache", 0);
  if (status == STG_OK) {
    status = run_child(options, cache, STG_WARMUP_DISK, &warmup->disk.facts[index], reterr);
  }
  if (status == STG_OK) {
    status = stg_warmup_pack(folder, cache, (int)cold->sm, &pack, reterr);
  }
  if (status == STG_OK) {
    status = run_child(options, pack, STG_WARMUP_PACK, &warmup->pack.facts[index], reterr);
  }
  if (status == STG_OK) {
    status = run_child(options, empty, STG_WARMUP_TIERS, &warmup->tiers.facts[index], reterr);
  }
  stg_free(cache);
  stg_free(empty);
  stg_free(pack);
  return status;
}

/* A turn in a folder of its own. Ctrl-C ends the child; then the folder is removed, and then we
 * end. */
static stg_status run_turn(const struct stg_bench_options *options, struct warmup *warmup,
                           size_t index, stg_error *reterr) {
  char *folder = NULL;
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_bench_temp_folder_make(&folder, reterr);
  if (status == STG_OK) {
    status = run_kinds(options, warmup, index, folder, reterr);
    stg_status removed = stg_bench_temp_folder_remove(folder, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? removed : status;
    stg_free(folder);
  }
  stg_interrupt_release(&hold);
  return status;
}

/* The median of a fact over the processes; `ret_times` in its own unit, may be NULL. */
static double median_of(const struct warmup *warmup, const struct kind *kind, size_t offset,
                        struct stg_times *ret_times) {
  double values[PROCESSES];
  for (size_t i = 0; i < warmup->count; i++) {
    memcpy(&values[i], (const char *)&kind->facts[i] + offset, sizeof values[i]);
  }
  const struct stg_times times = stg_times_of(values, warmup->count);
  if (ret_times != NULL) {
    *ret_times = times;
  }
  return times.median_us;
}
#define ADD_OF(kind, name)                                                                         \
  stg_bench_row_extra(&row, #name,                                                                 \
                      median_of(warmup, kind, offsetof(struct stg_warmup_facts, name), NULL))
#define ADD(kind, name) ADD_OF(&warmup->kind, name)

/* A row's wall time is its first result's; what a context costs does not count as a debt. */
static struct stg_bench_row first_result(const struct warmup *warmup, const struct kind *kind,
                                         const char *name, size_t offset, size_t debt_offset) {
  struct stg_times ms;
  struct stg_bench_row row = {
      .suite = "warmup", .name = name, .series = STG_BENCH_OURS, .has_wall = true};
  median_of(warmup, kind, offset, &ms);
  row.wall = (struct stg_times){ms.median_us * 1e3, ms.min_us * 1e3, ms.max_us * 1e3};
  stg_bench_row_extra(&row, "first_ms", ms.median_us);
  stg_bench_row_extra(&row, "first_min_ms", ms.min_us);
  stg_bench_row_extra(&row, "first_max_ms", ms.max_us);
  const double debt_us = median_of(warmup, kind, debt_offset, NULL) * 1e3;
  const double later_us =
      median_of(warmup, kind, offsetof(struct stg_warmup_facts, later_us), NULL);
  double calls;
  stg_bench_row_extra(&row, "later_us", later_us);
  stg_bench_row_extra(&row, "eager_us", warmup->eager_us);
  if (stg_bench_amortise(debt_us, later_us, warmup->eager_us, &calls)) {
    stg_bench_row_extra(&row, "amortise_calls", calls);
  }
  return row;
}
#define FACT(name) offsetof(struct stg_warmup_facts, name)

static stg_status report_cold(const struct warmup *warmup, struct stg_bench_report *report,
                              stg_error *reterr) {
  struct stg_bench_row row = first_result(warmup, &warmup->cold, "first result, empty cache",
                                          FACT(total_ms), FACT(after_context_ms));
  ADD(cold, context_ms);
  ADD(cold, nvrtc_load_ms);
  ADD(cold, create_ms);
  ADD(cold, compile_ms);
  ADD(cold, module_load_ms);
  ADD(cold, first_call_ms);
  ADD(cold, after_context_ms);
  ADD(cold, since_exec_ms);
  ADD(cold, kernels);
  return stg_bench_report_add(report, &row, reterr);
}

/* What finds its kernels: in a folder, or in a pack. */
static stg_status report_found(const struct warmup *warmup, const struct kind *kind,
                               const char *name, struct stg_bench_report *report,
                               stg_error *reterr) {
  struct stg_bench_row row =
      first_result(warmup, kind, name, FACT(total_ms), FACT(after_context_ms));
  ADD_OF(kind, context_ms);
  ADD_OF(kind, create_ms);
  ADD_OF(kind, module_load_ms);
  ADD_OF(kind, first_call_ms);
  ADD_OF(kind, after_context_ms);
  ADD_OF(kind, since_exec_ms);
  return stg_bench_report_add(report, &row, reterr);
}

/* A general kernel gives the first result, and the row says which; the declared ones follow. */
static stg_status report_tiers(const struct warmup *warmup, struct stg_bench_report *report,
                               stg_error *reterr) {
  struct stg_bench_row row =
      first_result(warmup, &warmup->tiers, "first result, empty cache, in the background",
                   FACT(total_ms), FACT(after_context_ms));
  ADD(tiers, context_ms);
  ADD(tiers, nvrtc_load_ms);
  ADD(tiers, create_ms);
  ADD(tiers, compile_ms);
  ADD(tiers, first_call_ms);
  ADD(tiers, after_context_ms);
  ADD(tiers, since_exec_ms);
  ADD(tiers, kernels);
  ADD(tiers, first_tier);
  ADD(tiers, first_prefill);
  stg_status status = stg_bench_report_add(report, &row, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_times ms;
  median_of(warmup, &warmup->tiers, FACT(swap_ms), &ms);
  struct stg_bench_row swap = {.suite = "warmup",
                               .name = "declared kernels serve, from the table's creation",
                               .series = STG_BENCH_OURS,
                               .wall = {ms.median_us * 1e3, ms.min_us * 1e3, ms.max_us * 1e3},
                               .has_wall = true};
  return stg_bench_report_add(report, &swap, reterr);
}

static stg_status report_memory(const struct warmup *warmup, struct stg_bench_report *report,
                                stg_error *reterr) {
  const struct stg_bench_row row = first_result(
      warmup, &warmup->disk, "first result, kernels in memory", FACT(memory_ms), FACT(memory_ms));
  return stg_bench_report_add(report, &row, reterr);
}

/* Unless the words gave a time. */
static stg_status measure_eager(const struct stg_bench_options *options, struct warmup *warmup,
                                struct stg_bench_report *report, stg_error *reterr) {
  if (warmup->eager_us > 0) {
    return STG_OK;
  }
  struct stg_bench_row row = {
      .suite = "warmup", .name = "later calls", .series = "eager launches", .has_wall = true};
  stg_status status = stg_warmup_eager(options, &row.wall, reterr);
  if (status != STG_OK) {
    return status;
  }
  warmup->eager_us = row.wall.median_us;
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status report_later(const struct warmup *warmup, struct stg_bench_report *report,
                               stg_error *reterr) {
  struct stg_bench_row row = {
      .suite = "warmup", .name = "later calls", .series = STG_BENCH_OURS, .has_wall = true};
  median_of(warmup, &warmup->disk, FACT(later_us), &row.wall);
  ADD(disk, apply_us);
  return stg_bench_report_add(report, &row, reterr);
}

/* Said before anything is measured. The table of suites cannot ask it of the measured process. */
static stg_status check_gpu(stg_error *reterr) {
  int count = 0;
  int driver = 0;
  stg_status status = stg_device_count(&count, &driver, reterr);
  if (status == STG_OK && count == 0) {
    status = stg_error_set(reterr, STG_E_NO_DEVICE,
                           "the driver sees no device; check nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench warmup needs a GPU: ");
  }
  return status;
}

static stg_status run_suite(const struct stg_bench_options *options, double eager_us,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct warmup warmup = {.count = options->quick ? 1 : PROCESSES, .eager_us = eager_us};
  stg_status status = check_gpu(reterr);
  for (size_t i = 0; status == STG_OK && i < warmup.count; i++) {
    status = run_turn(options, &warmup, i, reterr);
  }
  if (status == STG_OK) {
    status = measure_eager(options, &warmup, report, reterr);
  }
  if (status == STG_OK) {
    status = report_cold(&warmup, report, reterr);
  }
  if (status == STG_OK) {
    status = report_tiers(&warmup, report, reterr);
  }
  if (status == STG_OK) {
    status = report_found(&warmup, &warmup.disk, "first result, disk cache", report, reterr);
  }
  if (status == STG_OK) {
    status = report_found(&warmup, &warmup.pack, "first result, pack", report, reterr);
  }
  if (status == STG_OK) {
    status = report_memory(&warmup, report, reterr);
  }
  if (status == STG_OK) {
    status = report_later(&warmup, report, reterr);
  }
  if (status == STG_OK) {
    status = stg_warmup_stalls(options, report, reterr);
  }
  return status == STG_OK ? stg_warmup_appear(options, report, reterr) : status;
}

static bool parse_ns(const char *word, uint64_t *ret) {
  char *end = NULL;
  *ret = strtoull(word, &end, 10);
  return end != word && *end == '\0';
}

static bool parse_us(const char *word, double *ret) {
  char *end = NULL;
  *ret = strtod(word, &end);
  return end != word && *end == '\0' && *ret > 0 && *ret < 1e12;
}

stg_status stg_bench_suite_warmup(const struct stg_bench_options *options,
                                  struct stg_bench_report *report, stg_error *reterr) {
  const char *const *words = options->words;
  double eager_us = 0;
  uint64_t spawn_ns = 0;
  if (options->n_words == 0 || (options->n_words == 1 && parse_us(words[0], &eager_us))) {
    return run_suite(options, eager_us, report, reterr);
  }
  static const char *const kinds[] = {STG_WARMUP_COLD, STG_WARMUP_DISK, STG_WARMUP_PACK,
                                      STG_WARMUP_TIERS};
  const bool is_child = options->n_words == 3 && strcmp(words[0], STG_BENCH_CHILD) == 0 &&
                        parse_ns(words[2], &spawn_ns);
  for (size_t i = 0; is_child && i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(words[1], kinds[i]) == 0) {
      return stg_warmup_child(options, kinds[i], spawn_ns, report, reterr);
    }
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "bench warmup: '%s' is not the microseconds of an eager call, the one word "
                       "that may follow",
                       words[0]);
}
