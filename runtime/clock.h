/*
 * clock.h: the monotonic clock in nanoseconds, for durations only.
 */
#ifndef STG_RUNTIME_CLOCK_H
#define STG_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t stg_clock_ns(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
