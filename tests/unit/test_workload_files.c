/*
 * test_workload_files.c: a workload and the op files it names: paths, links, clashes, memory.
 */
#include "specs/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/temp_folder.h"

/* What follows the list of ops in the spec of these tests. */
static const char rest[] =
    "\"steergraph\": 1, \"family\": \"steer\",\n"
    "  \"geometry\": { \"hidden_size\": 4, \"layers\": 3, \"dtype\": \"bf16\" },\n"
    "  \"vectors\": { \"axis\": { \"values\": [1, 0, 0, 0] },\n"
    "                 \"noise\": { \"random\": { \"seed\": 7 }, \"copies\": 3 } },\n"
    "  \"slots\": { \"calm\": { \"layers\": {\n"
    "    \"0\": [ { \"op\": \"projection_cap\", \"v\": \"axis\", \"max\": 0.5, \"min\": \"-inf\" "
    "},\n"
    "             { \"op\": \"swap\", \"a\": \"axis\", \"b\": \"noise[2]\" } ],\n"
    "    \"2\": [ { \"op\": \"add\", \"v\": \"noise[0]\", \"scale\": 2 } ] } } },\n"
    "  \"batch\": { \"layer\": 2, \"requests\": [\n"
    "    { \"slot\": \"calm\", \"rows\": 5, \"position\": 3 }, { \"slot\": null, \"rows\": 0 },\n"
    "    { \"slot\": \"calm\", \"rows\": 1, \"repeat\": 3, \"prompt_len\": 9 } ] },\n"
    "  \"input\": { \"hidden\": { \"random\": { \"seed\": 1 } } } }\n";

/* A spec file in a folder of its own, written as text. */
static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

/* Put down w.json with this list of ops. */
static void write_spec(void **state, const char *ops) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "{ \"ops\": [%s], %s", ops, rest);
  write_file(temp_path(state, "w.json"), stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
}

static stg_status load_in(void **state, const char *ops, bool allow_outside, stg_error *err) {
  struct stg_workload workload = {0};
  const struct stg_workload_options options = {.allow_outside = allow_outside};
  write_spec(state, ops);
  stg_status status = stg_workload_load(temp_path(state, "w.json"), &options, &workload, err);
  stg_workload_finish(&workload);
  return status;
}

static void assert_ends_with(const char *text, const char *end) {
  size_t n = strlen(text);
  size_t m = strlen(end);
  assert_true(n >= m);
  assert_string_equal(text + n - m, end);
}

static void reads_user_ops_beside_the_spec(void **state) {
  stg_error err = STG_ERROR_INIT;
  write_file(temp_path(state, "mine.json"), "{\"op\": \"mine\", \"body\": [\"h = 2 * h\"]}");
  assert_int_equal(load_in(state, "\"mine.json\"", false, &err), STG_OK);
}

static void refuses_user_ops_that_clash(void **state) {
  stg_error err = STG_ERROR_INIT;
  write_file(temp_path(state, "a.json"), "{\"op\": \"mine\", \"body\": [\"h = 2 * h\"]}");
  write_file(temp_path(state, "b.json"), "{\"op\": \"mine\", \"body\": [\"h = 3 * h\"]}");
  write_file(temp_path(state, "c.json"), "{\"op\": \"add\", \"body\": [\"h = 3 * h\"]}");
  write_file(temp_path(state, "d.json"), "{\"op\": \"probe\", \"body\": [\"h = 3 * h\"]}");
  assert_int_equal(load_in(state, "\"a.json\", \"b.json\"", false, &err), STG_E_FORMAT);
  assert_non_null(strstr(err.message, ": ops[1]: op 'mine' is defined in '"));
  assert_ends_with(err.message, "a.json' already; rename one");
  assert_int_equal(load_in(state, "\"c.json\"", false, &err), STG_E_FORMAT);
  assert_ends_with(err.message, "c.json' defines the built-in op 'add'; choose another name");
  assert_int_equal(load_in(state, "\"d.json\"", false, &err), STG_E_FORMAT);
  assert_ends_with(err.message, "d.json' defines the built-in op 'probe'; choose another name");
}

static void names_a_file_that_is_missing(void **state) {
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(load_in(state, "\"none.json\"", false, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "w.json: ops[0]: cannot open '"));
  assert_ends_with(err.message, "none.json': No such file or directory");
  assert_int_equal(load_in(state, "\"\"", false, &err), STG_E_FORMAT);
  assert_ends_with(err.message, ": ops[0]: empty path; name a file");
}

static void keeps_paths_inside_the_folder_unless_allowed(void **state) {
  stg_error err = STG_ERROR_INIT;
  char outside[] = "/tmp/stg_outside_XXXXXX";
  int fd = mkstemp(outside);
  static const char op[] = "{\"op\": \"mine\", \"body\": [\"h = 2 * h\"]}";
  assert_true(fd >= 0);
  assert_int_equal(write(fd, op, sizeof op - 1), sizeof op - 1);
  close(fd);
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\"", outside);
  assert_int_equal(load_in(state, quoted, false, &err), STG_E_FORMAT);
  assert_ends_with(err.message, "' is outside the spec's folder; --allow-outside allows it");
  assert_int_equal(load_in(state, "\"../x.json\"", false, &err), STG_E_FORMAT);
  assert_ends_with(err.message, ": ops[0]: '../x.json' is outside the spec's folder; "
                                "--allow-outside allows it");
  assert_int_equal(load_in(state, quoted, true, &err), STG_OK);
  assert_int_equal(symlink(outside, temp_path(state, "link.json")), 0);
  assert_int_equal(load_in(state, "\"link.json\"", false, &err), STG_E_FORMAT);
  assert_ends_with(err.message,
                   "link.json' links out of the spec's folder; --allow-outside allows it");
  assert_int_equal(load_in(state, "\"link.json\"", true, &err), STG_OK);
  write_file(temp_path(state, "mine.json"), op);
  assert_int_equal(symlink("mine.json", temp_path(state, "inner.json")), 0);
  assert_int_equal(load_in(state, "\"inner.json\"", false, &err), STG_OK);
  unlink(outside);
}

static void reports_every_failed_allocation_and_leaks_nothing(void **state) {
  write_file(temp_path(state, "mine.json"), "{\"op\": \"mine\", \"body\": [\"h = 2 * h\"]}");
  write_spec(state, "\"mine.json\"");
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  while (status != STG_OK) {
    struct stg_workload workload = {0};
    stg_error err = STG_ERROR_INIT;
    const char *path = temp_path(state, "w.json");
    stg_alloc_fail_at(failures + 1);
    status = stg_workload_load(path, NULL, &workload, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    failures += status != STG_OK;
    stg_workload_finish(&workload);
  }
  assert_true(failures >= 10);
}

#define in_temp_folder(test)                                                                       \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      in_temp_folder(reads_user_ops_beside_the_spec),
      in_temp_folder(refuses_user_ops_that_clash),
      in_temp_folder(names_a_file_that_is_missing),
      in_temp_folder(keeps_paths_inside_the_folder_unless_allowed),
      in_temp_folder(reports_every_failed_allocation_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
