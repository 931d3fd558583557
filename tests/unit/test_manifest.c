/*
 * test_manifest.c: manifests: what is read, in which order, what is written, and what is refused.
 */
#include "specs/manifest.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

#define HASH "0123456789abcdef0123456789abcdef"
#define NEXT_HASH "fffffffffffffffffffffffffffffff0"
#define LAST_HASH "ffffffffffffffffffffffffffffffff"

static void read_manifest(const char *text, struct stg_manifest *ret) {
  stg_error error = STG_ERROR_INIT;
  if (stg_manifest_parse("m.json", text, strlen(text), ret, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
}

static void reads_most_used_first_and_adds_up_equal_ones(void **state) {
  (void)state;
  struct stg_manifest m;
  read_manifest("{\"steergraph\": 1, \"manifest\": ["
                "{\"signature\": \"b\", \"count\": 3}, {\"count\": 9, \"signature\": \"c\"},"
                "{\"signature\": \"a\", \"count\": 5}, {\"signature\": \"b\", \"count\": 2},"
                "{\"signature\": \"d\", \"count\": 5}]}",
                &m);
  static const struct stg_manifest_entry wanted[] = {
      {"c", 9, 1}, {"a", 5, 2}, {"b", 5, 0}, {"d", 5, 4}};
  assert_int_equal(4, m.n_entries);
  assert_int_equal(0, m.n_ops);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(wanted[i].signature, m.entries[i].signature);
    assert_int_equal(wanted[i].count, m.entries[i].count);
    assert_int_equal(wanted[i].index, m.entries[i].index);
  }
  stg_manifest_finish(&m);
}

static void counts_end_where_json_stops_being_exact(void **state) {
  (void)state;
  struct stg_manifest m;
  read_manifest("{\"steergraph\": 1, \"manifest\": [{\"signature\": \"a\", \"count\": "
                "9007199254740991}, {\"signature\": \"a\", \"count\": 9007199254740991}]}",
                &m);
  assert_int_equal(1, m.n_entries);
  assert_true(m.entries[0].count == STG_MANIFEST_MAX_COUNT);
  m.entries[0].count = UINT64_MAX;
  stg_manifest_sort(&m);
  assert_true(m.entries[0].count == STG_MANIFEST_MAX_COUNT);
  stg_manifest_finish(&m);
}

static const char golden[] =
    "{\n"
    "  \"steergraph\": 1,\n"
    "  \"user_ops\": {\n"
    "    \"" HASH "\": {\"op\": \"lean\", \"vectors\": [\"u\", \"v\"], \"params\": {\"max\": "
    "{\"default\": \"inf\"}, \"scale\": {\"default\": -1.5}, \"free\": {}}, \"require\": [\"scale "
    "< max\"], \"body\": [\"p = dot(h, u)\", \"h += p * v\"]},\n"
    "    \"" NEXT_HASH "\": {\"op\": \"halve\", \"vectors\": [], \"params\": "
    "{}, "
    "\"require\": [], \"body\": [\"h = 0.5 * h\"]},\n"
    "    \"" LAST_HASH "\": {\"op\": \"watch\", \"vectors\": [\"v\"], \"params\": "
    "{\"column\": {}}, \"require\": [], \"output\": \"2 * dot(h, v)\"}\n"
    "  },\n"
    "  \"manifest\": [\n"
    "    {\"signature\": \"steer v1 | ops=add\", \"count\": 12},\n"
    "    {\"signature\": \"quote \\\" and \\u0001\", \"count\": 1}\n"
    "  ]\n"
    "}\n";

static void prints_what_it_reads(void **state) {
  (void)state;
  struct stg_manifest m;
  struct stg_strbuf text = {0};
  read_manifest(golden, &m);
  assert_string_equal("m.json: user_ops." HASH, m.ops[0].decl->file);
  assert_string_equal("lean", m.ops[0].decl->name);
  assert_true(m.ops[0].decl->params[0].default_value == INFINITY);
  stg_manifest_print(&m, &text);
  assert_string_equal(golden, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  stg_manifest_finish(&m);
}

static void prints_an_empty_one_that_reads_back(void **state) {
  (void)state;
  struct stg_manifest m = {0}, again;
  struct stg_strbuf text = {0};
  stg_manifest_sort(&m);
  stg_manifest_print(&m, &text);
  assert_string_equal("{\n  \"steergraph\": 1,\n  \"user_ops\": {},\n  \"manifest\": []\n}\n",
                      stg_strbuf_text(&text));
  read_manifest(stg_strbuf_text(&text), &again);
  assert_int_equal(0, again.n_entries + again.n_ops);
  stg_strbuf_finish(&text);
  stg_manifest_finish(&again);
}

#define HEAD "{\"steergraph\": 1, "
#define ENTRY "{\"signature\": \"a\", \"count\": 1}"
#define OP(body) HEAD "\"user_ops\": {\"" HASH "\": " body "}, \"manifest\": []}"

static void says_what_is_wrong_with_a_bad_one(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{\n \"steergraph\": 1,\n \"manifest\": [1 2]}",
       "m.json:3:17: expected ',' or ']', found '2'"},
      {"[]", "m.json: expected an object, found an array"},
      {"{\"manifest\": []}", "m.json: 'steergraph' is missing"},
      {"{\"steergraph\": 2, \"manifest\": []}", "m.json: steergraph: expected 1, found 2"},
      {HEAD "\"x\": 1}",
       "m.json: x: unknown member; allowed: 'steergraph', 'user_ops', 'manifest'"},
      {HEAD "\"user_ops\": {}}", "m.json: 'manifest' is missing"},
      {HEAD "\"manifest\": {}}", "m.json: manifest: expected an array, found an object"},
      {HEAD "\"manifest\": [\"a\"]}", "m.json: manifest[0]: expected an object, found \"a\""},
      {HEAD "\"manifest\": [" ENTRY ", {\"signature\": \"a\"}]}",
       "m.json: manifest[1]: 'count' is missing"},
      {HEAD "\"manifest\": [{\"count\": 1}]}", "m.json: manifest[0]: 'signature' is missing"},
      {HEAD "\"manifest\": [{\"signature\": 1, \"count\": 1}]}",
       "m.json: manifest[0].signature: expected a string, found 1"},
      {HEAD "\"manifest\": [{\"signature\": \"a\", \"count\": 0}]}",
       "m.json: manifest[0].count: expected an integer from 1 to 9007199254740991, found 0"},
      {HEAD "\"manifest\": [{\"signature\": \"a\", \"count\": 1.5}]}",
       "m.json: manifest[0].count: expected an integer from 1 to 9007199254740991, found 1.5"},
      {HEAD "\"manifest\": [{\"signature\": \"a\", \"count\": 1, \"arch\": \"sm_90\"}]}",
       "m.json: manifest[0].arch: unknown member; allowed: 'signature', 'count'"},
      {HEAD "\"user_ops\": [], \"manifest\": []}",
       "m.json: user_ops: expected an object, found an array"},
      {HEAD "\"user_ops\": {\"lean\": {}}, \"manifest\": []}",
       "m.json: user_ops.lean: 'lean' is no hash of a body; write its 32 lower-case hex digits"},
      {OP("1"), "m.json: user_ops." HASH ": expected an object, found 1"},
      {OP("{\"op\": \"x\"}"),
       "m.json: user_ops." HASH ": 'body' has no statement; write at least one, as \"h += v\""},
      {OP("{\"op\": \"X\", \"body\": [\"h = h\"]}"),
       "m.json: user_ops." HASH
       ".op: 'X' is not a name; write a lower-case identifier of at most 63 characters"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_manifest m;
    stg_error error = STG_ERROR_INIT;
    stg_status status =
        stg_manifest_parse("m.json", cases[i].text, strlen(cases[i].text), &m, &error);
    assert_int_equal(STG_E_FORMAT, status);
    assert_string_equal(cases[i].message, error.message);
  }
}

/* Every allocation in turn fails: an error, and nothing is left behind (the sanitizer looks). */
static void memory_that_is_missing_is_an_error(void **state) {
  (void)state;
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  while (status != STG_OK) {
    struct stg_manifest m;
    stg_alloc_fail_at(++nth);
    status = stg_manifest_parse("m.json", golden, sizeof golden - 1, &m, NULL);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    if (status == STG_OK) {
      stg_manifest_finish(&m);
    }
  }
  assert_true(nth > 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_most_used_first_and_adds_up_equal_ones),
      cmocka_unit_test(counts_end_where_json_stops_being_exact),
      cmocka_unit_test(prints_what_it_reads),
      cmocka_unit_test(prints_an_empty_one_that_reads_back),
      cmocka_unit_test(says_what_is_wrong_with_a_bad_one),
      cmocka_unit_test(memory_that_is_missing_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
