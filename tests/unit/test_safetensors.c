/*
 * test_safetensors.c: safetensors files as others write them, as hostile people write them, and
 * back from our own writer.
 */
#include "specs/vector_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/strbuf.h"
#include "tests/support/temp_folder.h"

/* What the reference implementation (safetensors 0.4, Python) writes for an int64 [7], a float32
 * [[1, 2, 3], [4, 5, -0.5]] and a float16 [1.5], byte for byte. */
static const char reference_file[] =
    "\xc0\0\0\0\0\0\0\0"
    "{\"__metadata__\":{\"k\":\"v\"},"
    "\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
    "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[32,34]}}  "
    "\x07\0\0\0\0\0\0\0"
    "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\0\xbf"
    "\0\x3e";

/* Not stg_file_write_atomic: thousands of files need no fsync. */
static const char *put_file(void *const *state, const char *name, const void *bytes, size_t size) {
  const char *path = temp_path(state, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

/* A file of that header and so many zero bytes of data. */
static const char *put_header(void *const *state, const char *header, size_t data_bytes) {
  struct stg_strbuf file = {0};
  uint64_t size = strlen(header);
  stg_strbuf_mem(&file, &size, sizeof size);
  stg_strbuf_str(&file, header);
  for (size_t i = 0; i < data_bytes; i++) {
    stg_strbuf_char(&file, '\0');
  }
  const char *path = put_file(state, "x.safetensors", file.data, file.len);
  stg_strbuf_finish(&file);
  return path;
}

/* Open a file that must be refused: the status and a part of the message after the path. */
static void assert_refused(const char *path, stg_status status, const char *part) {
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, &err), status);
  if (strstr(err.message, part) == NULL) {
    fail_msg("'%s' does not say '%s'", err.message, part);
  }
  assert_non_null(strstr(err.message, path));
  assert_null(strchr(err.message, '\n'));
  assert_null(file.path);
}

static float element(const struct stg_tensor_info *tensor, size_t index) {
  float value = 0;
  stg_tensor_read(tensor, index, 1, STG_F32, &value);
  return value;
}

static void reads_what_the_reference_implementation_writes(void **state) {
  const char *path = put_file(state, "r.safetensors", reference_file, sizeof reference_file - 1);
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *b = NULL;
  const struct stg_tensor_info *a = NULL;
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_int_equal(file.n_tensors, 3);
  assert_int_equal(file.n_metadata, 1);
  assert_string_equal(file.metadata[0], "k");
  assert_string_equal(file.metadata[1], "v");
  assert_int_equal(stg_tensor_find(&file, "b", &b, NULL), STG_OK);
  assert_int_equal(b->elem, STG_ELEM_F32);
  assert_int_equal(b->n_dims, 2);
  assert_int_equal(b->shape[0], 2);
  assert_int_equal(b->shape[1], 3);
  assert_int_equal(b->n_elems, 6);
  assert_true(element(b, 5) == -0.5f);
  assert_int_equal(stg_tensor_find(&file, "a", &a, NULL), STG_OK);
  assert_int_equal(a->elem, STG_ELEM_F16);
  assert_true(element(a, 0) == 1.5f);
  stg_tensor_file_close(&file);
}

static void lists_a_tensor_of_another_dtype_and_refuses_to_find_it(void **state) {
  const char *path = put_file(state, "r.safetensors", reference_file, sizeof reference_file - 1);
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *n = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_string_equal(file.tensors[0].name, "n");
  assert_int_equal(file.tensors[0].elem, STG_ELEM_NONE);
  assert_string_equal(file.tensors[0].dtype_name, "I64");
  assert_int_equal(stg_tensor_find(&file, "n", &n, &err), STG_E_UNSUPPORTED);
  assert_non_null(
      strstr(err.message, "': tensor 'n' has dtype I64; convert it to F32, F16 or BF16"));
  assert_null(n);
  stg_tensor_file_close(&file);
}

