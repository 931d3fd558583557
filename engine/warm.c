/*
 * warm.c: stg_warm: kernels of a manifest made side by side, then signature by signature the plans
 * and graphs. Which declarations there are is replay.c's, a plan warm_plan.c's; here is the order,
 * the deadline, and what is said of it.
 */
#include "engine/warm.h"

#include <string.h>

#include <steergraph/warm.h>

#include "engine/engine.h"
#include "engine/replay.h"
#include "engine/warm_plan.h"
#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"
#include "runtime/clock.h"

void stg_warm_sets_init(struct stg_warm_sets *kept) {
  *kept = (struct stg_warm_sets){.sets = NULL};
  pthread_mutex_init(&kept->lock, NULL);
}

void stg_warm_sets_finish(struct stg_warm_sets *kept) {
  for (size_t i = 0; i < kept->count; i++) {
    stg_kernels_close(kept->sets[i]);
  }
  stg_free(kept->sets);
  pthread_mutex_destroy(&kept->lock);
}

/* One declaration. */
struct warm_set {
  struct stg_kernel_set *set; /* owned, until kept */
  unsigned begun, settled;    /* of its kernels */
  bool failed;
};

/* One of its kernels. */
struct warm_kernel {
  struct stg_kernel *kernel;
  struct warm_set *set;
  bool settled;
};

/* A call. */
struct warm {
  stg_engine *engine;
  const struct stg_warm_desc *desc;
  const struct stg_replay *replay;
  struct warm_set *sets;       /* of replay->decls */
  struct warm_kernel *kernels; /* of all sets, in their order */
  size_t n_kernels;
  size_t next, in_flight, settled; /* kernels: to begin, being made, done with */
  size_t threads;
  uint64_t start_ns, until_ns;
  struct stg_no_rows no_rows;
  bool stopped;
  stg_warm_report report;
};

/* An engine keeps a set once, as an owner. False: it is the caller's still. */
static bool keep(struct stg_warm_sets *kept, struct stg_kernel_set *set) {
  bool taken = true;
  pthread_mutex_lock(&kept->lock);
  for (size_t i = 0; i < kept->count && taken; i++) {
    taken = kept->sets[i] != set;
  }
  if (taken && kept->count == kept->capacity) {
    const size_t capacity = kept->capacity == 0 ? 16 : 2 * kept->capacity;
    struct stg_kernel_set **sets = stg_realloc(kept->sets, capacity * sizeof *kept->sets);
    taken = sets != NULL;
    kept->sets = taken ? sets : kept->sets;
    kept->capacity = taken ? capacity : kept->capacity;
  }
  if (taken) {
    kept->sets[kept->count++] = set;
  }
  pthread_mutex_unlock(&kept->lock);
  return taken;
}

static void add_kernels(struct warm *warm, struct warm_set *set) {
  for (unsigned i = 0; i < set->set->family->n_variants; i++) {
    warm->kernels[warm->n_kernels++] = (struct warm_kernel){
        .kernel = &set->set->kernels[STG_TIER_DECLARED][i],
        .set = set,
    };
  }
}

static stg_status open_sets(struct warm *warm, stg_error *reterr) {
  const size_t n = warm->replay->n_decls;
  warm->sets = stg_calloc(n + 1, sizeof *warm->sets);
  warm->kernels = stg_calloc(n * STG_MAX_VARIANTS + 1, sizeof *warm->kernels);
  if (warm->sets == NULL || warm->kernels == NULL) {
    return stg_error_memory(reterr, "the kernels of a manifest", n * sizeof *warm->sets);
  }
  stg_status status = STG_OK;
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    status = stg_kernels_share(warm->engine, warm->replay->decls[i], &warm->sets[i].set, reterr);
    if (status == STG_OK) {
      add_kernels(warm, &warm->sets[i]);
    }
  }
  return status;
}

/* Sets of which nothing was begun go again, and so do those that cannot be made. */
static void close_sets(struct warm *warm) {
  for (size_t i = 0; warm->sets != NULL && i < warm->replay->n_decls; i++) {
    struct warm_set *set = &warm->sets[i];
    const bool useful = set->begun > 0 && !set->failed;
    if (!useful || !keep(&warm->engine->warmed, set->set)) {
      stg_kernels_close(set->set);
    }
  }
  stg_free(warm->kernels);
  stg_free(warm->sets);
}

