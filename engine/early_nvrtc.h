/*
 * early_nvrtc.h: NVRTC opened beside the device's context, where a compile is sure to follow.
 */
#ifndef STG_ENGINE_EARLY_NVRTC_H
#define STG_ENGINE_EARLY_NVRTC_H

#include <pthread.h>
#include <stdbool.h>

/* {0}: nothing was begun. */
struct stg_early_nvrtc {
  pthread_t thread;
  bool begun;
};

/** Begin to open NVRTC on a thread. Where none can be started the first compile opens it. */
void stg_early_nvrtc_begin(struct stg_early_nvrtc *early);
/** Wait for it. That there is no NVRTC is for the first compile to say. */
void stg_early_nvrtc_end(struct stg_early_nvrtc *early);

#endif
