/*
 * stats.c: an engine's counters, as a struct and as JSON.
 */
#include <string.h>

#include "engine/engine.h"
#include "runtime/base/strbuf.h"

/* One row per integer counter. */
#define STAT_LIST(X)                                                                               \
  X(kernel_memory_hits)                                                                            \
  X(kernel_disk_hits)                                                                              \
  X(kernel_compiles)                                                                               \
  X(cache_stores)                                                                                  \
  X(cache_store_failures)                                                                          \
  X(cache_quarantined)                                                                             \
  X(graphs_created)                                                                                \
  X(graph_updates)                                                                                 \
  X(graph_launches)                                                                                \
  X(plain_launches)                                                                                \
  X(graph_fallbacks)                                                                               \
  X(steps)                                                                                         \
  X(applies)                                                                                       \
  X(vectors_live)                                                                                  \
  X(vector_bytes)                                                                                  \
  X(vector_intern_hits)                                                                            \
  X(gram_pairs)                                                                                    \
  X(gram_hits)                                                                                     \
  X(kernels_live)                                                                                  \
  X(kernel_bytes)                                                                                  \
  X(plans_live)                                                                                    \
  X(graphs_live)                                                                                   \
  X(plan_evictions)                                                                                \
  X(graph_evictions)                                                                               \
  X(plan_bytes)                                                                                    \
  X(kernel_swaps)                                                                                  \
  X(compiles_queued)                                                                               \
  X(compiles_running)                                                                              \
  X(compiles_refused)                                                                              \
  X(compile_threads)

void stg_engine_stats(const stg_engine *engine, stg_stats *stats) {
  if (stats->struct_size != sizeof *stats) {
    return;
  }
  struct stg_module_counters modules = {0};
  struct stg_disk_counters disk = {0};
  struct stg_vector_counters vectors = {0};
  if (engine->modules != NULL) {
    stg_module_cache_counters(engine->modules, &modules);
  }
  struct stg_tier_counters tiers = {0};
  struct stg_plan_counters plans;
  if (engine->tiers != NULL) {
    stg_tiers_counters(engine->tiers, &tiers);
  }
  stg_plan_table_counters(engine->plans, &plans);
  stg_disk_cache_counters(engine->disk, &disk);
  stg_vector_table_counters(engine->vectors, &vectors);
  const struct stg_engine_counters *own = &engine->counters;
  *stats = (stg_stats){
      .struct_size = sizeof *stats,
      .kernel_memory_hits = modules.memory_hits + atomic_load(&own->kernel_hits),
      .kernel_disk_hits = modules.disk_hits,
      .kernel_compiles = modules.compiles,
      .compile_ms = modules.compile_ms,
      .load_us = modules.load_us,
      .cache_stores = disk.stores,
      .cache_store_failures = disk.store_failures,
      .cache_quarantined = disk.quarantined,
      .graphs_created = atomic_load(&own->graphs_created),
      .graph_updates = atomic_load(&own->graph_updates),
      .graph_launches = atomic_load(&own->graph_launches),
      .plain_launches = atomic_load(&own->plain_launches),
      .graph_fallbacks = atomic_load(&own->graph_fallbacks),
      .steps = atomic_load(&own->steps),
      .applies = atomic_load(&own->applies),
      .vectors_live = vectors.live,
      .vector_bytes = vectors.bytes,
      .vector_intern_hits = vectors.hits,
      .gram_pairs = vectors.gram_pairs,
      .gram_hits = vectors.gram_hits,
      .kernels_live = modules.live,
      .kernel_bytes = modules.code_bytes,
      .plans_live = plans.plans,
      .graphs_live = plans.execs,
      .plan_evictions = plans.plan_evictions,
      .graph_evictions = plans.exec_evictions,
      .plan_bytes = plans.bytes,
      .kernel_swaps = atomic_load(&own->kernel_swaps),
      .compiles_queued = tiers.queued,
      .compiles_running = tiers.running,
      .compiles_refused = tiers.refused,
      .compile_threads = tiers.threads,
  };
}

size_t stg_engine_stats_json(const stg_engine *engine, char *ret_text, size_t capacity) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  struct stg_strbuf json = {0};
  stg_strbuf_str(&json, "{");
#define STAT_FIELD(field)                                                                          \
  stg_strbuf_printf(&json, "\"" #field "\": %llu, ", (unsigned long long)stats.field);
  STAT_LIST(STAT_FIELD)
#undef STAT_FIELD
  stg_strbuf_str(&json, "\"compile_ms\": ");
  stg_strbuf_double(&json, stats.compile_ms);
  stg_strbuf_str(&json, ", \"load_us\": ");
  stg_strbuf_double(&json, stats.load_us);
  stg_strbuf_str(&json, "}");
  const char *text = stg_strbuf_text(&json);
  const size_t needed = strlen(text) + 1;
  if (ret_text != NULL && capacity > 0) {
    size_t copied = needed <= capacity ? needed - 1 : capacity - 1;
    memcpy(ret_text, text, copied);
    ret_text[copied] = '\0';
  }
  stg_strbuf_finish(&json);
  return needed;
}
