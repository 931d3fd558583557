/*
 * test_npy.c: .npy files as NumPy writes them, as Python 2 wrote them, broken, and hostile.
 */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/strbuf.h"
#include "specs/vector_file.h"

/* What numpy 2.4.6 writes for a float32 [[1.5, -2], [0.25, 4]], byte for byte: np.save, and
 * numpy.lib.format.write_array with version=(2, 0) and (3, 0). */
#define DICT "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
#define SPACES_56 "                                                        "
#define FOUR "\0\0\xc0\x3f\0\0\0\xc0\0\0\x80\x3e\0\0\x80\x40"
static const char version_1[] = "\x93NUMPY\1\0v\0" DICT "  " SPACES_56 "\n" FOUR;
static const char version_2[] = "\x93NUMPY\2\0t\0\0\0" DICT SPACES_56 "\n" FOUR;
static const char version_3[] = "\x93NUMPY\3\0t\0\0\0" DICT SPACES_56 "\n" FOUR;
#define FILE_BYTES (sizeof version_1 - 1)

/* np.save of a float16 [1, 2, 3] and of numpy.float64(3). */
static const char halves[] = "\x93NUMPY\1\0v\0{'descr': '<f2', 'fortran_order': False, 'shape': "
                             "(3,), }    " SPACES_56 "\n\0\x3c\0\x40\0\x42";
static const char scalar[] = "\x93NUMPY\1\0v\0{'descr': '<f8', 'fortran_order': False, 'shape': "
                             "(), }      " SPACES_56 "\n\0\0\0\0\0\0\x08\x40";

static stg_status parse(const char *path, const void *bytes, size_t size,
                        struct stg_tensor_file *ret_file, stg_error *err) {
  return stg_tensor_file_parse(path, bytes, size, NULL, ret_file, err);
}

/* A file of version 1.0 with that header and so many zero bytes behind it. */
static void build(struct stg_strbuf *file, const char *header, size_t data_bytes) {
  uint16_t size = (uint16_t)strlen(header);
  stg_strbuf_mem(file, "\x93NUMPY\1\0", 8);
  stg_strbuf_mem(file, &size, sizeof size);
  stg_strbuf_str(file, header);
  for (size_t i = 0; i < data_bytes; i++) {
    stg_strbuf_char(file, '\0');
  }
}

static void assert_refused(const void *bytes, size_t size, stg_status status, const char *message) {
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(parse("v.npy", bytes, size, &file, &err), status);
  assert_string_equal(err.message, message);
  assert_null(file.path);
}

static void reads_what_numpy_writes_in_every_version(void **state) {
  static const struct {
    const char *bytes;
    const char *text;
  } files[] = {{version_1, ".npy 1.0"}, {version_2, ".npy 2.0"}, {version_3, ".npy 3.0"}};
  static const float expected[] = {1.5f, -2.0f, 0.25f, 4.0f};
  (void)state;
  assert_int_equal(FILE_BYTES, 144);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    struct stg_tensor_file file = {0};
    const struct stg_tensor_info *tensor = NULL;
    float values[4];
    assert_int_equal(parse("any name", files[i].bytes, FILE_BYTES, &file, NULL), STG_OK);
    assert_int_equal(file.format, STG_FILE_NPY);
    assert_string_equal(file.format_text, files[i].text);
    assert_int_equal(file.n_tensors, 1);
    assert_int_equal(file.n_metadata, 0);
    assert_int_equal(stg_tensor_find(&file, NULL, &tensor, NULL), STG_OK);
    assert_string_equal(tensor->name, "array");
    assert_string_equal(tensor->dtype_name, "<f4");
    assert_int_equal(tensor->elem, STG_ELEM_F32);
    assert_int_equal(tensor->n_dims, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 2);
    stg_tensor_read(tensor, 0, 4, STG_F32, values);
    assert_memory_equal(values, expected, sizeof expected);
    stg_tensor_file_close(&file);
  }
}

static void reads_halves_doubles_and_scalars(void **state) {
  struct stg_tensor_file file = {0};
  float values[3];
  (void)state;
  assert_int_equal(parse("v.npy", halves, sizeof halves - 1, &file, NULL), STG_OK);
  assert_int_equal(file.tensors[0].elem, STG_ELEM_F16);
  assert_int_equal(file.tensors[0].n_dims, 1);
  stg_tensor_read(&file.tensors[0], 0, 3, STG_F32, values);
  assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
  stg_tensor_file_close(&file);
  assert_int_equal(parse("v.npy", scalar, sizeof scalar - 1, &file, NULL), STG_OK);
  assert_int_equal(file.tensors[0].elem, STG_ELEM_F64);
  assert_int_equal(file.tensors[0].n_dims, 0);
  assert_int_equal(file.tensors[0].n_elems, 1);
  stg_tensor_read(&file.tensors[0], 0, 1, STG_F32, values);
  assert_true(values[0] == 3);
  stg_tensor_file_close(&file);
}

