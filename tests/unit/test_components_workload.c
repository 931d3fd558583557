/*
 * test_components_workload.c: what workloads of components become: words, rows of the mask,
 * sequences, shapes, and the numbers of bytes and of differences. Refusals are in specs/bad.
 */
#include "specs/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"

#define RANDOM(seed) "{\"random\":{\"seed\":" #seed "}}"

static struct stg_spec parse(const char *components, const char *rows, const char *rest,
                             const char *input) {
  struct stg_spec spec = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_printf(&text,
                    "{\"steergraph\":1,\"family\":\"components\",\"components\":{\"d_in\":4,"
                    "\"d_out\":3,\"components\":5,%s},\"rows\":{\"rows\":6%s},%s"
                    "\"input\":{\"x\":" RANDOM(1) ",\"v\":" RANDOM(2) ",\"u\":" RANDOM(3) "%s}}",
                    components, rows, rest, input);
  const char *whole = stg_strbuf_text(&text);
  if (stg_spec_parse("w.json", whole, strlen(whole), NULL, &spec, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(spec.kind, STG_SPEC_COMPONENTS);
  stg_strbuf_finish(&text);
  return spec;
}

static void assert_shape(const struct stg_components_workload *w,
                         enum stg_spec_components_input input, int64_t rows, int64_t columns) {
  const struct stg_spec_array *array = &w->inputs[input];
  assert_true(w->has[input]);
  assert_int_equal(array->n_dims, columns == 0 ? 1 : 2);
  assert_int_equal(array->shape[0], rows);
  assert_int_equal(array->shape[1], columns);
  assert_int_equal(array->elems, rows * (columns == 0 ? 1 : columns));
  assert_true(array->stream == (uint64_t)(10 + (unsigned)input) << 32);
}

static void fills_in_what_is_unsaid(void **state) {
  (void)state;
  struct stg_spec spec = parse("\"dtype\":\"f32\"", "", "", ",\"mask\":" RANDOM(4));
  const struct stg_components_workload *w = &spec.of.components;
  assert_string_equal(w->file, "w.json");
  assert_true(w->d_in == 4 && w->d_out == 3 && w->components == 5 && w->dtype == STG_F32);
  assert_int_equal(w->math, STG_SPEC_MATH_EXACT);
  assert_int_equal(w->mask, STG_SPEC_MASK_ELEMENTS);
  assert_true(w->share == 1 && w->mask_rows == 6 && w->rows == 6 && w->sequences == 0);
  assert_false(w->bias || w->delta || w->weight || w->both);
  assert_null(w->valid);
  assert_null(w->row_buckets);
  assert_true(w->warmup == 10 && w->repeats == 100);
  assert_shape(w, STG_SPEC_COMPONENTS_X, 6, 4);
  assert_shape(w, STG_SPEC_COMPONENTS_V, 4, 5);
  assert_shape(w, STG_SPEC_COMPONENTS_U, 5, 3);
  assert_shape(w, STG_SPEC_COMPONENTS_MASK, 6, 5);
  for (unsigned i = STG_SPEC_COMPONENTS_BIAS; i < STG_SPEC_COMPONENTS_INPUTS; i++) {
    assert_false(w->has[i]);
  }
  stg_spec_finish(&spec);
}

static void has_all_that_is_said(void **state) {
  (void)state;
  struct stg_spec spec =
      parse("\"dtype\":\"f32\",\"math\":\"tf32\",\"mask\":\"bool\",\"share\":4,\"bias\":true,"
            "\"delta\":true",
            ",\"sequence\":4,\"valid\":[3,0]",
            "\"direction\":\"both\",\"buckets\":{\"rows\":[8,64]},"
            "\"run\":{\"warmup\":0,\"repeats\":2},",
            ",\"mask\":" RANDOM(4) ",\"bias\":" RANDOM(5) ",\"d\":" RANDOM(
                6) ",\"delta\":{\"weight\":" RANDOM(7) "},\"dy\":" RANDOM(8));
  const struct stg_components_workload *w = &spec.of.components;
  assert_int_equal(w->math, STG_SPEC_MATH_TF32);
  assert_int_equal(w->mask, STG_SPEC_MASK_BOOL);
  assert_true(w->share == 4 && w->mask_rows == 2);
  assert_true(w->bias && w->delta && w->weight && w->both);
  assert_true(w->sequence == 4 && w->sequences == 2 && w->valid[0] == 3 && w->valid[1] == 0);
  assert_true(w->n_row_buckets == 2 && w->row_buckets[1] == 64);
  assert_true(w->warmup == 0 && w->repeats == 2);
  assert_shape(w, STG_SPEC_COMPONENTS_MASK, 2, 5);
  assert_shape(w, STG_SPEC_COMPONENTS_BIAS, 3, 0);
  assert_shape(w, STG_SPEC_COMPONENTS_D, 6, 0);
  assert_shape(w, STG_SPEC_COMPONENTS_DELTA, 3, 4);
  assert_shape(w, STG_SPEC_COMPONENTS_DY, 6, 3);
  stg_spec_finish(&spec);
}

static void rows_of_a_mask_follow_from_how_many_share_one(void **state) {
  static const struct {
    const char *words;
    int64_t share, rows;
  } cases[] = {{"\"share\":\"all\"", 0, 1},
               {"\"share\":6", 6, 1},
               {"\"share\":5", 5, 2},
               {"\"share\":100", 100, 1},
               {"\"share\":1", 1, 6}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char words[64];
    snprintf(words, sizeof words, "\"dtype\":\"bf16\",%s", cases[i].words);
    struct stg_spec spec = parse(words, "", "", ",\"mask\":" RANDOM(4));
    assert_int_equal(spec.of.components.share, cases[i].share);
    assert_int_equal(spec.of.components.mask_rows, cases[i].rows);
    stg_spec_finish(&spec);
  }
  struct stg_spec none = parse("\"dtype\":\"bf16\",\"mask\":\"none\"", "", "", "");
  assert_int_equal(none.of.components.mask_rows, 0);
  assert_false(none.of.components.has[STG_SPEC_COMPONENTS_MASK]);
  stg_spec_finish(&none);
}

static void a_bool_mask_is_one_where_its_source_is_above_zero(void **state) {
  (void)state;
  struct stg_spec spec = parse("\"dtype\":\"bf16\",\"mask\":\"bool\",\"share\":\"all\"", "", "",
                               ",\"mask\":{\"values\":[1,0,-2,1e-9,0.5]}");
  unsigned char bytes[5];
  assert_int_equal(STG_OK, stg_components_workload_fill(&spec.of.components,
                                                        STG_SPEC_COMPONENTS_MASK, bytes, NULL));
  assert_memory_equal(bytes, ((unsigned char[]){1, 0, 0, 1, 1}), 5);
  stg_spec_finish(&spec);
}

static void inputs_have_streams_of_their_own(void **state) {
  (void)state;
  struct stg_spec spec = parse("\"dtype\":\"f32\"", "", "", ",\"mask\":" RANDOM(1));
  float x[24], mask[30], expected[24];
  const struct stg_components_workload *w = &spec.of.components;
  assert_int_equal(STG_OK, stg_components_workload_fill(w, STG_SPEC_COMPONENTS_X, x, NULL));
  assert_int_equal(STG_OK, stg_components_workload_fill(w, STG_SPEC_COMPONENTS_MASK, mask, NULL));
  stg_random_normal(1, (uint64_t)10 << 32, 0, 1.0F, expected, 24);
  assert_memory_equal(x, expected, sizeof x);
  assert_memory_not_equal(x, mask, sizeof x);
  stg_spec_finish(&spec);
}

/* W - (V U)^T of what V and U are in their type. */
static void expect_difference(stg_dtype dtype, const char *words, double unit) {
  struct stg_spec spec =
      parse(words, "", "",
            ",\"mask\":" RANDOM(4) ",\"d\":" RANDOM(6) ",\"delta\":{\"weight\":" RANDOM(7) "}");
  const struct stg_components_workload *w = &spec.of.components;
  unsigned char v[20 * 4], u[15 * 4], delta[12 * 4];
  float weight[12];
  assert_int_equal(STG_OK, stg_components_workload_fill(w, STG_SPEC_COMPONENTS_V, v, NULL));
  assert_int_equal(STG_OK, stg_components_workload_fill(w, STG_SPEC_COMPONENTS_U, u, NULL));
  assert_int_equal(STG_OK, stg_components_workload_fill(w, STG_SPEC_COMPONENTS_DELTA, delta, NULL));
  stg_random_normal(7, (uint64_t)16 << 32, 0, 1.0F, weight, 12);
  for (size_t o = 0; o < 3; o++) {
    for (size_t i = 0; i < 4; i++) {
      double ref = (double)weight[o * 4 + i];
      for (size_t k = 0; k < 5; k++) {
        ref -=
            (double)stg_load_f32(dtype, v, i * 5 + k) * (double)stg_load_f32(dtype, u, k * 3 + o);
      }
      const double given = (double)stg_load_f32(dtype, delta, o * 4 + i);
      assert_true(fabs(given - ref) <= unit * fabs(ref));
    }
  }
  stg_spec_finish(&spec);
}

static void delta_of_a_weight_is_the_difference(void **state) {
  (void)state;
  expect_difference(STG_F32, "\"dtype\":\"f32\",\"delta\":true", 0x1.001p-24);
  expect_difference(STG_BF16, "\"dtype\":\"bf16\",\"delta\":true", 0x1.001p-8);
  expect_difference(STG_F16, "\"dtype\":\"f16\",\"delta\":true", 0x1.001p-11);
}

static void memory_for_a_difference_may_be_missing(void **state) {
  struct stg_spec spec =
      parse("\"dtype\":\"f32\",\"delta\":true", "", "",
            ",\"mask\":" RANDOM(4) ",\"d\":" RANDOM(6) ",\"delta\":{\"weight\":" RANDOM(7) "}");
  float delta[12];
  (void)state;
  for (size_t nth = 1; nth <= 4; nth++) {
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    const stg_status status =
        stg_components_workload_fill(&spec.of.components, STG_SPEC_COMPONENTS_DELTA, delta, &err);
    stg_alloc_fail_at(0);
    assert_int_equal(status, STG_E_NO_MEMORY);
    assert_non_null(strstr(err.message, nth < 3 ? "a row of Delta" : "a matrix of the workload"));
  }
  stg_spec_finish(&spec);
}

static void examples_have_what_their_names_promise(void **state) {
  static const struct {
    const char *name;
    uint32_t d_out, components;
    stg_dtype dtype;
  } examples[] = {{"components_spd", 128, 1200, STG_F32},
                  {"components_odd", 341, 1200, STG_BF16},
                  {"components_check", 4, 7, STG_F32}};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    struct stg_spec spec = {0};
    struct stg_strbuf path = {0};
    stg_strbuf_printf(&path, "%s/%s.json", STG_SPECS_DIR, examples[i].name);
    assert_int_equal(STG_OK, stg_spec_load(stg_strbuf_text(&path), NULL, &spec, NULL));
    const struct stg_components_workload *w = &spec.of.components;
    assert_true(w->d_out == examples[i].d_out && w->components == examples[i].components);
    assert_true(w->dtype == examples[i].dtype && w->both);
    assert_true((w->math == STG_SPEC_MATH_TF32) == (i == 0));
    assert_true((w->valid != NULL) == (i == 1) && (w->mask == STG_SPEC_MASK_BOOL) == (i == 1));
    assert_true(w->delta == (i > 0));
    stg_strbuf_finish(&path);
    stg_spec_finish(&spec);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_in_what_is_unsaid),
      cmocka_unit_test(has_all_that_is_said),
      cmocka_unit_test(rows_of_a_mask_follow_from_how_many_share_one),
      cmocka_unit_test(a_bool_mask_is_one_where_its_source_is_above_zero),
      cmocka_unit_test(inputs_have_streams_of_their_own),
      cmocka_unit_test(delta_of_a_weight_is_the_difference),
      cmocka_unit_test(memory_for_a_difference_may_be_missing),
      cmocka_unit_test(examples_have_what_their_names_promise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
