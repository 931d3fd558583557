/*
 * test_kernel_text.c: a request made of whatever a family wrote.
 */
#include "engine/kernel_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

static void write_text(struct stg_kernel_text *text) {
  *text = (struct stg_kernel_text){
      .rule = {.threads = 64, .rows_per_block = 3, .stage_bytes = 5, .wide_stage_bytes = 7}};
  stg_strbuf_str(&text->signature, "other v1 | sm_90");
  stg_strbuf_str(&text->source, "source");
  stg_strbuf_str(&text->prelude, "prelude");
}

static void a_request_has_what_was_written_and_the_rule(void **state) {
  (void)state;
  struct stg_kernel_text text;
  struct stg_key key;
  write_text(&text);
  assert_int_equal(STG_OK, stg_kernel_text_complete(&text, "stg_other", "sm_90", "env:-G", NULL));
  const struct stg_kernel_request *request = &text.request;
  assert_string_equal("other v1 | sm_90", request->signature);
  assert_string_equal("stg_other", request->name);
  assert_string_equal("source", request->source);
  assert_string_equal("prelude", request->prelude);
  assert_string_equal("sm_90", request->arch);
  assert_int_equal(1, request->n_options);
  assert_string_equal("env:-G", request->options[0]);
  assert_int_equal(64, request->threads);
  assert_int_equal(3, request->rows_per_block);
  assert_int_equal(5, request->stage_bytes);
  assert_int_equal(7, request->wide_stage_bytes);
  assert_int_equal(STG_OK, stg_kernel_request_key(request, &key, NULL));
  assert_true(stg_key_equal(key, text.key));
  stg_kernel_text_finish(&text);
}

static void without_options_there_are_none(void **state) {
  (void)state;
  struct stg_kernel_text text;
  write_text(&text);
  assert_int_equal(STG_OK, stg_kernel_text_complete(&text, "stg_other", "sm_90", NULL, NULL));
  assert_int_equal(0, text.request.n_options);
  stg_kernel_text_finish(&text);
}

static void on_the_cpu_the_signature_is_all(void **state) {
  (void)state;
  struct stg_kernel_text text = {0};
  stg_strbuf_str(&text.signature, "other v1 | cpu");
  assert_true(stg_arch_is_cpu("cpu"));
  assert_false(stg_arch_is_cpu("sm_90"));
  assert_int_equal(STG_OK, stg_kernel_text_complete(&text, "stg_other", "cpu", "env:-G", NULL));
  assert_string_equal("other v1 | cpu", text.request.signature);
  assert_null(text.request.source);
  assert_null(text.request.name);
  assert_true(stg_key_equal(stg_key_of("other v1 | cpu", strlen("other v1 | cpu")), text.key));
  stg_kernel_text_finish(&text);
}

/* Whichever of the three ran out of memory while it was written. */
static void says_so_when_memory_ran_out(void **state) {
  (void)state;
  for (int failed = 0; failed < 3; failed++) {
    struct stg_kernel_text text;
    stg_error error = STG_ERROR_INIT;
    write_text(&text);
    struct stg_strbuf *parts[] = {&text.signature, &text.source, &text.prelude};
    stg_strbuf_finish(parts[failed]);
    stg_alloc_fail_at(1);
    stg_strbuf_str(parts[failed], "more");
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY,
                     stg_kernel_text_complete(&text, "stg_other", "sm_90", NULL, &error));
    assert_string_equal("out of memory: a text of 0 bytes cannot grow", error.message);
    stg_kernel_text_finish(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_has_what_was_written_and_the_rule),
      cmocka_unit_test(without_options_there_are_none),
      cmocka_unit_test(on_the_cpu_the_signature_is_all),
      cmocka_unit_test(says_so_when_memory_ran_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
