/*
 * test_warm_words.c: what stg_warm says: of manifests that it refuses, and in its report.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/tier_bed.h"

#define USER_OP(hash, body)                                                                        \
  "{\"steergraph\": 1, \"user_ops\": {\"" hash "\": {\"op\": \"x\", \"body\": [\"" body            \
  "\"]}}, \"manifest\": []}"
#define SIGNATURE(text)                                                                            \
  "{\"steergraph\": 1, \"manifest\": [{\"signature\": \"" text "\", \"count\": 1}]}"
#define HASH "0123456789abcdef0123456789abcdef"

static void a_bad_manifest_is_refused_whole(void **state) {
  (void)state;
  static const struct {
    stg_status status;
    const char *json, *message;
  } cases[] = {
      {STG_E_FORMAT, "{",
       "m.json:1:2: expected a member name in quotes, found the end of the text"},
      {STG_E_FORMAT, USER_OP(HASH, "h = 0.5 * h"),
       "m.json: user_ops." HASH
       ": the hash of its body is 0f6b8fd0fa0ecfb7332e5cec3840cf0e; put it under that, or mend the "
       "body"},
      {STG_E_FORMAT, USER_OP(HASH, "h = q"),
       "m.json: user_ops." HASH ": body[0]: column 5: unknown name 'q'; names, parameters and "
       "vectors are declared first"},
      {STG_E_FORMAT, SIGNATURE("steer v1 | ops=user:" HASH),
       "m.json: manifest[0].signature: column 16: no op with the body of 'user:" HASH
       "' is defined; put it into user_ops"},
      {STG_E_INVALID,
       SIGNATURE("steer v1 | ops=probe chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | "
                 "tile=decode epilogue=none windows=0 counters=0 probes=0 | batch<=8 seq<=1 "
                 "rows<=1"),
       "m.json: manifest[0].signature: ops[0]: 'probe' gives something out, but probes is 0; say "
       "how "
       "many columns"},
      {STG_E_INVALID,
       SIGNATURE("steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=bf16 state=hidden | "
                 "tile=decode epilogue=none windows=0 counters=0 probes=0 | batch<=8 seq<=1 "
                 "rows<=1"),
       "m.json: manifest[0].signature: bank_dtype: 1 is neither dtype (f32) nor f32"},
      {STG_E_INVALID,
       SIGNATURE("steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | "
                 "tile=decode epilogue=add_rmsnorm windows=0 counters=0 probes=0 | batch<=8 seq<=1 "
                 "rows<=1"),
       "m.json: manifest[0].signature: epilogue: add_rmsnorm adds a residual, but the state is "
       "hidden; set state to hidden+residual"},
  };
  struct bed bed;
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status =
        stg_warm(bed.engine, "m.json", cases[i].json, strlen(cases[i].json), NULL, NULL, &error);
    assert_string_equal(cases[i].message, error.message);
    assert_int_equal(cases[i].status, status);
  }
  stg_error error = STG_ERROR_INIT;
  const stg_warm_desc other = {.struct_size = 3};
  expect(STG_E_INVALID, "json is NULL", stg_warm(bed.engine, NULL, NULL, 0, NULL, NULL, &error),
         &error);
  expect(STG_E_INVALID, "struct_size", stg_warm(bed.engine, NULL, "", 0, &other, NULL, &error),
         &error);
  close_bed(&bed);
}

static void a_report_is_json_of_its_members(void **state) {
  (void)state;
  const stg_warm_report report = {.struct_size = sizeof report,
                                  .total = 7,
                                  .done = 4,
                                  .failed = 2,
                                  .left = 1,
                                  .kernels_memory = 3,
                                  .kernels_disk = 5,
                                  .kernels_compiled = 6,
                                  .kernels_failed = 8,
                                  .graphs = 9,
                                  .ms = 1.5,
                                  .regions = 11};
  static const char wanted[] =
      "{\"total\": 7, \"done\": 4, \"failed\": 2, \"left\": 1, \"kernels_memory\": 3, "
      "\"kernels_disk\": 5, \"kernels_compiled\": 6, \"kernels_failed\": 8, \"graphs\": 9, "
      "\"regions\": 11, \"ms\": 1.5}";
  char text[sizeof wanted];
  char cut[8];
  assert_int_equal(sizeof wanted, stg_warm_report_json(&report, text, sizeof text));
  assert_string_equal(wanted, text);
  assert_int_equal(sizeof wanted, stg_warm_report_json(&report, cut, sizeof cut));
  assert_string_equal("{\"total", cut);
  assert_int_equal(sizeof wanted, stg_warm_report_json(&report, NULL, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_manifest_is_refused_whole),
      cmocka_unit_test(a_report_is_json_of_its_members),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
