/*
 * kernels.h: the kernels of a declaration, one per tile, loaded once for all tables of an engine
 * that declare the same.
 *
 * A set belongs to the engine and is counted: tables own it, and it outlives none of its owners.
 * It never knows a table.
 */
#ifndef STG_ENGINE_KERNELS_H
#define STG_ENGINE_KERNELS_H

#include <pthread.h>

#include "engine/steer_decl.h"
#include "runtime/module_cache.h"

struct stg_engine;

/* On the CPU only the texts and keys are set. */
struct stg_kernel {
  char *signature; /* kernel text with architecture */
  struct stg_key key;
  const char *source; /* "memory", "disk", "compiled", "cpu" */
  double compile_ms;
  struct stg_loaded_kernel loaded;
  struct stg_launch_rule rule;
};

struct stg_kernel_set {
  struct stg_kernel_set *next; /* in the engine's list */
  struct stg_engine *engine;
  size_t owners; /* under the list's lock */
  struct stg_kernel kernels[STG_TILE_COUNT];
};

/* The sets that have an owner. The lock is a leaf: nothing is taken under it. */
struct stg_kernel_table {
  pthread_mutex_t lock;
  struct stg_kernel_set *sets;
};

void stg_kernel_table_init(struct stg_kernel_table *table);
/** No set may have an owner. */
void stg_kernel_table_finish(struct stg_kernel_table *table);

/** The set of a declaration, with one more owner; its kernels are loaded or compiled. Any thread.
 */
STG_NODISCARD stg_status stg_kernels_open(struct stg_engine *engine,
                                          const struct stg_steer_decl *decl,
                                          struct stg_kernel_set **ret_set, stg_error *reterr);
/** One owner less. With the last one go the plans of the set, which no frame may use. NULL is fine.
 */
void stg_kernels_close(struct stg_kernel_set *set);

#endif
