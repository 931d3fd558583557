/*
 * nvtx.h: named ranges on the timeline of a profiler that listens (Nsight Systems and others,
 * through NVTX), in the domain "steergraph".
 *
 * Without one a range is a load and a branch. Ranges nest by thread: each push has its pop in the
 * same function. nvtx.c is over the toolkit's headers, nvtx_none.c for builds without them.
 */
#ifndef STG_RUNTIME_NVTX_H
#define STG_RUNTIME_NVTX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The profiler's handle of the domain, NULL where none listens. Like the driver's table it is of
 * the process: a profiler is there from the first call on, or not at all.
 */
extern _Atomic(void *) stg_nvtx_domain;

/** Ask for a profiler, once in a process: before that nothing is a range. Any thread. */
void stg_nvtx_open(void);

#define STG_NVTX_NO_LAYER UINT32_MAX /* a range of no layer */
/** Begin a range, "name" or "name L<layer>"; a profiler listens. */
void stg_nvtx_begin(const char *name, uint32_t layer);
/** End the thread's last range; a profiler listens. */
void stg_nvtx_end(void);

static inline bool stg_nvtx_is_on(void) {
  return atomic_load_explicit(&stg_nvtx_domain, memory_order_acquire) != NULL;
}

static inline void stg_nvtx_push(const char *name) {
  if (stg_nvtx_is_on()) {
    stg_nvtx_begin(name, STG_NVTX_NO_LAYER);
  }
}

static inline void stg_nvtx_push_layer(const char *name, uint32_t layer) {
  if (stg_nvtx_is_on()) {
    stg_nvtx_begin(name, layer);
  }
}

static inline void stg_nvtx_pop(void) {
  if (stg_nvtx_is_on()) {
    stg_nvtx_end();
  }
}

#endif
