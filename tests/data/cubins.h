/*
 * cubins.h: the cubin fixtures of this folder, built into the tests that need real cubins.
 */
#ifndef STG_TESTS_DATA_CUBINS_H
#define STG_TESTS_DATA_CUBINS_H

#include <string.h>

#include "runtime/base/embedded.h"

extern const struct stg_embedded_file stg_test_cubins[];
extern const size_t stg_test_cubins_count;

/** The fixture of that stem ("cuda13_sm_90"), or NULL. */
static inline const struct stg_embedded_file *test_cubin(const char *stem) {
  for (size_t i = 0; i < stg_test_cubins_count; i++) {
    if (strcmp(stg_test_cubins[i].stem, stem) == 0) {
      return &stg_test_cubins[i];
    }
  }
  return NULL;
}

#endif