/* Nothing of the kernel is waited for any more. */
static void mark_settled(struct warm *warm, struct warm_kernel *one) {
  one->settled = true;
  one->set->settled++;
  warm->settled++;
}

static void mark_failed(struct warm *warm, struct warm_set *set) {
  set->failed = true;
  warm->report.kernels_failed++;
}

static void count_ready(struct warm *warm, const struct stg_kernel *kernel) {
  warm->report.kernels_compiled += strcmp(kernel->source, "compiled") == 0 ? 1 : 0;
  warm->report.kernels_disk += strcmp(kernel->source, "disk") == 0 ? 1 : 0;
  warm->report.kernels_memory += strcmp(kernel->source, "memory") == 0 ? 1 : 0;
}

/* A kernel that a job has done with: there, or not to be had. */
static stg_status settle(struct warm *warm, struct warm_kernel *one, stg_error *reterr) {
  struct stg_kernel *kernel = one->kernel;
  stg_status status = STG_OK;
  mark_settled(warm, one);
  if (stg_kernel_state(kernel) == STG_KERNEL_READY) {
    count_ready(warm, kernel);
    return STG_OK;
  }
  pthread_mutex_lock(&kernel->set->lock);
  if (kernel->made == STG_E_DEVICE_LOST) {
    status = stg_error_set(reterr, kernel->made, "%s", kernel->error.message);
  }
  pthread_mutex_unlock(&kernel->set->lock);
  mark_failed(warm, one->set);
  return status;
}

static stg_status settle_what_ended(struct warm *warm, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < warm->next && status == STG_OK; i++) {
    struct warm_kernel *one = &warm->kernels[i];
    if (!one->settled && stg_kernel_state(one->kernel) != STG_KERNEL_ASKED) {
      warm->in_flight--;
      status = settle(warm, one, reterr);
    }
  }
  return status;
}

static bool is_late(const struct warm *warm) {
  return warm->until_ns != UINT64_MAX && stg_clock_ns() >= warm->until_ns;
}

/* Ask for a kernel. Where no thread can be had this one has made it, or tried to; and a table may
 * have been faster. Then no job ends that a wait would see. */
static stg_status start(struct warm *warm, struct warm_kernel *one, stg_error *reterr) {
  struct stg_kernel *kernel = one->kernel;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_kernel_start(kernel, &error);
  if (status == STG_E_FORKED || status == STG_E_DEVICE_LOST) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  if (status != STG_OK) {
    stg_log_printf(&warm->engine->log, STG_LOG_WARN, "kernel '%s' could not be made: %s",
                   kernel->signature, error.message);
    mark_settled(warm, one);
    mark_failed(warm, one->set);
  } else if (stg_kernel_state(kernel) == STG_KERNEL_ASKED) {
    warm->in_flight++;
  } else {
    return settle(warm, one, reterr);
  }
  return STG_OK;
}

/* Let as many kernels be made at once as there may be. */
static stg_status begin_more(struct warm *warm, stg_error *reterr) {
  stg_status status = STG_OK;
  while (status == STG_OK && warm->next < warm->n_kernels && warm->in_flight < warm->threads &&
         !is_late(warm)) {
    struct warm_kernel *one = &warm->kernels[warm->next++];
    one->set->begun++;
    if (stg_kernel_state(one->kernel) == STG_KERNEL_READY) {
      mark_settled(warm, one);
      warm->report.kernels_memory += stg_engine_is_cuda(warm->engine) ? 1 : 0;
    } else {
      status = start(warm, one, reterr);
    }
  }
  return status;
}