static void reads_headers_that_others_write(void **state) {
  static const struct {
    const char *header;
    size_t data_bytes;
    uint32_t n_dims;
    int64_t shape[3];
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4096L,), }     \n", 16384, 1, {4096}},
      {"{'shape': (1L, 2L), 'fortran_order': False, 'descr': '<f4'}", 8, 2, {1, 2}},
      {"{\"descr\":\"<f8\",\"fortran_order\":False,\"shape\":(1,2,3)}", 48, 3, {1, 2, 3}},
      {" {\n'descr' :\t'<f2' , 'fortran_order' : True , 'shape' : ( 3 , ) , } \r\n", 6, 1, {3}},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807), }",
       0,
       2,
       {0, INT64_MAX}},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 0)}",
       0,
       2,
       {(int64_t)1 << 62, 0}},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 4, 0)}",
       0,
       3,
       {INT64_MAX, 4, 0}},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (), }", 4, 0, {0}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_tensor_file file = {0};
    struct stg_strbuf bytes = {0};
    stg_error err = STG_ERROR_INIT;
    build(&bytes, cases[i].header, cases[i].data_bytes);
    if (parse("v.npy", bytes.data, bytes.len, &file, &err) != STG_OK) {
      fail_msg("%s", err.message);
    }
    assert_int_equal(file.tensors[0].n_dims, cases[i].n_dims);
    assert_memory_equal(file.tensors[0].shape, cases[i].shape,
                        cases[i].n_dims * sizeof cases[i].shape[0]);
    assert_ptr_equal(file.tensors[0].data, bytes.data + bytes.len - cases[i].data_bytes);
    stg_tensor_file_close(&file);
    stg_strbuf_finish(&bytes);
  }
}

