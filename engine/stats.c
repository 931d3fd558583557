/*
 * stats.c: an engine's counters, as a struct and as JSON.
 */
#include "engine/engine.h"
#include "runtime/base/strbuf.h"

/* One row per integer counter: OWN, or USED where it is one of usage.h by that name. */
#define STAT_LIST(OWN, USED)                                                                       \
  OWN(kernel_memory_hits)                                                                          \
  OWN(kernel_disk_hits)                                                                            \
  OWN(kernel_compiles)                                                                             \
  OWN(cache_stores)                                                                                \
  OWN(cache_store_failures)                                                                        \
  OWN(cache_quarantined)                                                                           \
  OWN(cache_pack_hits)                                                                             \
  OWN(cache_misses)                                                                                \
  OWN(cache_evictions)                                                                             \
  OWN(cache_evicted_bytes)                                                                         \
  OWN(graphs_created)                                                                              \
  OWN(graph_updates)                                                                               \
  OWN(graph_launches)                                                                              \
  OWN(plain_launches)                                                                              \
  OWN(graph_fallbacks)                                                                             \
  OWN(steps)                                                                                       \
  OWN(applies)                                                                                     \
  OWN(vectors_live)                                                                                \
  OWN(vector_bytes)                                                                                \
  OWN(vector_intern_hits)                                                                          \
  OWN(gram_pairs)                                                                                  \
  OWN(gram_hits)                                                                                   \
  USED(step_rows)                                                                                  \
  USED(step_pad_rows)                                                                              \
  USED(step_requests)                                                                              \
  USED(step_pad_requests)                                                                          \
  USED(rows_steered)                                                                               \
  USED(rows_untouched)                                                                             \
  USED(rows_unseen)                                                                                \
  USED(tier0_launches)                                                                             \
  USED(tier1_launches)                                                                             \
  USED(table_bytes)                                                                                \
  USED(bank_bytes)                                                                                 \
  USED(frame_bytes)                                                                                \
  USED(pinned_bytes)                                                                               \
  OWN(kernels_live)                                                                                \
  OWN(kernel_bytes)                                                                                \
  OWN(plans_live)                                                                                  \
  OWN(graphs_live)                                                                                 \
  OWN(plan_evictions)                                                                              \
  OWN(graph_evictions)                                                                             \
  OWN(plan_bytes)                                                                                  \
  OWN(kernel_swaps)                                                                                \
  OWN(compiles_queued)                                                                             \
  OWN(compiles_running)                                                                            \
  OWN(compiles_refused)                                                                            \
  OWN(compile_threads)                                                                             \
  OWN(traffic_shapes)                                                                              \
  OWN(traffic_dropped)                                                                             \
  OWN(host_graphs_live)                                                                            \
  USED(kv_bytes)                                                                                   \
  USED(attention_applies)                                                                          \
  USED(kv_rows_refused)                                                                            \
  USED(prover_bytes)                                                                               \
  USED(prover_candidates)                                                                          \
  USED(prover_steps)                                                                               \
  USED(prover_states)                                                                              \
  USED(components_applies)                                                                         \
  OWN(regions_recorded)                                                                            \
  OWN(region_replays)                                                                              \
  OWN(region_failures)                                                                             \
  OWN(region_bytes)

static void read_usage(const struct stg_usage *usage, stg_stats *stats) {
#define NOT_USED(field)
#define USED_FIELD(field) stats->field = atomic_load(&usage->field);
  STAT_LIST(NOT_USED, USED_FIELD)
#undef NOT_USED
#undef USED_FIELD
}

void stg_engine_stats(const stg_engine *engine, stg_stats *stats) {
  if (engine == NULL || stats == NULL || stats->struct_size != sizeof *stats ||
      stg_engine_check_process(engine, NULL) != STG_OK) {
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
      .regions_recorded = atomic_load(&engine->regions.recorded),
      .region_replays = atomic_load(&engine->regions.replays),
      .region_failures = atomic_load(&engine->regions.failures),
      .region_bytes = atomic_load(&engine->regions.bytes),
  };
  read_usage(&engine->usage, stats);
}

size_t stg_engine_stats_json(const stg_engine *engine, char *ret_text, size_t capacity) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  struct stg_strbuf json = {0};
  stg_strbuf_str(&json, "{");
#define STAT_FIELD(field)                                                                          \
  stg_strbuf_printf(&json, "\"" #field "\": %llu, ", (unsigned long long)stats.field);
  STAT_LIST(STAT_FIELD, STAT_FIELD)
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
