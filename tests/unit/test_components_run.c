/*
 * test_components_run.c: what `steergraph run` judges of components: results that are right, one
 * that is not and where, what nobody may write, padding, and what the work has to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/dtype.h"
#include "tools/components/check.h"

#define RANDOM(seed) "{\"random\":{\"seed\":" #seed "}}"
#define INPUT                                                                                      \
  "\"x\":" RANDOM(1) ",\"v\":" RANDOM(2) ",\"u\":" RANDOM(3) ",\"mask\":" RANDOM(                  \
      4) ",\"bias\":" RANDOM(5) ",\"d\":" RANDOM(6) ",\"delta\":" RANDOM(7) ",\"dy\":" RANDOM(8)

/* Six rows of which four are live; everything that there is. */
static const char text[] =
    "{\"steergraph\":1,\"family\":\"components\",\"components\":{\"d_in\":4,\"d_out\":3,"
    "\"components\":5,\"dtype\":\"f32\",\"bias\":true,\"delta\":true},"
    "\"rows\":{\"rows\":6,\"sequence\":3,\"valid\":[3,1]},\"direction\":\"both\","
    "\"input\":{" INPUT "}}";

/* A run that was done on the CPU. */
struct done {
  struct stg_components_job job;
  stg_components *components;
  struct stg_components_all all;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s", error->message);
  }
}

static int setup(void **state) {
  static struct done done;
  struct stg_spec spec = {0};
  stg_error err = STG_ERROR_INIT;
  stg_options options;
  done = (struct done){.components = NULL};
  ok(stg_spec_parse("w.json", text, sizeof text - 1, NULL, &spec, &err), &err);
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  ok(stg_engine_create(&options, &done.job.engine, &err), &err);
  done.job.workload = spec.of.components;
  done.job.desc = (stg_components_desc){.struct_size = sizeof done.job.desc,
                                        .d_in = 4,
                                        .d_out = 3,
                                        .components = 5,
                                        .dtype = STG_F32,
                                        .bias = true,
                                        .delta = true,
                                        .backward = true};
  ok(stg_components_create(done.job.engine, &done.job.desc, &done.components, &err), &err);
  ok(stg_components_tensors_check(&done.job, &err), &err);
  ok(stg_components_tensors_init(&done.job, done.components, &done.all, &err), &err);
  const stg_components_tensors call = stg_components_call_of(&done.job, &done.all);
  const stg_components_grads grads = stg_components_grads_of(&done.all);
  ok(stg_components_apply(done.components, &call, NULL, &err), &err);
  ok(stg_components_back(done.components, &call, &grads, NULL, &err), &err);
  ok(stg_components_tensors_fetch(&done.job, &done.all, &err), &err);
  *state = &done;
  return 0;
}

static int teardown(void **state) {
  struct done *done = *state;
  stg_components_tensors_finish(&done->job, &done->all);
  const bool gone = stg_components_destroy(done->components, NULL) == STG_OK &&
                    stg_engine_destroy(done->job.engine, NULL) == STG_OK;
  stg_components_workload_finish(&done->job.workload);
  return gone ? 0 : 1;
}

static float *after(struct done *done, unsigned tensor) {
  return (float *)(void *)done->all.of[tensor].after;
}

static void what_is_right_passes_and_is_counted(void **state) {
  struct done *done = *state;
  struct stg_components_check check;
  stg_error err = STG_ERROR_INIT;
  ok(stg_components_check_all(&done->job, &done->all, &check, &err), &err);
  assert_true(check.ok && check.violations == 0 && check.rows == 6 && check.rows_padding == 2);
  assert_int_equal(check.y.elements, 18);
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    assert_true(check.has[i] && check.gradients[i].ok && check.gradients[i].elements > 0);
  }
}

static void padding_is_nan_before_and_zeros_behind(void **state) {
  struct done *done = *state;
  const float *x = (const float *)(const void *)done->all.of[STG_SPEC_COMPONENTS_X].before;
  assert_true(isnan(x[16]) && isnan(x[23]) && isfinite(x[15]));
  assert_true(after(done, STG_COMPONENTS_Y)[12] == 0 && after(done, STG_COMPONENTS_Y)[9] != 0);
}

static void one_wrong_element_is_found_in_its_tensor(void **state) {
  struct done *done = *state;
  struct stg_components_check check;
  after(done, STG_COMPONENTS_Y)[2 * 3 + 1] += 1;
  after(done, STG_COMPONENTS_GRADIENT + 2)[4 * 3 + 2] = NAN; /* du */
  assert_int_equal(STG_OK, stg_components_check_all(&done->job, &done->all, &check, NULL));
  assert_true(!check.ok && check.violations == 2);
  assert_true(check.y.violations == 1 && check.y.first_row == 2 && check.y.first_element == 1);
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    assert_int_equal(check.gradients[i].violations, i == 2 ? 1 : 0);
  }
  assert_true(check.gradients[2].first_row == 4 && check.gradients[2].first_element == 2);
}

static void what_is_only_read_may_not_be_written(void **state) {
  static const unsigned tensors[] = {STG_SPEC_COMPONENTS_X, STG_SPEC_COMPONENTS_DELTA,
                                     STG_SPEC_COMPONENTS_DY, STG_COMPONENTS_VALID};
  struct done *done = *state;
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    struct stg_components_check check;
    stg_error err = STG_ERROR_INIT;
    struct stg_components_tensor *t = &done->all.of[tensors[i]];
    char wanted[64] = "w.json: ";
    strncat(wanted, stg_components_tensor_name(tensors[i]), 16);
    strncat(wanted, ": what is only read was written", 40);
    t->after[t->bytes - 1] ^= 1;
    assert_int_equal(STG_E_CORRUPT, stg_components_check_all(&done->job, &done->all, &check, &err));
    assert_string_equal(wanted, err.message);
    t->after[t->bytes - 1] ^= 1;
  }
}

static void what_the_work_has_to_do_is_counted(void **state) {
  struct done *done = *state;
  const struct stg_components_cost cost = stg_components_cost_of(&done->job, &done->all);
  const double delta = 2.0 * 6 * 4 * 3;
  const uint64_t twice = 6 * 4 + 4 * 5 + 5 * 3 + 6 * 5 + 6 + 3 * 4; /* x, v, u, mask, d, delta */
  assert_true(cost.flop == 2.0 * 6 * 5 * (4 + 3 + 3 * 4 + 2 * 3) + 3 * delta);
  /* and a gradient of each and of the bias, 3, which is read once; dy and y, 18 each */
  assert_int_equal(cost.bytes, 4 * (3 * twice + (uint64_t)42));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_is_right_passes_and_is_counted, setup, teardown),
      cmocka_unit_test_setup_teardown(padding_is_nan_before_and_zeros_behind, setup, teardown),
      cmocka_unit_test_setup_teardown(one_wrong_element_is_found_in_its_tensor, setup, teardown),
      cmocka_unit_test_setup_teardown(what_is_only_read_may_not_be_written, setup, teardown),
      cmocka_unit_test_setup_teardown(what_the_work_has_to_do_is_counted, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
