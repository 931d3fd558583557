/*
 * vector_files.h: the vector files of vectors/, as public packages wrote them, built into tests.
 */
#ifndef STG_TESTS_DATA_VECTOR_FILES_H
#define STG_TESTS_DATA_VECTOR_FILES_H

#include <string.h>

#include "runtime/base/embedded.h"

extern const struct stg_embedded_file stg_test_vectors[];
extern const size_t stg_test_vectors_count;

/** The file of that stem ("control"), or NULL. */
static inline const struct stg_embedded_file *test_vector_file(const char *stem) {
  for (size_t i = 0; i < stg_test_vectors_count; i++) {
    if (strcmp(stg_test_vectors[i].stem, stem) == 0) {
      return &stg_test_vectors[i];
    }
  }
  return NULL;
}

#endif
