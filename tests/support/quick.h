/*
 * quick.h: whether a run is to leave out what only repeats the same code on other values, because
 * it is under a sanitizer, valgrind or a tool of the GPU, where each step costs ten. What is left
 * still calls whatever the whole calls.
 */
#ifndef STG_TESTS_SUPPORT_QUICK_H
#define STG_TESTS_SUPPORT_QUICK_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** STG_TEST_QUICK=1. */
static inline bool test_is_quick(void) {
  const char *quick = getenv("STG_TEST_QUICK");
  return quick != NULL && strcmp(quick, "1") == 0;
}

#endif
