/*
 * test_entry.c: a cache entry comes back as it went in, or not at all.
 */
#include "runtime/entry.h"

#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/cjson_memory.h"
#include "tests/support/kernel_fixture.h"

#define HEADER_BYTES 64
#define FOOTER_BYTES 16

/* Everything that one entry needs; a fixture of each test. */
struct sealed {
  struct stg_strbuf bytes;
  struct stg_arena arena;
};

static int setup(void **state) {
  static struct sealed sealed;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  sealed = (struct sealed){0};
  *state = &sealed;
  return stg_entry_encode(&request, &image, &sealed.bytes, NULL) == STG_OK ? 0 : -1;
}

static int teardown(void **state) {
  struct sealed *sealed = *state;
  stg_strbuf_finish(&sealed->bytes);
  stg_arena_finish(&sealed->arena);
  return 0;
}

/* Make the checksum right again after a change. */
static void reseal(struct sealed *sealed) {
  size_t size = sealed->bytes.len - FOOTER_BYTES;
  struct stg_key sum = stg_key_of(sealed->bytes.data, size);
  for (size_t i = 0; i < 8; i++) {
    sealed->bytes.data[size + i] = (char)(sum.high >> (56 - 8 * i));
    sealed->bytes.data[size + 8 + i] = (char)(sum.low >> (56 - 8 * i));
  }
}

/* Replace text of the entry by text of the same length and seal it again. */
static void forge(struct sealed *sealed, size_t from, const char *old, const char *replacement) {
  size_t len = strlen(old);
  assert_int_equal(len, strlen(replacement));
  for (size_t i = from; i + len <= sealed->bytes.len; i++) {
    if (memcmp(sealed->bytes.data + i, old, len) == 0) {
      memcpy(sealed->bytes.data + i, replacement, len);
      reseal(sealed);
      return;
    }
  }
  fail_msg("'%s' is not in the entry", old);
}

static stg_status decode(struct sealed *sealed, size_t size, stg_error *err) {
  struct stg_entry entry = {0};
  memset(err, 0, sizeof *err);
  stg_status status = stg_entry_decode(sealed->bytes.data, size, &sealed->arena, &entry, err);
  if (status != STG_OK) {
    assert_null(entry.cubin);
  }
  return status;
}

static void assert_refused(struct sealed *sealed, stg_status status, const char *message) {
  stg_error err;
  assert_int_equal(decode(sealed, sealed->bytes.len, &err), status);
  assert_string_equal(err.message, message);
}

/* Where the metadata begin. */
static size_t metadata_at(const struct sealed *sealed) {
  const unsigned char *size = (const unsigned char *)sealed->bytes.data + 32;
  return HEADER_BYTES + (size_t)(size[0] | size[1] << 8);
}

static void comes_back_as_it_went_in(void **state) {
  struct sealed *sealed = *state;
  struct stg_kernel_request request = fixture_request();
  const struct stg_embedded_file *cubin = test_cubin("cuda13_sm_90");
  struct stg_strbuf material = {0};
  struct stg_entry entry = {0};
  struct stg_key key = {0};
  stg_kernel_material(&request, &material);
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  assert_int_equal(
      stg_entry_decode(sealed->bytes.data, sealed->bytes.len, &sealed->arena, &entry, NULL),
      STG_OK);
  assert_true(stg_key_equal(entry.key, key));
  assert_int_equal(entry.material_size, material.len);
  assert_memory_equal(entry.material, material.data, material.len);
  assert_int_equal(entry.cubin_size, cubin->len);
  assert_memory_equal(entry.cubin, cubin->text, cubin->len);
  assert_int_equal(entry.source_size, strlen("// prelude\n// source\n"));
  assert_memory_equal(entry.source, "// prelude\n// source\n", entry.source_size);
  assert_string_equal(entry.meta.signature, request.signature);
  assert_string_equal(entry.meta.family, "steer");
  assert_string_equal(entry.meta.kernel, "fixture_plain");
  assert_string_equal(entry.meta.arch, "sm_90");
  assert_string_equal(entry.meta.compiler, "nvrtc-13.0.88");
  assert_true(entry.meta.compile_ms == 12.5);
  assert_int_equal(entry.meta.threads, 256);
  assert_int_equal(entry.meta.rows_per_block, 8);
  assert_int_equal(entry.meta.stage_bytes, 2048);
  assert_int_equal(entry.meta.wide_stage_bytes, 8192);
  assert_int_equal(entry.meta.cubin.registers, 8);
  assert_int_equal(entry.meta.cubin.sm, 90);
  assert_int_equal(entry.meta.cubin.param_bytes, 12);
  assert_true(entry.meta.created_unix <= (int64_t)time(NULL));
  assert_true(entry.meta.created_unix > (int64_t)time(NULL) - 60);
  stg_strbuf_finish(&material);
}

