/*
 * warm.h: the kernel sets that stg_warm keeps for an engine.
 */
#ifndef STG_ENGINE_WARM_H
#define STG_ENGINE_WARM_H

#include <pthread.h>

#include "engine/kernels.h"

/* Sets that are owned until the engine goes, each once. The lock is a leaf. */
struct stg_warm_sets {
  pthread_mutex_t lock;
  struct stg_kernel_set **sets;
  size_t count, capacity;
};

void stg_warm_sets_init(struct stg_warm_sets *kept);
/** Give all of them back, their plans with them: no frame may be alive. */
void stg_warm_sets_finish(struct stg_warm_sets *kept);

#endif