/* Until the kernels of a declaration are settled, or the deadline has passed. */
static stg_status wait_for_set(struct warm *warm, const struct warm_set *set, stg_error *reterr) {
  struct stg_kernel_table *table = &warm->engine->kernels;
  stg_status status = STG_OK;
  while (status == STG_OK) {
    const uint64_t seen = stg_kernels_settled(table);
    status = settle_what_ended(warm, reterr);
    if (status == STG_OK) {
      status = begin_more(warm, reterr);
    }
    if (status != STG_OK || set->settled == set->set->family->n_variants) {
      return status;
    }
    warm->stopped = is_late(warm);
    if (warm->stopped) {
      return STG_OK;
    }
    struct stg_interrupt_hold hold; /* as for any compile that is waited for */
    stg_interrupt_hold(&hold);
    stg_kernels_wait_settled(table, seen, warm->until_ns);
    stg_interrupt_release(&hold);
  }
  return status;
}

/* Seconds left: kernels take the time, and where none is left, signatures. */
static double guess_rest(const struct warm *warm, size_t done) {
  const size_t kernels = warm->n_kernels;
  const double so_far = (double)(stg_clock_ns() - warm->start_ns) * 1e-9;
  if (done == warm->replay->n_entries) {
    return 0;
  }
  if (warm->settled < kernels) {
    return warm->settled == 0 ? -1
                              : so_far * (double)(kernels - warm->settled) / (double)warm->settled;
  }
  return done == 0 ? -1 : so_far * (double)(warm->replay->n_entries - done) / (double)done;
}

/* Ask the caller whether to go on. */
static bool tell(const struct warm *warm, size_t done, const char *current) {
  if (warm->desc->progress == NULL) {
    return true;
  }
  const stg_warm_progress progress = {
      .struct_size = sizeof progress,
      .done = done,
      .total = warm->report.total,
      .current = current,
      .eta_s = guess_rest(warm, done),
  };
  return warm->desc->progress(warm->desc->user, &progress);
}

/* One signature. Past the limit of plans a further one would only push out one that was used more.
 */
static stg_status warm_entry(struct warm *warm, size_t index, stg_error *reterr) {
  const struct stg_replay_entry *entry = &warm->replay->entries[index];
  struct stg_plan_parts parts = {.count = entry->n_parts};
  bool graph = false, failed = false;
  stg_status status = STG_OK;
  for (unsigned i = 0; i < entry->n_parts && status == STG_OK && !warm->stopped; i++) {
    const struct warm_set *set = &warm->sets[entry->parts[i].decl];
    status = wait_for_set(warm, set, reterr);
    parts.sets[i] = set->set;
    failed = failed || set->failed;
  }
  if (status != STG_OK || warm->stopped) {
    return status;
  }
  if (failed) {
    warm->report.failed++;
    return STG_OK;
  }
  if (index < stg_plan_table_limit(warm->engine->plans)) {
    const unsigned variant = entry->parts[stg_plan_varying(&parts)].variant;
    status =
        stg_warm_plan(warm->engine, &parts, variant, &entry->shape, &warm->no_rows, &graph, reterr);
  }
  warm->report.graphs += graph ? 1 : 0;
  warm->report.done += status == STG_OK ? 1 : 0;
  return status;
}

static stg_status warm_entries(struct warm *warm, stg_error *reterr) {
  const size_t n = warm->replay->n_entries;
  size_t i = 0;
  stg_status status = STG_OK;
  while (i < n && status == STG_OK && !warm->stopped) {
    warm->stopped = is_late(warm) || !tell(warm, i, warm->replay->entries[i].signature);
    if (!warm->stopped) {
      status = warm_entry(warm, i, reterr);
    }
    i += warm->stopped ? 0 : 1;
  }
  warm->report.left = warm->report.total - warm->report.done - warm->report.failed;
  if (status == STG_OK && !warm->stopped) {
    (void)tell(warm, n, NULL);
  }
  return status;
}

static size_t threads_of(const stg_engine *engine, const stg_warm_desc *desc) {
  struct stg_tier_counters counters = {.max_threads = 1};
  if (engine->tiers != NULL) {
    stg_tiers_counters(engine->tiers, &counters);
  }
  return desc->threads != 0 && desc->threads < counters.max_threads ? desc->threads
                                                                    : counters.max_threads;
}

