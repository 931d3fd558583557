/*
 * test_kernel.c: what enters the request key and what does not.
 */
#include "runtime/kernel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/kernel_fixture.h"

static struct stg_key key_of(const struct stg_kernel_request *request) {
  struct stg_key key = {0};
  assert_int_equal(stg_kernel_request_key(request, &key, NULL), STG_OK);
  return key;
}

static void assert_other_key(const struct stg_kernel_request *request) {
  struct stg_kernel_request base = fixture_request();
  assert_false(stg_key_equal(key_of(&base), key_of(request)));
}

static void gives_every_factor_its_say(void **state) {
  (void)state;
  static const char *const other_option[] = {"-std=c++17", "--fmad=true"};
  static const char *const swapped[] = {"--fmad=false", "-std=c++17"};
  struct stg_kernel_request request = fixture_request();
  request.signature = "steer v1 | ops=add chain<=2 | sm_90";
  assert_other_key(&request);
  request = fixture_request();
  request.name = "fixture_shared";
  assert_other_key(&request);
  request = fixture_request();
  request.prelude = "// prelude \n";
  assert_other_key(&request);
  request = fixture_request();
  request.source = "// Source\n";
  assert_other_key(&request);
  request = fixture_request();
  request.arch = "sm_90a";
  assert_other_key(&request);
  request = fixture_request();
  request.options = other_option;
  assert_other_key(&request);
  request.options = swapped;
  assert_other_key(&request);
  request = fixture_request();
  request.n_options = 1;
  assert_other_key(&request);
}

static void tells_text_that_moves_between_factors_apart(void **state) {
  (void)state;
  static const char *const joined[] = {"-std=c++17--fmad=false"};
  struct stg_kernel_request request = fixture_request();
  request.prelude = "";
  request.source = "// prelude\n// source\n";
  assert_other_key(&request);
  request = fixture_request();
  request.options = joined;
  request.n_options = 1;
  assert_other_key(&request);
}

static void leaves_the_launch_rule_out(void **state) {
  (void)state;
  struct stg_kernel_request base = fixture_request();
  struct stg_kernel_request request = fixture_request();
  request.threads = 512;
  request.rows_per_block = 1;
  request.stage_bytes = 1024;
  request.wide_stage_bytes = 1024;
  assert_true(stg_key_equal(key_of(&base), key_of(&request)));
}

static void leaves_home_folder_and_environment_out(void **state) {
  (void)state;
  struct stg_kernel_request request = fixture_request();
  struct stg_key before = key_of(&request);
  const char *home = getenv("HOME");
  char *saved = home == NULL ? NULL : stg_strdup(home);
  assert_int_equal(setenv("HOME", "/nonexistent", 1), 0);
  assert_int_equal(setenv("LC_ALL", "de_DE.UTF-8", 1), 0);
  assert_int_equal(chdir("/"), 0);
  struct stg_key after = key_of(&request);
  if (saved != NULL) {
    assert_int_equal(setenv("HOME", saved, 1), 0);
  }
  stg_free(saved);
  assert_true(stg_key_equal(before, after));
}

static void is_the_same_on_every_machine(void **state) {
  (void)state;
  struct stg_kernel_request request = fixture_request();
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(key_of(&request), hex);
  /* a change here makes every cache out there a miss: raise STG_MATERIAL_FORMAT with it */
  assert_string_equal(hex, "287a168c7cb65bcd1f9a49d10c837e81");
}

static void names_the_factors_in_its_material(void **state) {
  (void)state;
  /* three options of every compile, two of the request */
  static const char *const names[] = {"format", "signature", "kernel", "prelude",
                                      "source", "option",    "option", "option",
                                      "option", "option",    "arch"};
  struct stg_kernel_request request = fixture_request();
  struct stg_strbuf material = {0};
  struct stg_material_view field = {0};
  size_t cursor = 0;
  stg_kernel_material(&request, &material);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_true(stg_material_next(material.data, material.len, &cursor, &field));
    assert_string_equal(field.name, names[i]);
  }
  assert_int_equal(cursor, material.len);
  stg_strbuf_finish(&material);
}

static void knows_its_material_where_it_stands(void **state) {
  (void)state;
  struct stg_kernel_request request = fixture_request();
  struct stg_strbuf material = {0};
  stg_kernel_material(&request, &material);
  assert_true(stg_kernel_is_material(&request, material.data, material.len));
  for (size_t len = 0; len < material.len; len++) {
    assert_false(stg_kernel_is_material(&request, material.data, len));
  }
  for (size_t i = 0; i < material.len; i++) {
    material.data[i] ^= 1;
    assert_false(stg_kernel_is_material(&request, material.data, material.len));
    material.data[i] ^= 1;
  }
  assert_true(stg_kernel_is_material(&request, material.data, material.len));
  stg_strbuf_char(&material, 'x');
  assert_false(stg_kernel_is_material(&request, material.data, material.len));
  stg_strbuf_finish(&material);
}

/* One kernel's material is no other's, also where one more or fewer option is all there is. */
static void knows_the_material_of_others(void **state) {
  (void)state;
  static const char *const more[] = {"-std=c++17", "--fmad=false", "--x"};
  struct stg_kernel_request request = fixture_request();
  struct stg_strbuf material = {0};
  stg_kernel_material(&request, &material);
  request.options = more;
  assert_true(stg_kernel_is_material(&request, material.data, material.len));
  request.n_options = 3;
  assert_false(stg_kernel_is_material(&request, material.data, material.len));
  request.n_options = 1;
  assert_false(stg_kernel_is_material(&request, material.data, material.len));
  request = fixture_request();
  request.source = "// source";
  assert_false(stg_kernel_is_material(&request, material.data, material.len));
  request = fixture_request();
  request.arch = "sm_90a";
  assert_false(stg_kernel_is_material(&request, material.data, material.len));
  stg_strbuf_finish(&material);
}

static void takes_the_key_that_its_caller_has(void **state) {
  (void)state;
  const struct stg_key known = {.high = 1, .low = 2};
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {0};
  request.key = &known;
  stg_alloc_fail_at(1); /* nothing is put together for it */
  stg_status status = stg_kernel_request_key(&request, &key, NULL);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_OK);
  assert_true(stg_key_equal(key, known));
}

static void says_when_memory_is_out(void **state) {
  (void)state;
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {.high = 7};
  stg_error err = STG_ERROR_INIT;
  stg_alloc_fail_at(1);
  stg_status status = stg_kernel_request_key(&request, &key, &err);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_E_NO_MEMORY);
  assert_int_equal(err.code, STG_E_NO_MEMORY);
  assert_int_equal(key.high, 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_every_factor_its_say),
      cmocka_unit_test(tells_text_that_moves_between_factors_apart),
      cmocka_unit_test(leaves_the_launch_rule_out),
      cmocka_unit_test(leaves_home_folder_and_environment_out),
      cmocka_unit_test(is_the_same_on_every_machine),
      cmocka_unit_test(names_the_factors_in_its_material),
      cmocka_unit_test(knows_its_material_where_it_stands),
      cmocka_unit_test(knows_the_material_of_others),
      cmocka_unit_test(takes_the_key_that_its_caller_has),
      cmocka_unit_test(says_when_memory_is_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
