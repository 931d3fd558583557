/*
 * kernels.h: the kernels of a declaration, two tiers of one per variant, for all tables of an
 * engine that declare the same. Of steering the variants are its tiles.
 *
 * The declared tier is what was declared. The general tier, of a family that has one, serves more
 * declarations than this, so that it may be there while the declared kernel is being compiled; both
 * give the same bits. Of steering it has all built-in ops, those with an output where probes are
 * declared; where exactly these are declared, the declared kernel is the general one. What else is
 * declared, such as windows, both have.
 *
 * A set is the engine's and is counted: tables own it, and jobs that compile hold it. It never
 * knows a table. kernels.c has the sets; kernel_load.c how their kernels come to be.
 */
#ifndef STG_ENGINE_KERNELS_H
#define STG_ENGINE_KERNELS_H

#include <pthread.h>

#include "engine/family.h"
#include "engine/tier.h"
#include "runtime/module_cache.h"

struct stg_engine;

enum stg_tier { STG_TIER_GENERAL, STG_TIER_DECLARED, STG_TIER_COUNT };

enum stg_kernel_state {
  STG_KERNEL_ABSENT, /* not there, and nobody makes it */
  STG_KERNEL_ASKED,  /* a job is queued or runs */
  STG_KERNEL_READY,  /* for good */
  STG_KERNEL_FAILED  /* its compile was refused */
};

/* On the CPU only the texts and keys are set. */
struct stg_kernel {
  struct stg_job job;
  struct stg_kernel_set *set;
  enum stg_tier tier;
  unsigned variant;
  struct stg_kernel_text text; /* what to compile; empty once it is there */
  unsigned loading;            /* threads that read `text`; under the set's lock */
  char *signature;             /* kernel text with architecture; NULL: there is no such kernel */
  const char *name;            /* of the entry point, a constant of the family; NULL on the CPU */
  struct stg_key key;
  struct stg_launch_rule rule;
  atomic_int state; /* enum stg_kernel_state; changed under the set's lock */
  stg_status made;  /* how the job ended */
  stg_error error;  /* FAILED: why */
  /* READY: constant from then on */
  const char *source; /* "memory", "disk", "compiled", "cpu" */
  double compile_ms;
  struct stg_loaded_kernel loaded;
};

struct stg_kernel_set {
  struct stg_kernel_set *next; /* in the engine's list */
  struct stg_engine *engine;
  const struct stg_family *family;
  size_t owners, refs;    /* under the list's lock; the owners together hold one reference */
  bool beyond_general;    /* the general tier lacks some of what was declared */
  bool one_tier;          /* the declared tier is the general one, or the family has no other */
  pthread_mutex_t lock;   /* states; taken before the list's and the pool's, after a table's */
  pthread_cond_t changed; /* a state */
  struct stg_kernel kernels[STG_TIER_COUNT][STG_MAX_VARIANTS];
};

/* The sets that have an owner. The lock is a leaf: nothing is taken under it. */
struct stg_kernel_table {
  pthread_mutex_t lock;
  struct stg_kernel_set *sets;
  pthread_cond_t settled; /* a job ended */
  uint64_t n_settled;
};

void stg_kernel_table_init(struct stg_kernel_table *table);
/** No set may have an owner. */
void stg_kernel_table_finish(struct stg_kernel_table *table);

/**
 * The set of a declaration, with one more owner, and what the engine's compile mode promises of it:
 *   block       all declared kernels are there, compiled if need be, side by side
 *   background  those that a cache has; where it has none, one general kernel, compiled by a thread
 *               of the engine and waited for: that of the first variant, which serves any rows. All
 *               others are on their way then
 *   never       those that a cache has, else general ones that a cache has, where they lack nothing
 * STG_E_NOT_WARM, STG_E_COMPILE, STG_E_CUDA, ... Any thread.
 */
STG_NODISCARD stg_status stg_kernels_open(struct stg_engine *engine, const struct stg_decl *decl,
                                          struct stg_kernel_set **ret_set, stg_error *reterr);
/** The set alone, with one more owner: nothing of it is loaded or asked for. Any thread. */
STG_NODISCARD stg_status stg_kernels_share(struct stg_engine *engine, const struct stg_decl *decl,
                                           struct stg_kernel_set **ret_set, stg_error *reterr);
/** One owner less. With the last one go the plans of the set, which no frame may use. NULL is fine.
 */
void stg_kernels_close(struct stg_kernel_set *set);

/** The kernel of a variant that is there, declared before general; NULL: none is. Any thread. */
const struct stg_kernel *stg_kernels_of_variant(const struct stg_kernel_set *set, unsigned variant);
/**
 * The kernel that serves a variant's rows from now on: one of it, else of another. Asks again for
 * what found the queue full before. Any thread.
 */
const struct stg_kernel *stg_kernels_serving(struct stg_kernel_set *set, unsigned variant);
/** The kernel that a capture records: one of that variant that runs all that was declared; NULL
 * while there is none. */
const struct stg_kernel *stg_kernels_for_capture(const struct stg_kernel_set *set,
                                                 unsigned variant);
/** Which one a capture waits for then: the first to come, or one that failed where all have. */
const struct stg_kernel *stg_kernels_awaited(const struct stg_kernel_set *set, unsigned variant);
/**
 * Whether all that was declared can run: what a chain with the user op `name` asks.
 * @return STG_E_PENDING while a kernel is being compiled; what was wrong with one that failed.
 */
STG_NODISCARD stg_status stg_kernels_check_user_op(struct stg_kernel_set *set, const char *name,
                                                   stg_error *reterr);
/** 0: the kernel is a general one; 1: it is made for what was declared. */
int stg_kernel_tier(const struct stg_kernel *kernel);

/**
 * Let the engine's threads make a kernel ready, from a cache or, but for compile=never, a compiler;
 * this thread where none can be started. Also one that failed before. CUDA.
 */
STG_NODISCARD stg_status stg_kernel_start(struct stg_kernel *kernel, stg_error *reterr);
/** Jobs that have ended so far. */
uint64_t stg_kernels_settled(struct stg_kernel_table *table);
/** Until it is no longer `seen`, or the monotonic clock says `until_ns` (UINT64_MAX: no limit). */
void stg_kernels_wait_settled(struct stg_kernel_table *table, uint64_t seen, uint64_t until_ns);

static inline enum stg_kernel_state stg_kernel_state(const struct stg_kernel *kernel) {
  return (enum stg_kernel_state)atomic_load_explicit(&kernel->state, memory_order_acquire);
}

/* Between the two files. */

/** One reference more, for a job. */
void stg_kernel_set_ref(struct stg_kernel_set *set);
void stg_kernel_set_unref(struct stg_kernel_set *set);
bool stg_kernel_set_has_owner(const struct stg_kernel_set *set);
/** Do what stg_kernels_open promises of the kernels. */
STG_NODISCARD stg_status stg_kernels_bring(struct stg_kernel_set *set, stg_error *reterr);
/** Let a kernel's job be queued unless it is, or the kernel is there; a failed one only by `retry`.
 */
STG_NODISCARD stg_status stg_kernel_ask(struct stg_kernel *kernel, bool urgent, bool retry,
                                        stg_error *reterr);

#endif