static stg_status warm_replay(stg_engine *engine, const struct stg_replay *replay,
                              const stg_warm_desc *desc, uint64_t start_ns,
                              stg_warm_report *ret_report, stg_error *reterr) {
  struct warm warm = {
      .engine = engine,
      .desc = desc,
      .replay = replay,
      .threads = threads_of(engine, desc),
      .start_ns = start_ns,
      .until_ns = UINT64_MAX,
      .report = {.struct_size = sizeof warm.report,
                 .total = replay->n_entries + replay->n_skipped,
                 .regions = replay->n_regions},
  };
  if (desc->deadline_ms != 0) {
    warm.until_ns = warm.start_ns + (uint64_t)desc->deadline_ms * 1000000u;
  }
  stg_status status = open_sets(&warm, reterr);
  if (status == STG_OK) {
    status = stg_no_rows_init(engine, &warm.no_rows, reterr);
  }
  if (status == STG_OK) {
    status = warm_entries(&warm, reterr);
  }
  stg_no_rows_finish(engine, &warm.no_rows);
  close_sets(&warm);
  if (status == STG_OK) {
    warm.report.ms = (double)(stg_clock_ns() - warm.start_ns) * 1e-6;
    *ret_report = warm.report;
  }
  return status;
}

/* Ops of a manifest have a table of their own, so that their names are in nobody's way. */
static stg_status warm_manifest(stg_engine *engine, const struct stg_manifest *manifest,
                                const stg_warm_desc *desc, uint64_t start_ns,
                                stg_warm_report *ret_report, stg_error *reterr) {
  struct stg_op_table *ops = NULL;
  struct stg_arena arena = {0};
  struct stg_replay replay;
  stg_status status = stg_op_table_create(&ops, reterr);
  if (status == STG_OK) {
    status = stg_replay_init(manifest, ops, &arena, &replay, reterr);
  }
  if (status == STG_OK) {
    status = warm_replay(engine, &replay, desc, start_ns, ret_report, reterr);
  }
  stg_arena_finish(&arena);
  stg_op_table_destroy(ops);
  return status;
}

stg_status stg_warm(stg_engine *engine, const char *file, const char *json, size_t json_bytes,
                    const stg_warm_desc *desc, stg_warm_report *ret_report, stg_error *reterr) {
  static const stg_warm_desc by_default = {.struct_size = sizeof by_default};
  const uint64_t start_ns = stg_clock_ns();
  struct stg_manifest manifest;
  stg_warm_report report;
  if (engine == NULL || json == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_warm: engine or json is NULL");
  }
  if ((desc != NULL && desc->struct_size != sizeof *desc) ||
      (ret_report != NULL && ret_report->struct_size != sizeof *ret_report)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_warm: struct_size is not %zu of the stg_warm_desc, or not %zu of the "
                         "report",
                         sizeof *desc, sizeof *ret_report);
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status =
        stg_manifest_parse(file != NULL ? file : "(manifest)", json, json_bytes, &manifest, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  status = warm_manifest(engine, &manifest, desc != NULL ? desc : &by_default, start_ns, &report,
                         reterr);
  stg_manifest_finish(&manifest);
  stg_recipes_settle(engine->recipes);
  if (status == STG_OK && ret_report != NULL) {
    *ret_report = report;
  }
  return status;
}

size_t stg_warm_report_json(const stg_warm_report *report, char *ret_text, size_t capacity) {
  struct stg_strbuf json = {0};
  stg_strbuf_printf(&json, "{\"total\": %zu, \"done\": %zu, \"failed\": %zu, \"left\": %zu, ",
                    report->total, report->done, report->failed, report->left);
  stg_strbuf_printf(&json,
                    "\"kernels_memory\": %zu, \"kernels_disk\": %zu, \"kernels_compiled\": %zu, "
                    "\"kernels_failed\": %zu, \"graphs\": %zu, \"regions\": %zu, \"ms\": ",
                    report->kernels_memory, report->kernels_disk, report->kernels_compiled,
                    report->kernels_failed, report->graphs, report->regions);
  stg_strbuf_double(&json, report->ms);
  stg_strbuf_char(&json, '}');
  const size_t needed = stg_strbuf_give(&json, ret_text, capacity);
  stg_strbuf_finish(&json);
  return needed;
}
