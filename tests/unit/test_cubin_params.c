/*
 * test_cubin_params.c: parameters of real kernels, and of damaged ones.
 *
 * The layouts are those of the two kernels of tests/data/make_cubins.py: (float *, int) and
 * (const int *, float *, long long).
 */
#include "runtime/cubin_params.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/data/cubins.h"

#define ATTRIBUTE_BYTES 16

static stg_status read_of(const void *image, size_t size, const char *kernel,
                          struct stg_cubin_param **ret_params, size_t *ret_count, stg_error *err) {
  memset(err, 0, sizeof *err);
  return stg_cubin_params(image, size, kernel, ret_params, ret_count, err);
}

static void assert_params(const void *image, size_t size, const char *kernel,
                          const struct stg_cubin_param *expected, size_t n_expected) {
  struct stg_cubin_param *params = NULL;
  size_t count = 0;
  stg_error err;
  if (read_of(image, size, kernel, &params, &count, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(count, n_expected);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(params[i].ordinal, expected[i].ordinal);
    assert_int_equal(params[i].offset_bytes, expected[i].offset_bytes);
    assert_int_equal(params[i].size_bytes, expected[i].size_bytes);
  }
  stg_free(params);
}

static const struct stg_cubin_param plain[] = {{0, 0, 8}, {1, 8, 4}};
static const struct stg_cubin_param shared[] = {{0, 0, 8}, {1, 8, 8}, {2, 16, 8}};

static void reads_the_parameters_of_two_toolkits(void **state) {
  (void)state;
  for (size_t i = 0; i < stg_test_cubins_count; i++) {
    const struct stg_embedded_file *file = &stg_test_cubins[i];
    assert_params(file->text, file->len, "fixture_plain", plain, 2);
    assert_params(file->text, file->len, "fixture_shared", shared, 3);
  }
}

/* A heap copy of exactly the image's size, so that ASan sees any read past its end. */
static unsigned char *copy_of(const struct stg_embedded_file *file, size_t size) {
  unsigned char *copy = malloc(size == 0 ? 1 : size);
  assert_non_null(copy);
  memcpy(copy, file->text, size);
  return copy;
}

/* The parameter attributes of fixture_plain: numbers 1 and 0, in the order of the image. */
static unsigned char *find_attribute(unsigned char *image, size_t size, uint32_t ordinal) {
  static const unsigned char head[] = {4, 0x17, 12, 0, 0, 0, 0, 0};
  unsigned char *plain_end = image + size;
  for (unsigned char *p = image; p + 2 * (size_t)ATTRIBUTE_BYTES <= plain_end; p++) {
    /* two that follow each other and no third before them: those of the kernel with two */
    if (memcmp(p, head, sizeof head) == 0 && p[8] == 1 &&
        memcmp(p + ATTRIBUTE_BYTES, head, sizeof head) == 0 &&
        memcmp(p - ATTRIBUTE_BYTES, head, sizeof head) != 0) {
      return ordinal == 1 ? p : p + ATTRIBUTE_BYTES;
    }
  }
  fail_msg("no parameters of fixture_plain");
  return NULL;
}

/* Change 2 bytes of a parameter's attribute. */
static void set_field(unsigned char *attribute, size_t at, unsigned value) {
  attribute[at] = (unsigned char)value;
  attribute[at + 1] = (unsigned char)(value >> 8);
}

enum { KIND = 1, ORDINAL = 8, OFFSET = 10, SIZE = 12 };

/* Kernels that take more than 4 KiB have attributes of another kind, with the size in two bytes. */
static void reads_the_attributes_of_large_kernels(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  unsigned char *image = copy_of(file, file->len);
  unsigned char *one = find_attribute(image, file->len, 1);
  unsigned char *zero = find_attribute(image, file->len, 0);
  one[KIND] = 0x45;
  zero[KIND] = 0x45;
  set_field(one, SIZE, 4);
  set_field(one, SIZE + 2, 0);
  set_field(zero, SIZE, 8);
  set_field(zero, SIZE + 2, 0x500); /* flags */
  assert_params(image, file->len, "fixture_plain", plain, 2);
  free(image);
}

static void refuses_parameters_that_cannot_be(void **state) {
  (void)state;
  static const struct {
    uint32_t ordinal;
    size_t field;
    unsigned value;
    const char *message;
  } cases[] = {
      {1, ORDINAL, 2, "parameter 2 of 4 bytes at 8 does not follow the 1 before it in 12 bytes"},
      {1, ORDINAL, 0, "does not follow the 1 before it in 12 bytes"},
      {0, ORDINAL, 7, "parameter 1 of 4 bytes at 8 does not follow the 0 before it in 12 bytes"},
      {1, OFFSET, 4, "parameter 1 of 4 bytes at 4 does not follow the 1 before it in 12 bytes"},
      {1, OFFSET, 9, "parameter 1 of 4 bytes at 9 does not follow the 1 before it in 12 bytes"},
      {1, OFFSET, 65535, "parameter 1 of 4 bytes at 65535 does not follow"},
      {1, SIZE + 2, 0, "parameter 1 of 0 bytes at 8 does not follow"},
      {0, SIZE + 2, 0xffff, "parameter 0 of 16383 bytes at 0 does not follow the 0 before it in"},
  };
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_cubin_param *params = NULL;
    size_t count = 77;
    stg_error err;
    unsigned char *image = copy_of(file, file->len);
    set_field(find_attribute(image, file->len, cases[i].ordinal), cases[i].field, cases[i].value);
    assert_int_equal(read_of(image, file->len, "fixture_plain", &params, &count, &err),
                     STG_E_CORRUPT);
    if (strstr(err.message, cases[i].message) == NULL) {
      fail_msg("'%s' is not in '%s'", cases[i].message, err.message);
    }
    assert_null(params);
    assert_int_equal(count, 77);
    assert_params(image, file->len, "fixture_shared", shared, 3); /* the other kernel's are right */
    free(image);
  }
}

