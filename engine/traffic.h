/*
 * traffic.h: what an engine was used for: how many steps each signature had.
 *
 * A signature is the kernel text of what was declared, without its architecture, and a graph shape.
 * What was counted once stays until the engine goes, whatever becomes of plans and tables; how much
 * there can be is bounded. Knows no plan and no step: a plan keeps a pointer to its count, so a
 * step adds 1 and looks nothing up. The lock is a leaf.
 */
#ifndef STG_ENGINE_TRAFFIC_H
#define STG_ENGINE_TRAFFIC_H

#include <stdatomic.h>

#include "engine/signature.h"
#include "runtime/base/arena.h"

/* Signatures that are told apart; steps of further ones are only counted together. */
#define STG_TRAFFIC_MAX_SHAPES 65536

struct stg_traffic;

/* One signature. Constant but for the count. */
struct stg_traffic_count {
  struct stg_traffic_count *next; /* in its bucket */
  uint64_t hash;
  atomic_uint_fast64_t steps;
  struct stg_graph_shape shape;
  const char *kernel; /* text, without architecture */
};

STG_NODISCARD stg_status stg_traffic_create(struct stg_traffic **ret_traffic, stg_error *reterr);
/** NULL is fine. */
void stg_traffic_destroy(struct stg_traffic *traffic);

/**
 * The count of a signature; the first `len` characters of `kernel` are its text, without an
 * architecture. Where there are too many, or no memory for one more, the count of those that are
 * dropped. Never NULL; lives as long as the engine. Any thread.
 */
struct stg_traffic_count *stg_traffic_find(struct stg_traffic *traffic, const char *kernel,
                                           size_t len, const struct stg_graph_shape *shape);

static inline void stg_traffic_add(struct stg_traffic_count *count) {
  atomic_fetch_add_explicit(&count->steps, 1, memory_order_relaxed);
}

struct stg_traffic_totals {
  uint64_t shapes;  /* signatures that are told apart */
  uint64_t dropped; /* steps of others */
};
void stg_traffic_get_totals(struct stg_traffic *traffic, struct stg_traffic_totals *ret);

/**
 * All signatures, in no order, as an array in the arena; what they point at lives as long as the
 * engine. Any thread, the arena its caller's.
 */
STG_NODISCARD stg_status stg_traffic_list(struct stg_traffic *traffic, struct stg_arena *arena,
                                          struct stg_traffic_count ***ret_counts,
                                          size_t *ret_n_counts, stg_error *reterr);

#endif
