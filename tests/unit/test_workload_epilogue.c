/*
 * test_workload_epilogue.c: what the member "epilogue" becomes, and the message for each thing
 * wrong with it.
 */
#include "specs/workload.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"
#include "runtime/base/strbuf.h"
#include "specs/random.h"

/* The frame of a workload with an epilogue; `%s` is what the epilogue says. */
#define WITH_EPILOGUE                                                                              \
  "{ \"steergraph\": 1, \"family\": \"steer\", \"geometry\": { \"hidden_size\": 4, "               \
  "\"dtype\": \"f16\", \"state\": \"hidden+residual\" }, \"batch\": { \"requests\": [] }, "        \
  "\"epilogue\": %s, \"input\": { \"hidden\": { \"values\": [] }, \"residual\": { \"values\": [] " \
  "} } }"

static stg_status parse_epilogue(const char *epilogue, struct stg_workload *ret, stg_error *err) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, WITH_EPILOGUE, epilogue);
  stg_status status =
      stg_workload_parse("w.json", stg_strbuf_text(&text), text.len, NULL, ret, err);
  stg_strbuf_finish(&text);
  return status;
}

static void reads_an_epilogue(void **state) {
  (void)state;
  struct stg_workload w = {0};
  stg_error err = STG_ERROR_INIT;
  float weight[4];
  assert_int_equal(parse_epilogue("{ \"kind\": \"add_rmsnorm\", \"eps\": 1e-5, \"weight\": { "
                                  "\"values\": [1, 0, -2, 0.1] } }",
                                  &w, NULL),
                   STG_OK);
  assert_true(w.epilogue);
  assert_true(w.epsilon == 1e-5F);
  assert_int_equal(stg_workload_read_weight(&w, weight, &err), STG_OK);
  /* as float16 has them */
  assert_true(weight[0] == 1 && weight[1] == 0 && weight[2] == -2 && weight[3] == 0x1.998p-4F);
  stg_workload_finish(&w);
  assert_int_equal(parse_epilogue("{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": { "
                                  "\"values\": [1, 1, 1, -65520] } }",
                                  &w, NULL),
                   STG_OK);
  assert_int_equal(stg_workload_read_weight(&w, weight, &err), STG_E_NON_FINITE);
  assert_string_equal(err.message,
                      "w.json: epilogue.weight: element 3 is -65520, beyond the range of f16");
  stg_workload_finish(&w);
}

/* A weight of random values shares none with a vector of its seed. */
static void a_weight_has_a_stream_of_its_own(void **state) {
  (void)state;
  struct stg_workload w = {0};
  float weight[4], vector[4];
  assert_int_equal(parse_epilogue("{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": { "
                                  "\"random\": { \"seed\": 7, \"scale\": 2 } } }",
                                  &w, NULL),
                   STG_OK);
  assert_int_equal(stg_workload_read_weight(&w, weight, NULL), STG_OK);
  stg_random_normal(7, (uint64_t)3 << 32, 0, 2, vector, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_true(weight[i] == stg_f16_to_f32(stg_f16_from_f32(vector[i])));
  }
  stg_workload_finish(&w);
}

static void refuses_a_wrong_epilogue(void **state) {
  (void)state;
#define RIGHT_WEIGHT "\"weight\": { \"values\": [1, 1, 1, 1] }"
  static const struct {
    const char *epilogue, *message;
  } cases[] = {
      {"[]", "w.json: epilogue: expected an object, found an array"},
      {"{ \"eps\": 1, " RIGHT_WEIGHT " }", "w.json: epilogue: 'kind' is missing"},
      {"{ \"kind\": \"none\", \"eps\": 1, " RIGHT_WEIGHT " }",
       "w.json: epilogue.kind: 'none' is not an epilogue; use 'add_rmsnorm'"},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": -1, " RIGHT_WEIGHT " }",
       "w.json: epilogue.eps: -1 is no normal float32 above 0; models use 1e-6 or 1e-5"},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": 1e-40, " RIGHT_WEIGHT " }",
       "w.json: epilogue.eps: 9.99995e-41 is no normal float32 above 0; models use 1e-6 or 1e-5"},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": \"inf\", " RIGHT_WEIGHT " }",
       "w.json: epilogue.eps: expected a number, found \"inf\""},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": \"axis\" }",
       "w.json: epilogue.weight: expected an object, found \"axis\""},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": { \"values\": [1] } }",
       "w.json: epilogue.weight: 1 values, but geometry.hidden_size is 4"},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": { } }",
       "w.json: epilogue.weight: has 0 of 'file', 'values' and 'random'; give exactly one"},
      {"{ \"kind\": \"add_rmsnorm\", \"eps\": 1, \"weight\": { \"random\": { \"seed\": 1 }, "
       "\"copies\": 2 } }",
       "w.json: epilogue.weight.copies: unknown member; allowed: 'file', 'tensor', 'row', "
       "'offset', 'count', 'values', 'random'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_workload w = {0};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(parse_epilogue(cases[i].epilogue, &w, &err), STG_E_FORMAT);
    assert_string_equal(err.message, cases[i].message);
    assert_null(w.file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_an_epilogue),
      cmocka_unit_test(a_weight_has_a_stream_of_its_own),
      cmocka_unit_test(refuses_a_wrong_epilogue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
