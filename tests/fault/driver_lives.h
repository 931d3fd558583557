/*
 * driver_lives.h: lives of an engine in which each call of the driver is the one that fails.
 */
#ifndef STG_TESTS_FAULT_DRIVER_LIVES_H
#define STG_TESTS_FAULT_DRIVER_LIVES_H

#include "tests/fault/driver_bed.h"
#include "tests/support/quick.h"

static const struct driver_fault driver_faults[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY", false},
    {CUDA_ERROR_INVALID_VALUE, "INVALID_VALUE", false},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS", true},
};
static const struct driver_fault no_fault = {CUDA_SUCCESS, "SUCCESS", false};

/* A life whose nth call of the driver fails so; 0: none. Returns how many calls it made. */
typedef size_t (*driver_life)(size_t nth, const struct driver_fault *fault);

/** Each call of the life fails in each way, in a quick run one way each; behind them it is well. */
static inline void fail_each_call(driver_life live) {
  const size_t calls = live(0, &no_fault);
  const size_t n_faults = sizeof driver_faults / sizeof driver_faults[0];
  const bool quick = test_is_quick();
  assert_true(calls > 100);
  for (size_t f = 0; f < n_faults; f++) {
    for (size_t nth = quick ? f + 1 : 1; nth <= calls; nth += quick ? n_faults : 1) {
      live(nth, &driver_faults[f]);
    }
    live(0, &no_fault);
  }
}

/** The end of a life: fails where the driver was misused; how many calls there were. */
static inline size_t end_calls(const char *where) {
  if (stub.misuses() != 0) {
    fail_msg("%s: %zu misuses, the first is %s", where, stub.misuses(), stub.misuse());
  }
  const size_t calls = stub.calls();
  stub.reset();
  return calls;
}

#endif
