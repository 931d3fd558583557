/*
 * test_op_file.c: the frame of op definitions, and the embedded built-ins.
 */
#include "specs/op_file.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

static stg_status parse(struct stg_arena *arena, const char *text,
                        const struct stg_op_decl **ret_decl, stg_error *err) {
  return stg_op_decl_parse(arena, "ops/x.json", text, strlen(text), ret_decl, err);
}

static void reads_a_whole_definition(void **state) {
  (void)state;
  static const char text[] =
      "{\"op\": \"my_op\", \"vectors\": [\"u\", \"v\"], \"note\": \"why\","
      " \"params\": {\"max\": {\"default\": \"inf\"}, \"scale\": {}, \"min\": {\"default\": -1.5}},"
      " \"require\": [\"min <= max\"], \"body\": [\"p = dot(h, v)\", \"h += p * u\"]}";
  struct stg_arena arena = {0};
  const struct stg_op_decl *op = NULL;
  assert_int_equal(parse(&arena, text, &op, NULL), STG_OK);
  assert_string_equal(op->file, "ops/x.json");
  assert_string_equal(op->name, "my_op");
  assert_int_equal(op->n_vectors, 2);
  assert_string_equal(op->vectors[1], "v");
  assert_int_equal(op->n_params, 3);
  assert_string_equal(op->params[0].name, "max");
  assert_true(op->params[0].has_default && op->params[0].default_value == INFINITY);
  assert_string_equal(op->params[1].name, "scale");
  assert_false(op->params[1].has_default);
  assert_true(op->params[2].default_value == -1.5f);
  assert_int_equal(op->n_require, 1);
  assert_string_equal(op->require[0], "min <= max");
  assert_int_equal(op->n_body, 2);
  assert_string_equal(op->body[1], "h += p * u");
  assert_null(op->output);
  stg_arena_finish(&arena);
}

static void needs_only_a_name_and_a_body(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op_decl *op = NULL;
  assert_int_equal(parse(&arena, "{\"op\": \"x\", \"body\": [\"h = 2 * h\"]}", &op, NULL), STG_OK);
  assert_int_equal(op->n_vectors + op->n_params + op->n_require, 0);
  stg_arena_finish(&arena);
}

static void rejects_what_is_not_a_definition(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *message;
  } cases[] = {
      {"[]", "ops/x.json: expected an object, found an array"},
      {"{\"body\": [\"h = h\"]}", "ops/x.json: 'op' is missing"},
      {"{\"op\": 3, \"body\": [\"h = h\"]}", "ops/x.json: op: expected a string, found 3"},
      {"{\"op\": \"My-Op\", \"body\": [\"h = h\"]}",
       "ops/x.json: op: 'My-Op' is not a name; write a lower-case identifier of at most 63 "
       "characters"},
      {"{\"op\": \"2x\", \"body\": [\"h = h\"]}",
       "ops/x.json: op: '2x' is not a name; write a lower-case identifier of at most 63 "
       "characters"},
      {"{\"op\": \"x\", \"boddy\": []}",
       "ops/x.json: boddy: unknown member; allowed: 'op', 'note', 'vectors', 'params', 'require', "
       "'body', 'output'"},
      {"{\"op\": \"x\", \"body\": []}",
       "ops/x.json: 'body' has no statement; write at least one, as \"h += v\""},
      {"{\"op\": \"x\"}", "ops/x.json: 'body' has no statement; write at least one, as \"h += v\""},
      {"{\"op\": \"x\", \"body\": \"h = h\"}",
       "ops/x.json: body: expected an array, found \"h = h\""},
      {"{\"op\": \"x\", \"body\": [\"h = h\", 4]}",
       "ops/x.json: body[1]: expected a string, found 4"},
      {"{\"op\": \"x\", \"vectors\": [\"a\",\"b\",\"c\",\"d\",\"e\"], \"body\": [\"h = h\"]}",
       "ops/x.json: vectors: 5 entries; at most 4"},
      {"{\"op\": \"x\", \"vectors\": [\"a\",\"b\",\"a\"], \"body\": [\"h = h\"]}",
       "ops/x.json: vectors[2]: vector 'a' is declared twice; rename one"},
      {"{\"op\": \"x\", \"vectors\": [\"op\"], \"body\": [\"h = h\"]}",
       "ops/x.json: vectors[0]: 'op' names the op itself; choose another name"},
      {"{\"op\": \"x\", \"vectors\": [\"a\"], \"params\": {\"a\": {}}, \"body\": [\"h = h\"]}",
       "ops/x.json: params.a: 'a' is a vector and a parameter; rename one"},
      {"{\"op\": \"x\", \"params\": {\"a\": 1}, \"body\": [\"h = h\"]}",
       "ops/x.json: params.a: expected an object, found 1"},
      {"{\"op\": \"x\", \"params\": {\"a\": {\"default\": \"big\"}}, \"body\": [\"h = h\"]}",
       "ops/x.json: params.a.default: expected a number, \"inf\" or \"-inf\", found \"big\""},
      {"{\"op\": \"x\", \"params\": {\"a\": {\"min\": 0}}, \"body\": [\"h = h\"]}",
       "ops/x.json: params.a.min: unknown member; allowed: 'default'"},
      {"{\"op\": \"x\", \"params\": {\"a\": {}, \"b\": {}, \"c\": {}, \"d\": {}, \"e\": {}, \"f\": "
       "{}, "
       "\"g\": {}, \"i\": {}, \"j\": {}}, \"body\": [\"h = h\"]}",
       "ops/x.json: params: 9 parameters; at most 8"},
      {"{\"op\": \"x\", \"note\": 1, \"body\": [\"h = h\"]}",
       "ops/x.json: note: expected a string, found 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct stg_arena arena = {0};
    const struct stg_op_decl *op = NULL;
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(parse(&arena, cases[i].text, &op, &err), STG_E_FORMAT);
    assert_string_equal(err.message, cases[i].message);
    assert_null(op);
    stg_arena_finish(&arena);
  }
}