static void names_the_nearest_tensors_when_one_is_missing(void **state) {
  const char *path = put_header(
      state,
      "{\"layer.12\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"zzz\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"layer.2\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"completely different\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"layer.13\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
      0);
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_int_equal(stg_tensor_find(&file, "layer.3", &tensor, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "has no tensor 'layer.3'; nearest of 5: 'layer.2', "
                                      "'layer.13', 'layer.12'"));
  stg_tensor_file_close(&file);
}

static void says_when_a_file_holds_no_tensors(void **state) {
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_file_open(put_header(state, "{}", 0), NULL, &file, NULL), STG_OK);
  assert_int_equal(stg_tensor_find(&file, "v", &tensor, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "' holds no tensors"));
  stg_tensor_file_close(&file);
}

static void refuses_a_file_cut_at_any_byte(void **state) {
  for (size_t size = 0; size < sizeof reference_file - 1; size++) {
    const char *path = put_file(state, "cut.safetensors", reference_file, size);
    assert_refused(path, STG_E_FORMAT,
                   size < 8     ? "begins with 8 bytes of header size"
                   : size < 200 ? "does not fit in a file of"
                                : "data_offsets");
  }
}

static void survives_any_flipped_bit(void **state) {
  char bytes[sizeof reference_file - 1];
  for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
    memcpy(bytes, reference_file, sizeof bytes);
    bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    const char *path = put_file(state, "flip.safetensors", bytes, sizeof bytes);
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    stg_status status = stg_tensor_file_open(path, NULL, &file, &err);
    if (status == STG_OK) {
      for (size_t i = 0; i < file.n_tensors; i++) {
        const char *data = file.tensors[i].data;
        assert_true(data >= (const char *)file.map.data &&
                    data <= (const char *)file.map.data + file.map.size);
      }
      stg_tensor_file_close(&file);
    } else {
      assert_true(status == STG_E_FORMAT || status == STG_E_UNSUPPORTED);
      assert_non_null(strstr(err.message, path));
    }
  }
}

/* A header with one tensor "v", and what is wrong with it. */
static const struct {
  const char *header;
  size_t data_bytes;
  stg_status status;
  const char *part;
} hostile[] = {
    {"[]", 0, STG_E_FORMAT, "does not begin with '{'"},
    {" {}", 0, STG_E_FORMAT, "does not begin with '{'"},
    {"{", 0, STG_E_FORMAT, ":1:"},
    {"{} x", 0, STG_E_FORMAT, ":1:4:"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}{}", 4, STG_E_FORMAT, ":1:"},
    {"{\"v\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "UTF-8"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, STG_E_FORMAT, "v"},
    {"{\"v\":1}", 0, STG_E_FORMAT, "v: expected an object"},
    {"{\"v\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT, "dtype"},
    {"{\"v\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT, "shape"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, STG_E_FORMAT, "data_offsets"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, STG_E_FORMAT,
     "x"},
    {"{\"v\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT, "v.dtype"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT, "v.shape"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "v.shape[0]"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "v.shape[0]"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "v.shape[0]"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[9007199254740991,9007199254740991],"
     "\"data_offsets\":[0,4]}}",
     4, STG_E_FORMAT, "v.shape: the number of elements overflows"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[4294967296,1073741824],\"data_offsets\":[0,4]}}", 4,
     STG_E_FORMAT, "v.data_offsets: 4 bytes, but 4611686018427387904 elements of F32"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     STG_E_UNSUPPORTED, "v.shape: 9 dimensions, at most 8 are read"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, STG_E_FORMAT,
     "v.data_offsets: expected [begin, end], found 1 values"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]}}", 4, STG_E_FORMAT,
     "v.data_offsets: expected [begin, end], found 3 values"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, STG_E_FORMAT,
     "v.data_offsets[0]"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, STG_E_FORMAT,
     "v.data_offsets: the tensor ends at byte 8 of the data, the file has 4; it is cut short"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 4, STG_E_FORMAT,
     "v.data_offsets: the tensor ends at byte 12 of the data, the file has 4; it is cut short"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 4, STG_E_FORMAT,
     "v.data_offsets: begin 8 is after end 4"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551620]}}", 4,
     STG_E_FORMAT, "v.data_offsets[1]"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, STG_E_FORMAT,
     "v.data_offsets: begin 4 is after end 0"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "v.data_offsets: 4 bytes, but 2 elements of F32 have 32 bits each"},
    {"{\"v\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, STG_E_FORMAT,
     "2 bytes, but 3 elements of F4"},
    {"{\"v\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STG_E_FORMAT,
     "4 bytes, but 1 elements of I64"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, STG_E_FORMAT, "tensors 'a' and 'b' overlap: one ends at byte 8, the other begins at 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, STG_E_FORMAT, "overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, STG_E_FORMAT, "hole of 4 bytes before tensor 'b', which begins at byte 8"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, STG_E_FORMAT,
     "the tensors end at byte 4, but the file has 5 bytes of data"},
    {"{\"__metadata__\":[]}", 0, STG_E_FORMAT, "__metadata__: expected an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, STG_E_FORMAT, "__metadata__.k: expected a string"},
    {"{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", 0, STG_E_FORMAT, "k"},
};

