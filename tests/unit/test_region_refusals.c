/*
 * test_region_refusals.c: calls of regions that are no calls, and what is said of them; on the CPU,
 * where they are checked as on a device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <steergraph/steergraph.h>

static stg_engine *engine;
static int word;

static stg_status record(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  size_t *calls = user;
  (void)stream;
  (void)pointers;
  (void)reterr;
  *calls += 1;
  return STG_OK;
}

static stg_status fail_silently(void *user, stg_stream stream, void *const *pointers,
                                stg_error *reterr) {
  (void)user;
  (void)stream;
  (void)pointers;
  (void)reterr;
  return STG_E_IO;
}

static size_t n_calls;

static stg_region_call good_call(void) {
  return (stg_region_call){.struct_size = sizeof(stg_region_call),
                           .signature = "step",
                           .record = record,
                           .user = &n_calls};
}

static void refused(const stg_region_call *call, const char *message) {
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_region_run(engine, call, NULL, NULL, &error));
  assert_string_equal(message, error.message);
  assert_int_equal(0, n_calls);
}

static void a_call_without_its_parts_is_refused(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  stg_region_call call = good_call();
  char text[200];
  refused(NULL, "stg_region_run: engine or call is NULL");
  assert_int_equal(STG_E_INVALID, stg_region_run(NULL, &call, NULL, NULL, &error));
  call.record = NULL;
  refused(&call, "stg_region_run: record is NULL");
  call = good_call();
  call.struct_size = 8;
  snprintf(text, sizeof text,
           "stg_region_run: struct_size is 8, and of ret_facts %zu; this library's are %zu and %zu",
           sizeof(stg_region_facts), sizeof(stg_region_call), sizeof(stg_region_facts));
  refused(&call, text);
  call = good_call();
  stg_region_facts facts = {.struct_size = 3};
  assert_int_equal(STG_E_INVALID, stg_region_run(engine, &call, NULL, &facts, &error));
  assert_non_null(strstr(error.message, "and of ret_facts 3;"));
  call.seq = -2;
  refused(&call, "stg_region_run: batch 0, seq -2 or rows 0 is negative");
}

static void a_signature_that_is_none_is_refused(void **state) {
  (void)state;
  char longest[STG_REGION_MAX_SIGNATURE + 2];
  stg_error error = STG_ERROR_INIT;
  stg_region_call call = good_call();
  call.signature = NULL;
  refused(&call, "stg_region_run: signature is NULL; write 1 to 512 characters");
  call.signature = "";
  refused(&call, "stg_region_run: signature is empty; write 1 to 512 characters");
  call.signature = "a | b";
  refused(&call,
          "stg_region_run: signature: character 2 is 0x7c; write printable ASCII without '|'");
  call.signature = "\xc3\xa9";
  refused(&call,
          "stg_region_run: signature: character 0 is 0xc3; write printable ASCII without '|'");
  call.signature = "a\n";
  refused(&call,
          "stg_region_run: signature: character 1 is 0x0a; write printable ASCII without '|'");
  memset(longest, 'x', sizeof longest);
  longest[STG_REGION_MAX_SIGNATURE + 1] = '\0';
  call.signature = longest;
  refused(&call, "stg_region_run: signature is too long; write 1 to 512 characters");
  longest[STG_REGION_MAX_SIGNATURE] = '\0';
  assert_int_equal(STG_OK, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_int_equal(1, n_calls);
  assert_int_equal(STG_OK, stg_region_forget(engine, longest, &error));
  n_calls = 0;
  assert_int_equal(STG_E_INVALID, stg_region_forget(engine, "|", &error));
  assert_string_equal(
      "stg_region_forget: signature: character 0 is 0x7c; write printable ASCII without '|'",
      error.message);
  assert_int_equal(STG_E_INVALID, stg_region_forget(NULL, "a", &error));
  assert_string_equal("stg_region_forget: engine is NULL", error.message);
}

static void a_callback_that_fails_without_a_message_has_one(void **state) {
  (void)state;
  stg_error error = {.message = "of another call"};
  stg_region_call call = good_call();
  call.record = fail_silently;
  assert_int_equal(STG_E_IO, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_int_equal(STG_E_IO, error.code);
  assert_string_equal("region 'step': its callback failed without a message", error.message);
  assert_int_equal(STG_E_IO, stg_region_run(engine, &call, NULL, NULL, NULL));
}

static void pointers_that_are_none_are_refused(void **state) {
  (void)state;
  stg_region_pointer pointers[2] = {{.address = NULL}, {.address = &word, .bytes = 4}};
  stg_region_call call = good_call();
  call.n_pointers = 2;
  refused(&call, "stg_region_run: n_pointers is 2 and pointers NULL; there are at most 1024");
  call.pointers = pointers;
  call.n_pointers = 1025;
  refused(&call, "stg_region_run: n_pointers is 1025 and pointers given; there are at most 1024");
  call.n_pointers = 2;
  pointers[1].moves = (stg_region_moves)5;
  refused(&call, "stg_region_run: pointers[1].moves 5 is unknown");
  pointers[1].moves = STG_REGION_IN;
  pointers[1].bytes = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_non_null(strstr(error.message, "pointers[1] is 0x"));
  assert_non_null(strstr(error.message, " of 0 bytes, and to be copied"));
  pointers[1].bytes = 4;
  pointers[0] = (stg_region_pointer){.bytes = 4, .moves = STG_REGION_OUT};
  assert_int_equal(STG_E_INVALID, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_non_null(strstr(error.message, "stg_region_run: pointers[0] is "));
  pointers[0].moves = STG_REGION_FIXED; /* NULL is an address like others there */
  assert_int_equal(STG_OK, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_int_equal(1, n_calls);
}