static void an_op_has_a_body_or_an_output(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op_decl *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status =
      parse(&arena, "{\"op\": \"x\", \"vectors\": [\"v\"], \"output\": \"dot(h, v)\"}", &op, &err);
  assert_int_equal(status, STG_OK);
  assert_string_equal(op->output, "dot(h, v)");
  assert_int_equal(op->n_body, 0);
  status = parse(&arena, "{\"op\": \"x\", \"body\": [\"h = h\"], \"output\": \"1\"}", &op, &err);
  assert_int_equal(status, STG_E_FORMAT);
  assert_string_equal(err.message, "ops/x.json: 'body' and 'output'; an op has one of them");
  status = parse(&arena, "{\"op\": \"x\", \"output\": [\"1\"]}", &op, &err);
  assert_int_equal(status, STG_E_FORMAT);
  assert_string_equal(err.message, "ops/x.json: output: expected a string, found an array");
  stg_arena_finish(&arena);
}

static void bounds_the_statements_and_their_text(void **state) {
  (void)state;
  struct stg_strbuf text = {0};
  struct stg_arena arena = {0};
  const struct stg_op_decl *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_str(&text, "{\"op\": \"x\", \"body\": [\"h = h\"");
  for (int i = 0; i < STG_OP_FILE_MAX_STATEMENTS; i++) {
    stg_strbuf_str(&text, ", \"h = h\"");
  }
  stg_strbuf_str(&text, "]}");
  assert_int_equal(parse(&arena, stg_strbuf_text(&text), &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "ops/x.json: body: 33 entries; at most 32");
  stg_strbuf_finish(&text);

  stg_strbuf_str(&text, "{\"op\": \"x\", \"body\": [\"");
  for (int i = 0; i < STG_OP_FILE_MAX_TEXT_BYTES; i++) {
    stg_strbuf_char(&text, ' ');
  }
  stg_strbuf_str(&text, "\"]}");
  assert_int_equal(parse(&arena, stg_strbuf_text(&text), &op, &err), STG_OK);
  text.data[strlen("{\"op\": \"x\", \"body\": [\"")] = '\\'; /* "\ " is no escape */
  assert_int_equal(parse(&arena, stg_strbuf_text(&text), &op, &err), STG_E_FORMAT);
  stg_strbuf_finish(&text);

  stg_strbuf_str(&text, "{\"op\": \"x\", \"require\": [\"1 > 0\"], \"body\": [\"");
  for (int i = 0; i < STG_OP_FILE_MAX_TEXT_BYTES; i++) {
    stg_strbuf_char(&text, ' ');
  }
  stg_strbuf_str(&text, "\"]}");
  assert_int_equal(parse(&arena, stg_strbuf_text(&text), &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message,
                      "ops/x.json: 4101 bytes of statements and 'require'; at most 4096");
  stg_strbuf_finish(&text);
  stg_arena_finish(&arena);
}

static void embeds_the_builtins_in_the_order_of_their_codes(void **state) {
  (void)state;
  static const char *const names[] = {"add",           "ablation",         "projection_cap",
                                      "add_keep_norm", "add_norm_matched", "gated_add",
                                      "swap",          "scale_norm",       "probe"};
  static const size_t vectors[] = {1, 1, 1, 1, 1, 2, 2, 0, 1};
  struct stg_arena arena = {0};
  assert_int_equal(stg_builtin_op_count(), sizeof names / sizeof *names);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const struct stg_op_decl *op = NULL;
    assert_int_equal(stg_builtin_op_decl(&arena, i, &op, NULL), STG_OK);
    assert_string_equal(op->name, names[i]);
    assert_string_equal(stg_builtin_op(i)->stem, names[i]);
    assert_int_equal(op->n_vectors, vectors[i]);
    assert_non_null(strstr(op->file, names[i]));
    assert_true(stg_op_name_is_builtin(names[i]));
  }
  stg_arena_finish(&arena);
}

static void other_names_are_free(void **state) {
  (void)state;
  assert_false(stg_op_name_is_builtin("soft_cap"));
  assert_false(stg_op_name_is_builtin("Add"));
}

static void reports_every_failed_allocation_and_leaks_nothing(void **state) {
  (void)state;
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  while (status != STG_OK) {
    struct stg_arena arena = {0};
    const struct stg_op_decl *op = NULL;
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(failures + 1);
    status = stg_builtin_op_decl(&arena, 2, &op, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    failures += status != STG_OK;
    stg_arena_finish(&arena);
  }
  assert_true(failures >= 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_whole_definition),
      cmocka_unit_test(needs_only_a_name_and_a_body),
      cmocka_unit_test(rejects_what_is_not_a_definition),
      cmocka_unit_test(an_op_has_a_body_or_an_output),
      cmocka_unit_test(bounds_the_statements_and_their_text),
      cmocka_unit_test(embeds_the_builtins_in_the_order_of_their_codes),
      cmocka_unit_test(other_names_are_free),
      cmocka_unit_test(reports_every_failed_allocation_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