static void refuses_bad_frames(void **state) {
  static const struct {
    const char *bytes;
    size_t size;
    stg_status status;
    const char *message;
  } cases[] = {
      {"", 0, STG_E_FORMAT, "v.npy: does not begin as a .npy file does"},
      {"NUMPY\1\0v\0{}", 11, STG_E_FORMAT, "v.npy: does not begin as a .npy file does"},
      {"\x93NUMPY\1", 7, STG_E_FORMAT, "v.npy: 7 bytes, a .npy file begins with 10"},
      {"\x93NUMPY\1\0v", 9, STG_E_FORMAT, "v.npy: 9 bytes, a .npy 1.0 file begins with 10"},
      {"\x93NUMPY\2\0v\0", 10, STG_E_FORMAT, "v.npy: 10 bytes, a .npy 2.0 file begins with 12"},
      {"\x93NUMPY\4\0v\0\0\0", 12, STG_E_UNSUPPORTED,
       "v.npy: .npy version 4.0; 1.0, 2.0 and 3.0 are read"},
      {"\x93NUMPY\1\1v\0\0\0", 12, STG_E_UNSUPPORTED,
       "v.npy: .npy version 1.1; 1.0, 2.0 and 3.0 are read"},
      {"\x93NUMPY\0\0v\0\0\0", 12, STG_E_UNSUPPORTED,
       "v.npy: .npy version 0.0; 1.0, 2.0 and 3.0 are read"},
      {"\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, STG_E_FORMAT,
       "v.npy: a header of 4294967295 bytes does not fit in a file of 14; it is cut short"},
      {"\x93NUMPY\1\0\3\0{}", 12, STG_E_FORMAT,
       "v.npy: a header of 3 bytes does not fit in a file of 12; it is cut short"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_refused(cases[i].bytes, cases[i].size, cases[i].status, cases[i].message);
  }
}

static void refuses_a_header_over_the_bound(void **state) {
  static char bytes[12 + 65537] = "\x93NUMPY\3\0\1\0\1";
  (void)state;
  memset(bytes + 12, ' ', sizeof bytes - 12);
  assert_refused(bytes, sizeof bytes, STG_E_FORMAT,
                 "v.npy: a header of 65537 bytes, at most 65536 are read");
}

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "

/* A header, and the message behind the path; 16 bytes of data. */
static const struct {
  const char *header;
  stg_status status;
  const char *message;
} bad_headers[] = {
    {"", STG_E_FORMAT, "header, byte 0: expected '{', found its end"},
    {"[]", STG_E_FORMAT, "header, byte 0: expected '{', found '['"},
    {"{", STG_E_FORMAT,
     "header, byte 1: expected 'descr', 'fortran_order' or 'shape', found its end"},
    {"{descr", STG_E_FORMAT,
     "header, byte 1: expected 'descr', 'fortran_order' or 'shape', found 'd'"},
    {"{'x': 1}", STG_E_FORMAT,
     "header, byte 1: expected 'descr', 'fortran_order' or 'shape', found 'x'"},
    {"{ 'fortran_orders': 1}", STG_E_FORMAT,
     "header, byte 2: expected 'descr', 'fortran_order' or 'shape', found 'fortran_orders'"},
    {"{'a very long key of somebody': 1}", STG_E_FORMAT,
     "header, byte 1: expected 'descr', 'fortran_order' or 'shape', found 'a very long ke'"},
    {"{'descr", STG_E_FORMAT, "header, byte 7: expected the end of a text, found its end"},
    {"{'de\\x73cr': '<f4'}", STG_E_FORMAT,
     "header, byte 4: expected the end of a text, found '\\'"},
    {"{'d\xc3\xa9': 1}", STG_E_FORMAT,
     "header, byte 3: expected the end of a text, found a byte 0xc3"},
    {"{'descr' '<f4'}", STG_E_FORMAT, "header, byte 9: expected ':', found '''"},
    {"{'descr': <f4}", STG_E_FORMAT, "header, byte 10: expected a text, found '<'"},
    {"{'descr': '<f4' 'shape': (4,)}", STG_E_FORMAT,
     "header, byte 16: expected ',' or '}', found '''"},
    {"{'descr': '<f4',, }", STG_E_FORMAT,
     "header, byte 16: expected 'descr', 'fortran_order' or 'shape', found ','"},
    {"{'descr': '<f4', 'descr': '<f4'}", STG_E_FORMAT, "header, byte 17: 'descr' is given twice"},
    {"{}", STG_E_FORMAT, "header: 'descr' is missing"},
    {"{'descr': '<f4', 'shape': (4,)}", STG_E_FORMAT, "header: 'fortran_order' is missing"},
    {"{'descr': '<f4', 'fortran_order': False}", STG_E_FORMAT, "header: 'shape' is missing"},
    {"{'descr': '<f4', 'fortran_order': 0}", STG_E_FORMAT,
     "header, byte 34: expected True or False, found '0'"},
    {"{'descr': '<f4', 'fortran_order': Fals", STG_E_FORMAT,
     "header, byte 34: expected True or False, found 'F'"},
    {HEAD "4}", STG_E_FORMAT, "header, byte 50: expected '(', found '4'"},
    {HEAD "(4)}", STG_E_FORMAT, "header, byte 52: expected ',', as in (4096,), found ')'"},
    {HEAD "(,)}", STG_E_FORMAT, "header, byte 51: expected a number, 0 or more, found ','"},
    {HEAD "(-4,)}", STG_E_FORMAT, "header, byte 51: expected a number, 0 or more, found '-'"},
    {HEAD "(4.0,)}", STG_E_FORMAT, "header, byte 52: expected ',' or ')', found '.'"},
    {HEAD "(4 4)}", STG_E_FORMAT, "header, byte 53: expected ',' or ')', found '4'"},
    {HEAD "(04,)}", STG_E_FORMAT,
     "header, byte 52: expected no digit behind a leading 0, found '4'"},
    {HEAD "(4LL,)}", STG_E_FORMAT, "header, byte 53: expected ',' or ')', found 'L'"},
    {HEAD "(4,", STG_E_FORMAT, "header, byte 53: expected a number, 0 or more, found its end"},
    {HEAD "(9223372036854775808,)}", STG_E_FORMAT,
     "header, byte 51: a number beyond 9223372036854775807"},
    {HEAD "(99999999999999999999999999,)}", STG_E_FORMAT,
     "header, byte 51: a number beyond 9223372036854775807"},
    {HEAD "(4,)} x", STG_E_FORMAT, "header, byte 56: expected its end, found 'x'"},
    {HEAD "(4,)}}", STG_E_FORMAT, "header, byte 55: expected its end, found '}'"},
    {HEAD "(1, 1, 1, 1, 1, 1, 1, 1, 4)}", STG_E_UNSUPPORTED,
     "shape has more than 8 dimensions, at most 8 are read"},
    {HEAD "(4611686018427387904, 4)}", STG_E_FORMAT,
     "shape [4611686018427387904, 4]: the number of elements overflows"},
    {HEAD "(4611686018427387904,)}", STG_E_FORMAT,
     "shape [4611686018427387904]: the number of elements overflows"},
    {HEAD "(5,)}", STG_E_FORMAT,
     "shape [5] of '<f4' needs 20 bytes, the file has 16 behind its header; it is cut short"},
    {HEAD "(3, 1)}", STG_E_FORMAT,
     "shape [3, 1] of '<f4' needs 12 bytes, the file has 16 behind its header; 4 bytes too many"},
    {HEAD "(4, 0)}", STG_E_FORMAT,
     "shape [4, 0] of '<f4' needs 0 bytes, the file has 16 behind its header; 16 bytes too many"},
    {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", STG_E_UNSUPPORTED,
     "descr '<i8'; '<f2', '<f4' and '<f8' are read; save it with astype('<f4')"},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (8,)}", STG_E_UNSUPPORTED,
     "descr '|V2'; '<f2', '<f4' and '<f8' are read; save it with astype('<f4')"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (4,)}", STG_E_UNSUPPORTED,
     "descr '>f4' is big-endian; write it again with little-endian byte order"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", STG_E_UNSUPPORTED,
     "descr '|O' holds Python objects, a pickle; save numbers"},
    {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (4,)}", STG_E_UNSUPPORTED,
     "descr is a list of fields, a structured array; save one field"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", STG_E_UNSUPPORTED,
     "fortran_order is True for shape [2, 2]; save it with numpy.ascontiguousarray"},
};