static void refuses_hostile_headers_with_place_and_values(void **state) {
  for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
    const char *path = put_header(state, hostile[i].header, hostile[i].data_bytes);
    assert_refused(path, hostile[i].status, hostile[i].part);
  }
}

static void refuses_a_declared_size_beyond_the_file(void **state) {
  static const struct {
    const char *bytes;
    const char *part;
  } cases[] = {
      {"\xff\xff\xff\xff\xff\xff\xff\xff{}", "a header of 18446744073709551615 bytes does not fit"},
      {"\0\0\0\0\0\0\0\x80{}", "a header of 9223372036854775808 bytes does not fit"},
      {"\x03\0\0\0\0\0\0\0{}", "a header of 3 bytes does not fit in a file of 10"},
      {"\0\0\0\0\0\0\0\0{}", "the header of 0 bytes does not begin with '{'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *path = put_file(state, "huge.safetensors", cases[i].bytes, 10);
    assert_refused(path, STG_E_FORMAT, cases[i].part);
  }
}

static void refuses_a_header_over_the_bound_before_reading_it(void **state) {
  /* sparse: 65 MiB of zeros behind a size that says so */
  uint64_t size = (uint64_t)65 << 20;
  const char *path = put_file(state, "big.safetensors", &size, sizeof size);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)size + 7, SEEK_SET), 0);
  assert_int_equal(fputc(0, file), 0);
  assert_int_equal(fclose(file), 0);
  assert_refused(path, STG_E_FORMAT, "a header of 68157440 bytes, at most 67108864 are read");
}

