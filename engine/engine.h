/*
 * engine.h: the engine as its own layer sees it.
 */
#ifndef STG_ENGINE_ENGINE_H
#define STG_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <steergraph/engine.h>

#include "engine/kernels.h"
#include "engine/ops.h"
#include "engine/pins.h"
#include "engine/plan.h"
#include "engine/recipes.h"
#include "engine/region.h"
#include "engine/tier.h"
#include "engine/traffic.h"
#include "engine/usage.h"
#include "engine/vectors.h"
#include "engine/warm.h"
#include "runtime/device.h"
#include "runtime/disk_cache.h"
#include "runtime/module_cache.h"

/* Counted where it happens; read together by stg_engine_stats. */
struct stg_engine_counters {
  atomic_uint_fast64_t graphs_created, graph_updates, graph_launches, plain_launches,
      graph_fallbacks;
  atomic_uint_fast64_t steps, applies;
  atomic_uint_fast64_t kernel_hits, kernel_swaps;
};

/* What a host creates of an engine, and destroys before it; and what they are called. */
#define STG_OBJECT_LIST(X)                                                                         \
  X(STEER, "steer tables")                                                                         \
  X(KV, "KV caches")                                                                               \
  X(ROWS, "rows of steps")                                                                         \
  X(ROPE, "ropes")                                                                                 \
  X(ATTEND, "attends")                                                                             \
  X(PROVER, "provers")                                                                             \
  X(COMPONENTS, "components")
enum stg_object {
#define STG_OBJECT_KIND(kind, name) STG_OBJECT_##kind,
  STG_OBJECT_LIST(STG_OBJECT_KIND)
#undef STG_OBJECT_KIND
      STG_OBJECT_COUNT
};

/* Immutable after creation but for what has its own lock. */
struct stg_engine {
  stg_backend backend; /* cuda or cpu */
  stg_compile_mode compile;
  stg_launch_mode launch;
  struct stg_log log;
  char reason[256];
  char device_name[128];
  char arch[STG_ARCH_CHARS];
  char *nvrtc_options;       /* "env:..." or NULL */
  struct stg_device *device; /* NULL on the CPU */
  stg_stream_handle stream;  /* uploads of records and vectors */
  /* Nobody's. The driver cuts page-locked memory of less than 2 MiB from chunks, and the first of a
   * context takes over a millisecond: an engine is opened with it, so that no table waits for it.
   */
  void *pinned_word;
  struct stg_disk_cache *disk;      /* never NULL */
  struct stg_module_cache *modules; /* NULL on the CPU */
  struct stg_tiers *tiers;          /* NULL on the CPU */
  struct stg_recipes *recipes;      /* NULL where none are kept */
  struct stg_kernel_table kernels;
  struct stg_plan_table *plans;
  struct stg_regions regions;
  struct stg_traffic *traffic;
  struct stg_pins_list *pins; /* of its tables */
  struct stg_warm_sets warmed;
  struct stg_op_table *ops;
  struct stg_vector_table *vectors;
  atomic_uint alive[STG_OBJECT_COUNT]; /* an engine with any is not destroyed */
  struct stg_engine_counters counters;
  struct stg_usage usage;
};

/**
 * STG_E_FORKED in a child of the process that opened an engine on CUDA. Asked before any lock,
 * which a thread that the child does not have may have held. An engine on the CPU is the child's
 * own copy.
 */
STG_NODISCARD stg_status stg_engine_check_process(const struct stg_engine *engine,
                                                  stg_error *reterr);

static inline bool stg_engine_is_cuda(const struct stg_engine *engine) {
  return engine->backend == STG_BACKEND_CUDA;
}

#endif