static void refuses_bad_headers_with_place_and_values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_headers / sizeof bad_headers[0]; i++) {
    struct stg_strbuf bytes = {0};
    char message[256];
    build(&bytes, bad_headers[i].header, 16);
    snprintf(message, sizeof message, "v.npy: %s", bad_headers[i].message);
    assert_refused(bytes.data, bytes.len, bad_headers[i].status, message);
    stg_strbuf_finish(&bytes);
  }
}

static void refuses_a_file_cut_at_any_byte(void **state) {
  (void)state;
  for (size_t size = 0; size < FILE_BYTES; size++) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    char *cut = size > 0 ? stg_malloc(size) : NULL; /* exact, for the sanitizers */
    memcpy(cut != NULL ? cut : (char[1]){0}, version_2, size);
    assert_int_equal(parse("v.npy", cut, size, &file, &err), STG_E_FORMAT);
    const char *part = size < 6     ? "does not begin as a .npy file does"
                       : size < 8   ? "a .npy file begins with 10"
                       : size < 12  ? "a .npy 2.0 file begins with 12"
                       : size < 128 ? "does not fit in a file of"
                                    : "behind its header; it is cut short";
    if (strstr(err.message, part) == NULL) {
      fail_msg("%zu bytes: '%s' does not say '%s'", size, err.message, part);
    }
    stg_free(cut);
  }
}

static void survives_any_flipped_bit(void **state) {
  char bytes[FILE_BYTES];
  (void)state;
  for (size_t bit = 0; bit < 8 * FILE_BYTES; bit++) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    memcpy(bytes, version_1, FILE_BYTES);
    bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    stg_status status = parse("v.npy", bytes, FILE_BYTES, &file, &err);
    if (status == STG_OK) {
      const struct stg_tensor_info *tensor = &file.tensors[0];
      assert_ptr_equal((const char *)tensor->data + tensor->n_elems * stg_elem_bytes(tensor->elem),
                       bytes + FILE_BYTES);
      /* a flip of the data, or white space that became other white space */
      assert_true(bit / 8 >= FILE_BYTES - 16 || strchr(" \n\t\r\f", bytes[bit / 8]) != NULL);
    } else {
      assert_true(status == STG_E_FORMAT || status == STG_E_UNSUPPORTED);
      assert_int_equal(strncmp(err.message, "v.npy: ", 7), 0);
    }
    stg_tensor_file_close(&file);
  }
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  while (status != STG_OK) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = parse("v.npy", version_1, FILE_BYTES, &file, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    stg_tensor_file_close(&file);
    assert_true(nth < 100);
  }
  assert_true(nth > 1);
}

static void asks_for_no_memory_but_the_description(void **state) {
  static char bytes[10 + 65000] = "\x93NUMPY\1\0\xe8\xfd"; /* all header, all spaces */
  struct stg_tensor_file file = {0};
  (void)state;
  memset(bytes + 10, ' ', sizeof bytes - 10);
  stg_alloc_asked_bytes(true);
  assert_int_equal(parse("v.npy", bytes, sizeof bytes, &file, NULL), STG_E_FORMAT);
  assert_in_range(stg_alloc_asked_bytes(true), 1, 65536);
  assert_int_equal(parse("v.npy", version_1, FILE_BYTES, &file, NULL), STG_OK);
  assert_in_range(stg_alloc_asked_bytes(true), 1, 65536);
  stg_tensor_file_close(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_numpy_writes_in_every_version),
      cmocka_unit_test(reads_halves_doubles_and_scalars),
      cmocka_unit_test(reads_headers_that_others_write),
      cmocka_unit_test(refuses_bad_frames),
      cmocka_unit_test(refuses_a_header_over_the_bound),
      cmocka_unit_test(refuses_bad_headers_with_place_and_values),
      cmocka_unit_test(refuses_a_file_cut_at_any_byte),
      cmocka_unit_test(survives_any_flipped_bit),
      cmocka_unit_test(gives_no_memory_when_any_allocation_fails),
      cmocka_unit_test(asks_for_no_memory_but_the_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