static void has_a_header_that_other_tools_can_read(void **state) {
  struct sealed *sealed = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {0};
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  assert_memory_equal(sealed->bytes.data, "STGCACHE\2\0\0\0\0\0\0\0", 16);
  for (unsigned i = 0; i < 8; i++) {
    assert_int_equal((unsigned char)sealed->bytes.data[16 + i], key.high >> (56 - 8 * i) & 0xff);
    assert_int_equal((unsigned char)sealed->bytes.data[24 + i], key.low >> (56 - 8 * i) & 0xff);
  }
  assert_memory_equal(sealed->bytes.data + HEADER_BYTES,
                      "format\0\1\0\0\0\0\0\0\0"
                      "2",
                      16);
  assert_memory_equal(sealed->bytes.data + metadata_at(sealed), "{\"signature\":\"steer v1", 22);
}

static void keeps_awkward_text_in_its_metadata(void **state) {
  struct sealed *sealed = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  struct stg_strbuf bytes = {0};
  struct stg_entry entry = {0};
  request.signature = "tab\t quote\" slash\\ \xc3\xa9 \x01";
  request.source = "";
  image.compile_ms = 0.1;
  assert_int_equal(stg_entry_encode(&request, &image, &bytes, NULL), STG_OK);
  assert_int_equal(stg_entry_decode(bytes.data, bytes.len, &sealed->arena, &entry, NULL), STG_OK);
  assert_string_equal(entry.meta.signature, request.signature);
  assert_string_equal(entry.meta.family, "tab\t");
  assert_true(entry.meta.compile_ms == 0.1);
  stg_strbuf_finish(&bytes);
}

static void is_refused_with_any_bit_flipped(void **state) {
  struct sealed *sealed = *state;
  for (size_t bit = 0; bit < 8 * sealed->bytes.len; bit++) {
    stg_error err;
    char *byte = &sealed->bytes.data[bit / 8];
    *byte = (char)(*byte ^ (1 << bit % 8));
    stg_status status = decode(sealed, sealed->bytes.len, &err);
    assert_int_equal(status, STG_E_CORRUPT);
    assert_true(err.message[0] != '\0');
    *byte = (char)(*byte ^ (1 << bit % 8));
  }
}

static void is_refused_at_any_other_length(void **state) {
  struct sealed *sealed = *state;
  stg_error err;
  for (size_t size = 0; size < sealed->bytes.len; size++) {
    assert_int_equal(decode(sealed, size, &err), STG_E_CORRUPT);
  }
  assert_int_equal(decode(sealed, 0, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "0 bytes, an entry has at least 80");
  stg_strbuf_char(&sealed->bytes, '\0');
  assert_refused(sealed, STG_E_CORRUPT, "1 bytes too many");
}

static void says_which_region_is_damaged(void **state) {
  struct sealed *sealed = *state;
  static const struct {
    size_t at; /* from the end where `from_end` */
    bool from_end;
    const char *message;
  } cases[] = {
      {0, false, "no cache entry: wrong magic"},
      {HEADER_BYTES + 20, false, "checksum does not match its bytes"},
      {FOOTER_BYTES + 100, true, "checksum does not match its bytes"},
      {1, true, "checksum does not match its bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t at = cases[i].from_end ? sealed->bytes.len - cases[i].at : cases[i].at;
    sealed->bytes.data[at] = (char)(sealed->bytes.data[at] ^ 0x10);
    assert_refused(sealed, STG_E_CORRUPT, cases[i].message);
    sealed->bytes.data[at] = (char)(sealed->bytes.data[at] ^ 0x10);
  }
}

static void is_refused_in_another_format(void **state) {
  struct sealed *sealed = *state;
  sealed->bytes.data[8] = 1;
  assert_refused(sealed, STG_E_CORRUPT, "checksum does not match its bytes");
  reseal(sealed);
  assert_refused(sealed, STG_E_UNSUPPORTED, "entry format 1, this version reads 2");
}

static void is_refused_with_unknown_flags(void **state) {
  struct sealed *sealed = *state;
  sealed->bytes.data[12] = 4;
  reseal(sealed);
  assert_refused(sealed, STG_E_CORRUPT, "unknown flags 0x4");
}

static void is_refused_when_sizes_wrap_around(void **state) {
  struct sealed *sealed = *state;
  memset(sealed->bytes.data + 40, 0xff, 8);
  reseal(sealed);
  stg_error err;
  assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "part 1 of 18446744073709551615 bytes does not fit in"));
}

static void is_refused_under_the_key_of_another_request(void **state) {
  struct sealed *sealed = *state;
  forge(sealed, HEADER_BYTES, "chain<=1", "chain<=2");
  assert_refused(sealed, STG_E_CORRUPT, "key does not match its material");
}

