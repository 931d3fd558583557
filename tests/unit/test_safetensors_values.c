/*
 * test_safetensors_values.c: how many values a header may hold, by its own size.
 *
 * The tree of a header is cJSON's, outside of our heap; the number of its nodes bounds it.
 */
#include "specs/vector_file.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/json_scan.h"
#include "runtime/base/strbuf.h"

/* Close the header that begins at byte 8 of `file` with `end`, and open the file. */
static stg_status open_header(struct stg_strbuf *file, const char *end,
                              struct stg_tensor_file *ret_file, stg_error *err) {
  stg_strbuf_str(file, end);
  assert_int_equal(stg_strbuf_status(file, NULL), STG_OK);
  const uint64_t size = file->len - sizeof size;
  memcpy(file->data, &size, sizeof size);
  return stg_tensor_file_parse("h.safetensors", file->data, file->len, NULL, ret_file, err);
}

static struct stg_strbuf begin_header(void) {
  struct stg_strbuf file = {0};
  const uint64_t size = 0;
  stg_strbuf_mem(&file, &size, sizeof size);
  stg_strbuf_str(&file, "{");
  return file;
}

static void reads_the_header_with_the_most_values_for_its_bytes(void **state) {
  const size_t n = 5000;
  struct stg_strbuf file = begin_header();
  struct stg_tensor_file opened = {0};
  stg_error err = STG_ERROR_INIT;
  (void)state;
  for (size_t i = 0; i < n; i++) {
    stg_strbuf_printf(&file,
                      "%s\"%zx\":{\"dtype\":\"\",\"shape\":[0,0,0,0,0,0,0,0],"
                      "\"data_offsets\":[0,0]}",
                      i > 0 ? "," : "", i);
  }
  stg_status status = open_header(&file, "}", &opened, &err);
  if (status != STG_OK) {
    print_error("%s\n", err.message);
  }
  assert_int_equal(status, STG_OK);
  assert_int_equal(opened.n_tensors, n);
  stg_tensor_file_close(&opened);
  stg_strbuf_finish(&file);
}

/* A header of a list of ones, which has two bytes for each. */
static void assert_list_refused(size_t n, const char *part) {
  struct stg_strbuf file = begin_header();
  struct stg_tensor_file opened = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_str(&file, "\"v\":[1");
  for (size_t i = 1; i < n; i++) {
    stg_strbuf_str(&file, ",1");
  }
  assert_int_equal(open_header(&file, "]}", &opened, &err), STG_E_FORMAT);
  if (strstr(err.message, part) == NULL) {
    fail_msg("'%s' does not say '%s'", err.message, part);
  }
  stg_strbuf_finish(&file);
}

static void refuses_more_values_than_tensors_have_in_so_many_bytes(void **state) {
  (void)state;
  /* 20007 bytes */
  assert_list_refused(10000, ": more than 5065 values; those of tensors take more bytes of a "
                             "header, so it is not safetensors");
  assert_list_refused(100, "v: expected an object, found an array");
}

static void the_largest_headers_are_told_to_be_split(void **state) {
  (void)state;
  assert_list_refused((size_t)9 << 20,
                      ": more than 4194304 values; split it into files of fewer tensors");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_the_header_with_the_most_values_for_its_bytes),
      cmocka_unit_test(refuses_more_values_than_tensors_have_in_so_many_bytes),
      cmocka_unit_test(the_largest_headers_are_told_to_be_split),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
