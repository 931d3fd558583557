/*
 * nvtx_injection.h: a profiler as small as can be: what it saw of ranges.
 */
#ifndef STG_TESTS_FAULT_NVTX_INJECTION_H
#define STG_TESTS_FAULT_NVTX_INJECTION_H

#include <stddef.h>

#define STG_INJECTION_MAX_RANGES 64
#define STG_INJECTION_NAME_CHARS 64

/* In the order of pushes, of all threads; the test pushes from one. */
struct stg_injection {
  char domain[STG_INJECTION_NAME_CHARS]; /* the last one created */
  int domains;
  size_t pushes, pops;
  int depth, deepest;
  char names[STG_INJECTION_MAX_RANGES][STG_INJECTION_NAME_CHARS];
};

/* Exported by the library under the name "stg_injection_seen". */
struct stg_injection *stg_injection_seen(void);

#endif