static stg_status launch(void *user, stg_stream stream, stg_error *reterr) {
  return record(user, stream, NULL, reterr);
}

static void refused_owner(const stg_region_owner *owner, const char *message) {
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_region_adopt(engine, owner, NULL, &error));
  assert_string_equal(message, error.message);
}

static void an_owner_without_its_parts_is_refused(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  char text[200];
  const stg_region_owner good = {.struct_size = sizeof good,
                                 .signature = "step",
                                 .launch = launch,
                                 .user = &n_calls,
                                 .token = 1};
  stg_region_owner owner = good;
  refused_owner(NULL, "stg_region_adopt: engine or owner is NULL");
  assert_int_equal(STG_E_INVALID, stg_region_adopt(NULL, &owner, NULL, &error));
  assert_string_equal("stg_region_adopt: engine or owner is NULL", error.message);
  owner.struct_size = 8;
  snprintf(text, sizeof text, "stg_region_adopt: struct_size is 8; this library's is %zu",
           sizeof owner);
  refused_owner(&owner, text);
  owner = good;
  owner.launch = NULL;
  refused_owner(&owner, "stg_region_adopt: launch is NULL");
  owner = good;
  owner.signature = "";
  refused_owner(&owner, "stg_region_adopt: signature is empty; write 1 to 512 characters");
  owner = good;
  owner.rows = -1;
  refused_owner(&owner, "stg_region_adopt: batch 0, seq 0 or rows -1 is negative");
  assert_int_equal(0, n_calls);
}

static void a_replay_without_its_parts_is_refused(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_region_replay(NULL, "step", 0, 0, 0, NULL, &error));
  assert_string_equal("stg_region_replay: engine is NULL", error.message);
  assert_int_equal(STG_E_INVALID, stg_region_replay(engine, NULL, 0, 0, 0, NULL, &error));
  assert_string_equal("stg_region_replay: signature is NULL; write 1 to 512 characters",
                      error.message);
  assert_int_equal(STG_E_INVALID, stg_region_replay(engine, "step", -4, 0, 0, NULL, &error));
  assert_string_equal("stg_region_replay: batch -4, seq 0 or rows 0 is negative", error.message);
}

static void tokens_without_a_place_are_refused(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  uint64_t tokens[1];
  size_t count = 3;
  const struct {
    stg_engine *engine;
    uint64_t *tokens;
    size_t capacity;
    size_t *count;
  } calls[] = {
      {NULL, tokens, 1, &count},
      {engine, NULL, 1, &count},
      {engine, tokens, 0, &count},
      {engine, tokens, 1, NULL},
  };
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    char text[120];
    assert_int_equal(STG_E_INVALID, stg_region_dropped(calls[i].engine, calls[i].tokens,
                                                       calls[i].capacity, calls[i].count, &error));
    snprintf(text, sizeof text,
             "stg_region_dropped: engine, ret_tokens or ret_count is NULL, or capacity %zu",
             calls[i].capacity);
    assert_string_equal(text, error.message);
    assert_int_equal(3, count);
  }
  assert_int_equal(STG_OK, stg_region_dropped(engine, tokens, 1, &count, &error));
  assert_int_equal(0, count);
}

static int open_engine(void **state) {
  stg_options options;
  (void)state;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  n_calls = 0;
  return stg_engine_create(&options, &engine, NULL) == STG_OK ? 0 : -1;
}

static int close_engine(void **state) {
  (void)state;
  return stg_engine_destroy(engine, NULL) == STG_OK ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_call_without_its_parts_is_refused, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(a_signature_that_is_none_is_refused, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(a_callback_that_fails_without_a_message_has_one, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(pointers_that_are_none_are_refused, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(an_owner_without_its_parts_is_refused, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(a_replay_without_its_parts_is_refused, open_engine,
                                      close_engine),
      cmocka_unit_test_setup_teardown(tokens_without_a_place_are_refused, open_engine,
                                      close_engine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