static void names_formats_that_people_will_try(void **state) {
  static const struct {
    const char *bytes;
    const char *part;
  } cases[] = {{"PK\3\4\0\0\0\0\0\0\0\0", "is a zip archive (.pt, .pth or .npz)"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *path = put_file(state, "other", cases[i].bytes, 12);
    assert_refused(path, STG_E_UNSUPPORTED, cases[i].part);
  }
}

static void refuses_a_folder_and_a_missing_file(void **state) {
  assert_refused(temp_path(state, "."), STG_E_IO, "it is a folder, not a file");
  assert_refused(temp_path(state, "none"), STG_E_NOT_FOUND, "cannot read");
}

static void accepts_nan_scalars_and_empty_tensors(void **state) {
  const char *path =
      put_header(state,
                 "{\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
                 "\"e\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[2,2]},"
                 "\"h\":{\"dtype\":\"F32\",\"shape\":[9007199254740991,4096,0],"
                 "\"data_offsets\":[2,2]},"
                 "\"u\":{\"dtype\":\"F8_NEW\",\"shape\":[3],\"data_offsets\":[2,5]}}   \n",
                 5);
  FILE *stream = fopen(path, "r+b");
  assert_non_null(stream);
  assert_int_equal(fseek(stream, -5, SEEK_END), 0);
  assert_int_equal(fwrite("\xc0\x7f", 1, 2, stream), 2);
  assert_int_equal(fclose(stream), 0);
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_int_equal(stg_tensor_find(&file, "s", &tensor, NULL), STG_OK);
  assert_int_equal(tensor->n_dims, 0);
  assert_int_equal(tensor->n_elems, 1);
  float value = element(tensor, 0);
  assert_true(value != value);
  assert_int_equal(stg_tensor_find(&file, "e", &tensor, NULL), STG_OK);
  assert_int_equal(tensor->n_elems, 0);
  assert_int_equal(stg_tensor_find(&file, "h", &tensor, NULL), STG_OK);
  assert_int_equal(tensor->n_elems, 0);
  assert_int_equal(stg_tensor_find(&file, "u", &tensor, NULL), STG_E_UNSUPPORTED);
  stg_tensor_file_close(&file);
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  const char *path = put_file(state, "r.safetensors", reference_file, sizeof reference_file - 1);
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  while (status != STG_OK) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = stg_tensor_file_open(path, NULL, &file, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    stg_tensor_file_close(&file);
    assert_true(nth < 1000);
  }
  assert_true(nth > 3);
}

static void writes_the_same_aligned_bytes_every_time(void **state) {
  static const float values[] = {1.0f, -2.0f};
  static const struct stg_tensor_out tensors[] = {{"hidden", STG_F32, 2, {1, 2}, values},
                                                  {"none", STG_BF16, 1, {0}, NULL}};
  static const char *const metadata[] = {"signature", "steer v1 | \"x\""};
  static const char expected[] =
      "\xa8\0\0\0\0\0\0\0"
      "{\"__metadata__\":{\"signature\":\"steer v1 | \\\"x\\\"\"},"
      "\"hidden\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"none\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[8,8]}}  "
      "\0\0\x80\x3f\0\0\0\xc0";
  const char *path = temp_path(state, "out.safetensors");
  char *bytes = NULL;
  size_t size = 0;
  for (int round = 0; round < 2; round++) {
    assert_int_equal(stg_safetensors_write(path, tensors, 2, metadata, 1, NULL), STG_OK);
    assert_int_equal(stg_file_read(path, 1000, &bytes, &size, NULL), STG_OK);
    assert_int_equal(size % 8, 0);
    assert_int_equal(size, sizeof expected - 1);
    assert_memory_equal(bytes, expected, size);
    stg_free(bytes);
  }
}

static void reads_back_what_it_wrote(void **state) {
  static const uint16_t halves[] = {0x3c00, 0x7c00, 0x7e01, 0x8000};
  static const float floats[] = {1e-45f, 3.0f};
  static const struct stg_tensor_out tensors[] = {
      {"h", STG_F16, 2, {2, 2}, halves},
      {"name \"with\"\n\xc3\xa9", STG_F32, 1, {2}, floats},
      {"scalar", STG_BF16, 0, {0}, halves},
  };
  const char *path = temp_path(state, "out.safetensors");
  struct stg_tensor_file file = {0};
  assert_int_equal(stg_safetensors_write(path, tensors, 3, NULL, 0, NULL), STG_OK);
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_int_equal(file.n_tensors, 3);
  assert_int_equal(file.n_metadata, 0);
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(file.tensors[i].name, tensors[i].name);
    assert_int_equal(stg_elem_dtype(file.tensors[i].elem), tensors[i].dtype);
    assert_int_equal(file.tensors[i].n_dims, tensors[i].n_dims);
    assert_memory_equal(file.tensors[i].data, tensors[i].data,
                        file.tensors[i].n_elems * stg_dtype_bytes(tensors[i].dtype));
  }
  stg_tensor_file_close(&file);
}

/* The message names the file that was to be written. */
static void assert_of_file(const char *path, const char *message, const stg_error *err) {
  char whole[sizeof err->message];
  snprintf(whole, sizeof whole, "'%s': %s", path, message);
  assert_string_equal(err->message, whole);
}

