/*
 * stats.c: an engine's counters, as a struct and as JSON.
 */
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
  X(cache_pack_hits)                                                                               \
  X(cache_misses)                                                                                  \
  X(cache_evictions)                                                                               \
  X(cache_evicted_bytes)                                                                           \
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
  X(step_rows)                                                                                     \
  X(step_pad_rows)                                                                                 \
  X(step_requests)                                                                                 \
  X(step_pad_requests)                                                                             \
  X(rows_steered)                                                                                  \
  X(rows_untouched)                                                                                \
  X(rows_unseen)                                                                                   \
  X(tier0_launches)                                                                                \
  X(tier1_launches)                                                                                \
  X(table_bytes)                                                                                   \
  X(bank_bytes)                                                                                    \
  X(frame_bytes)                                                                                   \
  X(pinned_bytes)                                                                                  \
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
  X(compile_threads)                                                                               \
  X(traffic_shapes)                                                                                \
  X(traffic_dropped)                                                                               \
  X(host_graphs_live)                                                                              \
  X(kv_bytes)                                                                                      \
  X(attention_applies)                                                                             \
  X(kv_rows_refused)                                                                               \
  X(components_applies)                                                                            \
  X(regions_recorded)                                                                              \
  X(region_replays)                                                                                \
  X(region_failures)                                                                               \
  X(region_bytes)

void stg_engine_stats(const stg_engine *engine, stg_stats *stats) {
  if (stats->struct_size != sizeof *stats || stg_engine_check_process(engine, NULL) != STG_OK) {
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
  struct stg_traffic_totals traffic;
  stg_traffic_get_totals(engine->traffic, &traffic);
  stg_disk_cache_counters(engine->disk, &disk);
  stg_vector_table_counters(engine->vectors, &vectors);
  const struct stg_engine_counters *own = &engine->counters;
  const struct stg_usage *usage = &engine->usage;
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
      .cache_pack_hits = disk.pack_hits,
      .cache_misses = disk.misses,
      .cache_evictions = disk.evictions,
      .cache_evicted_bytes = disk.evicted_bytes,
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
      .step_rows = atomic_load(&usage->step_rows),
      .step_pad_rows = atomic_load(&usage->step_pad_rows),
      .step_requests = atomic_load(&usage->step_requests),
      .step_pad_requests = atomic_load(&usage->step_pad_requests),
      .rows_steered = atomic_load(&usage->rows_steered),
      .rows_untouched = atomic_load(&usage->rows_untouched),
      .rows_unseen = atomic_load(&usage->rows_unseen),
      .tier0_launches = atomic_load(&usage->tier0_launches),
      .tier1_launches = atomic_load(&usage->tier1_launches),
      .table_bytes = atomic_load(&usage->table_bytes),
      .bank_bytes = atomic_load(&usage->bank_bytes),
      .frame_bytes = atomic_load(&usage->frame_bytes),
      .pinned_bytes = atomic_load(&usage->pinned_bytes),
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
      .traffic_shapes = traffic.shapes,
      .traffic_dropped = traffic.dropped,
      .host_graphs_live = stg_pins_list_graphs(engine->pins),
      .kv_bytes = atomic_load(&usage->kv_bytes),
      .attention_applies = atomic_load(&usage->attention_applies),
      .kv_rows_refused = atomic_load(&usage->kv_rows_refused),
      .components_applies = atomic_load(&usage->components_applies),
      .regions_recorded = atomic_load(&engine->regions.recorded),
      .region_replays = atomic_load(&engine->regions.replays),
      .region_failures = atomic_load(&engine->regions.failures),
      .region_bytes = atomic_load(&engine->regions.bytes),
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
  const size_t needed = stg_strbuf_give(&json, ret_text, capacity);
  stg_strbuf_finish(&json);
  return needed;
}