static void is_refused_when_metadata_disagree_with_the_key(void **state) {
  static const struct {
    const char *old, *replacement, *message;
  } cases[] = {
      {"chain<=1", "chain<=2", "key factor 'signature' is not what the entry holds"},
      {"\"arch\":\"sm_90\"", "\"arch\":\"sm_80\"", "key factor 'arch' is not what the entry holds"},
      {"\"family\":\"steer\"", "\"family\":\"stear\"",
       "family 'stear' is not the signature's first word"},
      {"fixture_plain", "fixture_plane", "key factor 'kernel' is not what the entry holds"},
      {"// source", "// Source", "key factor 'source' is not what the entry holds"},
      {"\"threads\":256", "\"threads\":-25",
       "metadata member 'threads' is of another type or out of range"},
      {"\"threads\":256", "\"threads\":2.5",
       "metadata member 'threads' is of another type or out of range"},
      {"\"threads\":256", "\"threadz\":256", "metadata member 'threads' is missing"},
      {"\"threads\":256", "\"threads\":[]6", "metadata is not JSON at byte "},
      {"\"compile_ms\":12.5", "\"compile_ms\":-2.5",
       "metadata member 'compile_ms' is of another type or out of range"},
      {"\"arch\":\"sm_90\"", "\"arch\":12345 6", "metadata is not JSON at byte "},
      {"{\"signature\":", "[\"signature\",", "metadata is not "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct sealed *sealed = *state;
    stg_error err;
    forge(sealed, metadata_at(sealed), cases[i].old, cases[i].replacement);
    assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_CORRUPT);
    if (strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0) {
      fail_msg("'%s' does not begin with '%s'", err.message, cases[i].message);
    }
    forge(sealed, metadata_at(sealed), cases[i].replacement, cases[i].old);
  }
}

static void is_refused_when_the_cubin_is_of_another_architecture(void **state) {
  struct sealed *sealed = *state;
  size_t cubin = sealed->bytes.len - FOOTER_BYTES - test_cubin("cuda13_sm_90")->len;
  sealed->bytes.data[cubin + 49] = 80; /* e_flags, CUDA 13 */
  reseal(sealed);
  assert_refused(sealed, STG_E_CORRUPT, "cubin is for sm_80, the key says sm_90");
}

static void is_refused_when_the_cubin_is_none(void **state) {
  struct sealed *sealed = *state;
  size_t cubin = sealed->bytes.len - FOOTER_BYTES - test_cubin("cuda13_sm_90")->len;
  sealed->bytes.data[cubin] = 'X';
  reseal(sealed);
  assert_refused(sealed, STG_E_CORRUPT, "no cubin: no ELF magic, first byte is 88");
}

static void is_not_made_of_a_cubin_that_does_not_answer_the_request(void **state) {
  (void)state;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_80", "nvrtc-13.0.88");
  struct stg_strbuf bytes = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_entry_encode(&request, &image, &bytes, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "cubin is for sm_80, the key says sm_90");
  image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  request.name = "other";
  assert_int_equal(stg_entry_encode(&request, &image, &bytes, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "cubin holds no kernel 'other'");
  request = fixture_request();
  request.arch = "compute_90";
  assert_int_equal(stg_entry_encode(&request, &image, &bytes, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "architecture 'compute_90' is not sm_NN");
  assert_int_equal(bytes.len, 0);
}

static void says_when_memory_is_out(void **state) {
  struct sealed *sealed = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_strbuf bytes = {0};
    stg_alloc_fail_at(nth);
    status = stg_entry_encode(&request, &image, &bytes, NULL);
    stg_alloc_fail_at(0);
    stg_strbuf_finish(&bytes);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 100);
  }
  stg_error err;
  stg_alloc_fail_at(1);
  status = decode(sealed, sealed->bytes.len, &err);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_E_NO_MEMORY);
}

/* cJSON says of both no more than that it failed. */
static void tells_metadata_that_memory_is_out_for_from_damaged_ones(void **state) {
  struct sealed *sealed = *state;
  stg_error err = STG_ERROR_INIT;
  stg_status status = STG_E_NO_MEMORY;
  for (size_t n = 0; status != STG_OK; n++) {
    cjson_memory_limit(n);
    status = decode(sealed, sealed->bytes.len, &err);
    cjson_memory_restore();
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_non_null(strstr(err.message, "the metadata of a cache entry"));
    }
    assert_true(n < 200);
  }
}

int main(void) {
#define SEALED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      SEALED(comes_back_as_it_went_in),
      SEALED(has_a_header_that_other_tools_can_read),
      SEALED(keeps_awkward_text_in_its_metadata),
      SEALED(is_refused_with_any_bit_flipped),
      SEALED(is_refused_at_any_other_length),
      SEALED(says_which_region_is_damaged),
      SEALED(is_refused_in_another_format),
      SEALED(is_refused_with_unknown_flags),
      SEALED(is_refused_when_sizes_wrap_around),
      SEALED(is_refused_under_the_key_of_another_request),
      SEALED(is_refused_when_metadata_disagree_with_the_key),
      SEALED(is_refused_when_the_cubin_is_of_another_architecture),
      SEALED(is_refused_when_the_cubin_is_none),
      SEALED(is_not_made_of_a_cubin_that_does_not_answer_the_request),
      SEALED(says_when_memory_is_out),
      SEALED(tells_metadata_that_memory_is_out_for_from_damaged_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