static void has_none_where_none_are_described(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  unsigned char *image = copy_of(file, file->len);
  unsigned char *attribute = find_attribute(image, file->len, 1);
  attribute[KIND] = 0x7f;
  attribute[KIND + ATTRIBUTE_BYTES] = 0x7f;
  assert_params(image, file->len, "fixture_plain", plain, 0);
  free(image);
}

static void names_the_kernel_that_is_not_there(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_80");
  struct stg_cubin_param *params = NULL;
  size_t count = 0;
  stg_error err;
  assert_int_equal(read_of(file->text, file->len, "fixture", &params, &count, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "cubin holds no kernel 'fixture'");
}

static void survives_truncation_and_any_flipped_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < stg_test_cubins_count; i++) {
    const struct stg_embedded_file *file = &stg_test_cubins[i];
    for (size_t bit = 0; bit < 8 * file->len; bit += bit < 512 ? 1 : 29) {
      struct stg_cubin_param *params = NULL;
      size_t count = 0;
      stg_error err;
      const bool cut = bit % 3 == 0;
      const size_t size = cut ? bit / 8 : file->len;
      unsigned char *image = copy_of(file, size);
      if (!cut) {
        image[bit / 8] ^= (unsigned char)(1u << bit % 8);
      }
      stg_status status = read_of(image, size, "fixture_shared", &params, &count, &err);
      assert_true(status == STG_OK || (status == STG_E_CORRUPT && err.message[0] != '\0'));
      stg_free(params);
      free(image);
    }
  }
}

static void says_when_memory_is_out(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  struct stg_cubin_param *params = NULL;
  size_t count = 0;
  stg_error err;
  stg_alloc_fail_at(1);
  stg_status status = read_of(file->text, file->len, "fixture_plain", &params, &count, &err);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_E_NO_MEMORY);
  assert_null(params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_the_parameters_of_two_toolkits),
      cmocka_unit_test(reads_the_attributes_of_large_kernels),
      cmocka_unit_test(refuses_parameters_that_cannot_be),
      cmocka_unit_test(has_none_where_none_are_described),
      cmocka_unit_test(names_the_kernel_that_is_not_there),
      cmocka_unit_test(survives_truncation_and_any_flipped_bit),
      cmocka_unit_test(says_when_memory_is_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
