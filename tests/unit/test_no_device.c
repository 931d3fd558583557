/*
 * test_no_device.c: on a machine without a GPU, or in a build without CUDA headers, the message
 * says what is missing and what to do. Skipped where there is a device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device.h"

#define EXIT_SKIPPED 77

/* One of the causes there are, with its remedy. */
static bool is_explained(const char *message) {
  static const struct {
    const char *cause, *remedy;
  } pairs[] = {
      {"no CUDA driver: libcuda.so.1: ", "install the NVIDIA driver R525 or later"},
      {"the CUDA driver ", "install the NVIDIA driver R525 or later"},
      {"no CUDA device: cu", "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
      {"built without CUDA headers", "rebuild with -Dtoolkit_root="},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    if (strstr(message, pairs[i].cause) == message && strstr(message, pairs[i].remedy) != NULL) {
      return true;
    }
  }
  return false;
}

static void opening_says_what_is_missing_and_what_to_do(void **state) {
  (void)state;
  struct stg_device *device = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_device_open(0, &device, &error), STG_E_NO_DEVICE);
  assert_int_equal(error.code, STG_E_NO_DEVICE);
  assert_true(is_explained(error.message));
  assert_null(device);
}

static void says_it_again_when_asked_again(void **state) {
  (void)state;
  struct stg_device *device = NULL;
  stg_error first = STG_ERROR_INIT;
  stg_error second = STG_ERROR_INIT;
  assert_int_equal(stg_device_open(0, &device, &first), STG_E_NO_DEVICE);
  assert_int_equal(stg_device_open(0, &device, &second), STG_E_NO_DEVICE);
  assert_string_equal(first.message, second.message);
}

static void the_error_may_be_left_out(void **state) {
  (void)state;
  struct stg_device *device = NULL;
  assert_int_equal(stg_device_open(0, &device, NULL), STG_E_NO_DEVICE);
  stg_device_close(NULL);
}

int main(void) {
  int count = 0;
  int version = 0;
  if (stg_device_count(&count, &version, NULL) == STG_OK && count > 0) {
    printf("skipped: there are %d devices\n", count);
    return EXIT_SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening_says_what_is_missing_and_what_to_do),
      cmocka_unit_test(says_it_again_when_asked_again),
      cmocka_unit_test(the_error_may_be_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