static void refuses_to_write_what_no_reader_would_take(void **state) {
  static const struct {
    struct stg_tensor_out tensors[2];
    const char *message;
  } cases[] = {
      {{{"", STG_F32, 0, {0}, ""}, {"b", STG_F32, 1, {0}, ""}},
       "a tensor cannot be named '' in safetensors; give it another name"},
      {{{"__metadata__", STG_F32, 0, {0}, ""}, {"b", STG_F32, 1, {0}, ""}},
       "a tensor cannot be named '__metadata__' in safetensors; give it another name"},
      {{{"a", STG_F32, 1, {0}, ""}, {"a", STG_F32, 1, {0}, ""}},
       "tensor 'a' is given twice; keep one"},
      {{{"a", STG_F32, 1, {-1}, ""}, {"b", STG_F32, 1, {0}, ""}}, "tensor 'a': shape[0] = -1"},
      {{{"a", STG_F32, 2, {INT64_MAX, 4}, ""}, {"b", STG_F32, 1, {0}, ""}},
       "tensor 'a': shape[0] = 9223372036854775807"},
      {{{"a", STG_DTYPE_NONE, 1, {0}, ""}, {"b", STG_F32, 1, {0}, ""}},
       "tensor 'a': dtype 0, expected f32, f16 or bf16"},
      {{{"a", STG_F32, 9, {0}, ""}, {"b", STG_F32, 1, {0}, ""}},
       "tensor 'a': 9 dimensions, at most 8"},
  };
  const char *path = temp_path(state, "out.safetensors");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_safetensors_write(path, cases[i].tensors, 2, NULL, 0, &err),
                     STG_E_INVALID);
    assert_of_file(path, cases[i].message, &err);
  }
  static const char *const twice[] = {"k", "1", "k", "2"};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_safetensors_write(path, NULL, 0, twice, 2, &err), STG_E_INVALID);
  assert_of_file(path, "metadata key 'k' is given twice; keep one", &err);
  assert_refused(path, STG_E_NOT_FOUND, "cannot read");
}

/* The keys that repeat need not stand side by side, and long metadata have a bound. */
static void refuses_metadata_that_repeat_or_are_too_long(void **state) {
  const char *path = temp_path(state, "out.safetensors");
  static const char *const apart[] = {"k", "1", "a", "2", "z", "3", "k", "4"};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_safetensors_write(path, NULL, 0, apart, 4, &err), STG_E_INVALID);
  assert_of_file(path, "metadata key 'k' is given twice; keep one", &err);
  const size_t bytes = (size_t)64 << 20;
  char *text = malloc(bytes + 1);
  assert_non_null(text);
  memset(text, 'x', bytes);
  text[bytes] = '\0';
  const char *const longer[] = {"k", text};
  assert_int_equal(stg_safetensors_write(path, NULL, 0, longer, 1, &err), STG_E_INVALID);
  assert_of_file(
      path, "names and metadata take 67108896 bytes, and more than 67108864 are not read", &err);
  free(text);
}

static void writes_nothing_into_a_folder_that_is_not_there(void **state) {
  const char *path = temp_path(state, "no/out.safetensors");
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_safetensors_write(path, NULL, 0, NULL, 0, &err), STG_E_IO);
  assert_non_null(strstr(err.message, "No such file or directory"));
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(reads_what_the_reference_implementation_writes),
      IN_FOLDER(lists_a_tensor_of_another_dtype_and_refuses_to_find_it),
      IN_FOLDER(names_the_nearest_tensors_when_one_is_missing),
      IN_FOLDER(says_when_a_file_holds_no_tensors),
      IN_FOLDER(refuses_a_file_cut_at_any_byte),
      IN_FOLDER(survives_any_flipped_bit),
      IN_FOLDER(refuses_hostile_headers_with_place_and_values),
      IN_FOLDER(refuses_a_declared_size_beyond_the_file),
      IN_FOLDER(refuses_a_header_over_the_bound_before_reading_it),
      IN_FOLDER(names_formats_that_people_will_try),
      IN_FOLDER(refuses_a_folder_and_a_missing_file),
      IN_FOLDER(accepts_nan_scalars_and_empty_tensors),
      IN_FOLDER(gives_no_memory_when_any_allocation_fails),
      IN_FOLDER(writes_the_same_aligned_bytes_every_time),
      IN_FOLDER(reads_back_what_it_wrote),
      IN_FOLDER(refuses_to_write_what_no_reader_would_take),
      IN_FOLDER(refuses_metadata_that_repeat_or_are_too_long),
      IN_FOLDER(writes_nothing_into_a_folder_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
