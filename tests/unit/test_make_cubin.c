/*
 * test_make_cubin.c: what the tests' own cubins say of themselves, read as the library reads
 * NVRTC's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cubin.h"
#include "tests/stub/make_cubin.h"

static const struct stub_cubin wanted = {.cuda_major = 13,
                                         .sm = 90,
                                         .kernel = "stg_steer",
                                         .param_bytes = 144,
                                         .registers = 40,
                                         .shared_bytes = 2048,
                                         .local_bytes = 16,
                                         .max_threads = 256,
                                         .code = "code",
                                         .code_bytes = 4};

static void expect_read_back(const struct stub_cubin *cubin) {
  size_t size = 0;
  struct stg_cubin_info info = {0};
  stg_error error = STG_ERROR_INIT;
  unsigned char *image = stub_cubin_make(cubin, &size);
  assert_non_null(image);
  if (stg_cubin_read(image, size, cubin->kernel, &info, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  assert_int_equal(info.sm, cubin->sm);
  assert_int_equal(info.param_bytes, cubin->param_bytes);
  assert_int_equal(info.registers, cubin->registers);
  assert_int_equal(info.shared_bytes, cubin->shared_bytes);
  assert_int_equal(info.local_bytes, cubin->local_bytes);
  assert_int_equal(info.code_bytes, cubin->code_bytes);
  assert_int_equal(info.constant_bytes, 0x210 + cubin->param_bytes);
  free(image);
}

static void is_read_back_in_both_layouts(void **state) {
  struct stub_cubin cubin = wanted;
  (void)state;
  expect_read_back(&cubin);
  cubin.sm = 100;
  cubin.registers = 255;
  expect_read_back(&cubin);
  cubin.cuda_major = 12;
  cubin.sm = 80; /* whose shared memory has no part of the system's */
  cubin.shared_bytes = 0;
  expect_read_back(&cubin);
}

static void equal_arguments_give_equal_bytes_and_others_do_not(void **state) {
  struct stub_cubin other = wanted;
  size_t size = 0, again_size = 0, other_size = 0;
  (void)state;
  other.code = "coda";
  unsigned char *image = stub_cubin_make(&wanted, &size);
  unsigned char *again = stub_cubin_make(&wanted, &again_size);
  unsigned char *different = stub_cubin_make(&other, &other_size);
  assert_int_equal(size, again_size);
  assert_memory_equal(image, again, size);
  assert_int_equal(size, other_size);
  assert_memory_not_equal(image, different, size);
  free(image);
  free(again);
  free(different);
}

static void refuses_what_is_no_kernel(void **state) {
  struct stub_cubin cubin = wanted;
  char name[STUB_CUBIN_MAX_KERNEL + 2];
  size_t size = 0;
  (void)state;
  memset(name, 'k', sizeof name);
  name[sizeof name - 1] = '\0';
  cubin.kernel = name;
  assert_null(stub_cubin_make(&cubin, &size));
  name[sizeof name - 2] = '\0';
  expect_read_back(&cubin);
  cubin.code_bytes = 0;
  assert_null(stub_cubin_make(&cubin, &size));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_read_back_in_both_layouts),
      cmocka_unit_test(equal_arguments_give_equal_bytes_and_others_do_not),
      cmocka_unit_test(refuses_what_is_no_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
