/*
 * test_cubin.c: the ELF reader against real cubins of two toolkits, and against damaged ones.
 *
 * Expected values are what ptxas -v said when tests/data/make_cubins.py made the fixtures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/cubin.h"
#include "runtime/cubin_params.h"
#include "tests/data/cubins.h"

struct expected {
  const char *stem;
  const char *kernel;
  struct stg_cubin_info info;
};

static const struct expected expected_infos[] = {
    {"cuda12_sm_90", "fixture_plain", {90, 8, 0, 0, 540, 12, 384, 0}},
    {"cuda12_sm_90", "fixture_shared", {90, 30, 256, 64, 552, 24, 1664, 0}},
    {"cuda13_sm_80", "fixture_plain", {80, 8, 0, 0, 364, 12, 384, 0}},
    {"cuda13_sm_80", "fixture_shared", {80, 30, 256, 64, 376, 24, 1664, 0}},
    {"cuda13_sm_90", "fixture_plain", {90, 8, 0, 0, 540, 12, 384, 0}},
    {"cuda13_sm_90", "fixture_shared", {90, 30, 256, 64, 552, 24, 1664, 0}},
    {"cuda13_sm_100", "fixture_plain", {100, 8, 0, 0, 908, 12, 384, 0}},
    {"cuda13_sm_100", "fixture_shared", {100, 30, 256, 64, 920, 24, 1664, 0}},
};

/* A heap copy of exactly the image's size, so that ASan sees any read past its end. */
static unsigned char *copy_of(const struct stg_embedded_file *file, size_t size) {
  unsigned char *copy = malloc(size == 0 ? 1 : size);
  assert_non_null(copy);
  memcpy(copy, file->text, size);
  return copy;
}

static stg_status read_exact(const unsigned char *image, size_t size, const char *kernel,
                             stg_error *err) {
  struct stg_cubin_info info;
  memset(err, 0, sizeof *err);
  return stg_cubin_read(image, size, kernel, &info, err);
}

static void reads_what_ptxas_reported(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof expected_infos / sizeof expected_infos[0]; i++) {
    const struct expected *e = &expected_infos[i];
    const struct stg_embedded_file *file = test_cubin(e->stem);
    struct stg_cubin_info info = {0};
    uint32_t sm = 0;
    assert_int_equal(stg_cubin_read(file->text, file->len, e->kernel, &info, NULL), STG_OK);
    assert_int_equal(stg_cubin_sm(file->text, file->len, &sm, NULL), STG_OK);
    assert_int_equal(sm, e->info.sm);
    assert_memory_equal(&info, &e->info, sizeof info);
  }
}

