/*
 * test_workload_window.c: the members "phase" and "window" of a slot.
 */
#include "specs/workload.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

/* A workload whose slot "calm" has these members beside its layers. */
static stg_status parse(const char *members, struct stg_workload *ret_workload, stg_error *err) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(
      &text,
      "{ \"steergraph\": 1, \"family\": \"steer\", \"geometry\": { \"hidden_size\": 4, "
      "\"dtype\": \"bf16\" }, \"vectors\": { \"axis\": { \"values\": [1, 0, 0, 0] } }, "
      "\"slots\": { \"calm\": { %s \"layers\": { \"0\": [ { \"op\": \"add\", \"v\": "
      "\"axis\" } ] } } }, \"batch\": { \"requests\": [ { \"slot\": \"calm\", \"rows\": 5 "
      "} ] }, \"input\": { \"hidden\": { \"random\": { \"seed\": 1 } } } }",
      members);
  stg_status status =
      stg_workload_parse("w.json", stg_strbuf_text(&text), text.len, NULL, ret_workload, err);
  stg_strbuf_finish(&text);
  return status;
}

static void expect_window(const char *members, const struct stg_spec_window *expected) {
  struct stg_workload w = {0};
  assert_int_equal(parse(members, &w, NULL), STG_OK);
  const struct stg_spec_window *window = w.slots[0].window;
  assert_int_equal(window == NULL, expected == NULL);
  if (window != NULL && expected != NULL) {
    assert_int_equal(window->phase, expected->phase);
    assert_int_equal(window->has_from, expected->has_from);
    assert_int_equal(window->has_to, expected->has_to);
    assert_int_equal(window->from, expected->from);
    assert_int_equal(window->to, expected->to);
  }
  stg_workload_finish(&w);
}

static void reads_phase_and_window_of_a_slot(void **state) {
  (void)state;
  expect_window("", NULL);
  expect_window("\"phase\": \"both\", \"window\": [0, null],", NULL);
  expect_window("\"window\": [null, null],", NULL);
  expect_window("\"phase\": \"prompt\",",
                &(struct stg_spec_window){.phase = STG_SPEC_PHASE_PROMPT});
  expect_window(
      "\"phase\": \"generation\", \"window\": [null, 20],",
      &(struct stg_spec_window){.phase = STG_SPEC_PHASE_GENERATION, .to = 20, .has_to = true});
  expect_window("\"window\": [-5, -1],",
                &(struct stg_spec_window){.from = -5, .to = -1, .has_from = true, .has_to = true});
  expect_window("\"window\": [7, null],", &(struct stg_spec_window){.from = 7, .has_from = true});
}

static void refuses_a_wrong_window(void **state) {
  (void)state;
  static const struct {
    const char *members, *message;
  } cases[] = {
      {"\"phase\": \"Prompt\",",
       "phase: 'Prompt' is not a phase; use 'prompt', 'generation' or 'both'"},
      {"\"phase\": 1,", "phase: expected a string, found 1"},
      {"\"window\": 3,", "window: expected an array, found 3"},
      {"\"window\": [1],", "window: 1 bounds; a window is [from, to], each a position or null"},
      {"\"window\": [1.5, 3],", "window[0]: expected an integer from -2147483648 to 2147483647, "
                                "found 1.5"},
      {"\"window\": [4, 4],", "window: [4, 4) holds no position; from must be below to"},
      {"\"window\": [null, 0],", "window: [0, 0) holds no position; from must be below to"},
      {"\"window\": [-4, 0],", "window: [-4, 0) holds no position; write null for 0, and phase "
                               "'prompt' for the prompt alone"},
      {"\"window\": [-1, -4],", "window: [-1, -4) holds no position; from must be below to"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_workload w = {0};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(parse(cases[i].members, &w, &err), STG_E_FORMAT);
    assert_int_equal(strncmp(err.message, "w.json: slots.calm.", 19), 0);
    assert_string_equal(err.message + 19, cases[i].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_phase_and_window_of_a_slot),
      cmocka_unit_test(refuses_a_wrong_window),
  };
  return cmocka_run_group_tests_name("workload window", tests, NULL, NULL);
}