/* Neither fixture has launch bounds: a parameter's attribute, as long, is made one of them. */
static void reads_the_threads_of_launch_bounds(void **state) {
  (void)state;
  static const unsigned char param[] = {4, 0x17, 12, 0};
  static const struct {
    unsigned char dims[12]; /* x, y, z */
    uint32_t threads;
  } cases[] = {
      {{0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, 256},
      {{32, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0}, 256},
      {{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, UINT32_MAX},
      {{255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0}, 0},
  };
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char *image = copy_of(file, file->len);
    struct stg_cubin_info info = {0};
    for (size_t at = 0; at + 16 <= file->len; at++) {
      if (memcmp(image + at, param, sizeof param) == 0) {
        image[at + 1] = 0x05;
        memcpy(image + at + 4, cases[i].dims, 12);
      }
    }
    assert_int_equal(stg_cubin_read(image, file->len, "fixture_plain", &info, NULL), STG_OK);
    assert_int_equal(info.max_threads, cases[i].threads);
    free(image);
  }
}

static void reads_an_unaligned_image(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  unsigned char *shifted = malloc(file->len + 1);
  assert_non_null(shifted);
  memcpy(shifted + 1, file->text, file->len);
  struct stg_cubin_info info = {0};
  assert_int_equal(stg_cubin_read(shifted + 1, file->len, "fixture_plain", &info, NULL), STG_OK);
  assert_int_equal(info.registers, 8);
  free(shifted);
}

static void names_the_kernel_that_is_not_there(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_80");
  struct stg_cubin_info info = {.sm = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_cubin_read(file->text, file->len, "fixture", &info, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "cubin holds no kernel 'fixture'");
  assert_int_equal(info.sm, 7);
}

static void refuses_what_is_no_cubin(void **state) {
  (void)state;
  static const struct {
    size_t offset;
    unsigned char value;
    const char *message;
  } cases[] = {
      {0, 'P', "no cubin: no ELF magic, first byte is 80"},
      {4, 1, "no cubin: not 64-bit little-endian, class and order are 257"},
      {8, 6, "no cubin: unknown ABI version 6"},
      {18, 62, "no cubin: ELF machine is not 190 but 62"},
      {58, 65, "no cubin: section header size 65"},
      {62, 200, "no cubin: the section of names is number 200"},
  };
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_80");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char *image = copy_of(file, file->len);
    stg_error err = STG_ERROR_INIT;
    uint32_t sm = 7;
    image[cases[i].offset] = cases[i].value;
    assert_int_equal(stg_cubin_sm(image, file->len, &sm, &err), STG_E_CORRUPT);
    assert_string_equal(err.message, cases[i].message);
    assert_int_equal(sm, 7);
    free(image);
  }
  stg_error err = STG_ERROR_INIT;
  uint32_t sm = 7;
  assert_int_equal(stg_cubin_sm("", 0, &sm, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "no cubin: 0 bytes, an ELF header has 64");
}

static void refuses_sections_outside_the_image(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_80");
  unsigned char *image = copy_of(file, file->len);
  stg_error err = STG_ERROR_INIT;
  memset(image + 40, 0xff, 8);
  assert_int_equal(read_exact(image, file->len, "fixture_plain", &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "sections at offset 18446744073709551615 do not fit in"));
  free(image);
}

/* A section of type 0 is none, so nothing said that its bytes lie in the image. */
static void follows_no_section_without_a_type(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_90");
  for (size_t i = 0; i < 64; i++) {
    unsigned char *image = copy_of(file, file->len);
    const size_t at = (size_t)stg_le_load(image + 40, 8) + 64 * i;
    if (i == stg_le_load(image + 60, 2)) {
      free(image);
      return;
    }
    struct stg_cubin_param *params = NULL;
    size_t count = 0;
    stg_error err = STG_ERROR_INIT;
    memset(image + at + 4, 0, 4);
    memset(image + at + 24, 0x7f, 16); /* offset and size */
    stg_status status = read_exact(image, file->len, "fixture_plain", &err);
    assert_true(status == STG_OK || status == STG_E_CORRUPT);
    status = stg_cubin_params(image, file->len, "fixture_plain", &params, &count, &err);
    assert_true(status == STG_OK || status == STG_E_CORRUPT);
    stg_free(params);
    free(image);
  }
  fail_msg("the fixture has 64 sections");
}

static void survives_truncation_at_every_length(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda12_sm_90");
  for (size_t size = 0; size < file->len; size += size < 128 ? 1 : 13) {
    unsigned char *image = copy_of(file, size);
    stg_error err;
    stg_status status = read_exact(image, size, "fixture_shared", &err);
    assert_true(status == STG_OK || (status == STG_E_CORRUPT && err.message[0] != '\0'));
    free(image);
  }
}

static void survives_any_flipped_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < stg_test_cubins_count; i++) {
    const struct stg_embedded_file *file = &stg_test_cubins[i];
    unsigned char *image = copy_of(file, file->len);
    for (size_t bit = 0; bit < 8 * file->len; bit += bit < 512 ? 1 : 37) {
      stg_error err;
      image[bit / 8] ^= (unsigned char)(1u << bit % 8);
      stg_status status = read_exact(image, file->len, "fixture_shared", &err);
      assert_true(status == STG_OK || (status == STG_E_CORRUPT && err.message[0] != '\0'));
      image[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(image);
  }
}

static void survives_any_byte_set_to_its_extremes(void **state) {
  (void)state;
  const struct stg_embedded_file *file = test_cubin("cuda13_sm_100");
  unsigned char *image = copy_of(file, file->len);
  for (size_t at = 0; at < file->len; at++) {
    static const unsigned char values[] = {0, 0x7f, 0x80, 0xff};
    unsigned char saved = image[at];
    for (size_t v = 0; v < sizeof values; v++) {
      stg_error err;
      image[at] = values[v];
      stg_status status = read_exact(image, file->len, "fixture_plain", &err);
      assert_true(status == STG_OK || (status == STG_E_CORRUPT && err.message[0] != '\0'));
    }
    image[at] = saved;
  }
  free(image);
}

static void parses_architectures(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool ok;
    uint32_t sm;
  } cases[] = {{"sm_80", true, 80},   {"sm_90a", true, 90}, {"sm_100f", true, 100},
               {"sm_120", true, 120}, {"", false, 0},       {"sm_", false, 0},
               {"sm_9", false, 0},    {"sm_090", false, 0}, {"sm_1000", false, 0},
               {"sm_90aa", false, 0}, {"sm_90A", false, 0}, {"compute_90", false, 0},
               {"sm_90 ", false, 0},  {"SM_90", false, 0},  {"sm_-90", false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t sm = 0;
    assert_int_equal(stg_arch_parse(cases[i].text, &sm), cases[i].ok);
    assert_int_equal(sm, cases[i].sm);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_ptxas_reported),
      cmocka_unit_test(reads_the_threads_of_launch_bounds),
      cmocka_unit_test(reads_an_unaligned_image),
      cmocka_unit_test(names_the_kernel_that_is_not_there),
      cmocka_unit_test(refuses_what_is_no_cubin),
      cmocka_unit_test(refuses_sections_outside_the_image),
      cmocka_unit_test(follows_no_section_without_a_type),
      cmocka_unit_test(survives_truncation_at_every_length),
      cmocka_unit_test(survives_any_flipped_bit),
      cmocka_unit_test(survives_any_byte_set_to_its_extremes),
      cmocka_unit_test(parses_architectures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
