/*
 * test_bench_components.c: the suite components on the CPU: cases and their elements, each kind of
 * work launched and agreed with by the oracle, which refuses what is wrong; and what its peer is
 * given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/components_peers.h"

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s", error->message);
  }
}

static stg_engine *open_engine(void) {
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  ok(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static void close_engine(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_engine_destroy(engine, &error), &error);
}

/* ---- cases ---- */

/* In test_peer_components.py too. */
static const struct {
  enum stg_bench_components_tensor tensor;
  int64_t index;
  float value;
} elements[] = {
#include "tests/data/components_elements.h"
};

static void elements_are_those_that_peers_expect(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
    const float found = stg_bench_components_value(elements[i].tensor, elements[i].index);
    if (found != elements[i].value) {
      fail_msg("tensor %d, element %lld: %a, not %a", (int)elements[i].tensor,
               (long long)elements[i].index, (double)found, (double)elements[i].value);
    }
  }
}

/* Also behind the number of elements after which they begin again; bools beside them. */
static void a_stretch_has_the_elements_one_by_one(void **state) {
  static const int64_t firsts[] = {0, 5, 16777210, 16777213, 33554431};
  (void)state;
  for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
    uint16_t stretch[9];
    unsigned char bools[9];
    stg_bench_components_fill(STG_BENCH_COMPONENTS_MASK, STG_BF16, firsts[i], 9, stretch);
    stg_bench_components_fill_bool(firsts[i], 9, bools);
    for (int64_t k = 0; k < 9; k++) {
      const float wanted = stg_bench_components_value(STG_BENCH_COMPONENTS_MASK, firsts[i] + k);
      assert_float_equal(stg_bf16_to_f32(stretch[k]), wanted, 0);
      assert_int_equal(bools[k], wanted >= 0.5F);
    }
  }
}

static void cases_are_whole_and_have_names_of_their_own(void **state) {
  bool forward = false, both = false;
  (void)state;
  assert_true(stg_bench_components_n_cases <= STG_PEER_MAX_CASES);
  for (size_t i = 0; i < stg_bench_components_n_cases; i++) {
    const struct stg_bench_components *c = &stg_bench_components_cases[i];
    assert_true(c->d_in > 0 && c->d_out > 0 && c->components > 0 && c->rows > 0);
    assert_true(c->share >= 1 && c->rows % c->share == 0);
    assert_true(!c->tf32 || c->dtype == STG_F32);
    assert_false(c->mask_of_bool && c->share > 1);
    assert_false(c->compiled && (c->mask_of_bool || c->share > 1));
    assert_int_equal(0, stg_bench_components_sample(c, 0));
    assert_int_equal(c->rows - 1,
                     stg_bench_components_sample(c, stg_bench_components_samples(c) - 1));
    assert_int_equal(c->components - 1,
                     stg_bench_components_column(c, stg_bench_components_columns(c) - 1));
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(c->name, stg_bench_components_cases[k].name);
    }
    forward = forward || !c->both;
    both = both || c->both;
  }
  assert_true(forward && both);
}

/* The figures of the targets, by hand. */
static void what_a_case_costs_is_counted(void **state) {
  const struct stg_bench_components forward = {
      .d_in = 128, .d_out = 128, .components = 1200, .rows = 16384, .dtype = STG_BF16, .share = 1};
  struct stg_bench_components both = forward;
  (void)state;
  both.both = true;
  const double product = 2.0 * 16384 * 1200;
  assert_true(stg_bench_components_flop(&forward) == product * 256);
  assert_true(stg_bench_components_flop(&both) == product * (256 + 640));
  assert_true(stg_bench_components_bytes(&forward) ==
              2 * (16384.0 * 256 + 16384.0 * 1200 + 1200 * 256));
  assert_true(stg_bench_components_bytes(&both) ==
              2 * (2 * 16384.0 * 256 + 3 * 16384.0 * 1200 + 4 * 1200 * 256));
  both.mask_of_bool = true;
  assert_true(stg_bench_components_bytes(&both) ==
              2 * (2 * 16384.0 * 256 + 4 * 1200 * 256) + 2 * 16384.0 * 1200);
}

/* ---- the work ---- */

#define SMALL .name = "x", .d_in = 20, .d_out = 13, .components = 9, .rows = 70, .share = 1

static const struct stg_bench_components works[] = {
    {SMALL, .dtype = STG_BF16},
    {SMALL, .dtype = STG_F32, .tf32 = true},
    {SMALL, .dtype = STG_F16, .mask_of_bool = true},
    {SMALL, .dtype = STG_BF16, .both = true},
    {SMALL, .dtype = STG_F32, .tf32 = true, .both = true},
    {SMALL, .dtype = STG_F32, .both = true},
    {SMALL, .dtype = STG_F16, .both = true, .mask_of_bool = true},
    {.name = "shared",
     .d_in = 20,
     .d_out = 13,
     .components = 2,
     .rows = 70,
     .share = 7,
     .dtype = STG_BF16,
     .both = true},
};
#define N_WORKS (sizeof works / sizeof works[0])

static void the_oracle_agrees_with_each_kind_of_work(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  for (size_t i = 0; i < N_WORKS; i++) {
    struct stg_bench_components_bed bed;
    struct stg_bench_components_references references;
    struct stg_bench_components_verdict verdict;
    stg_error error = STG_ERROR_INIT;
    ok(stg_bench_components_bed_init(engine, &works[i], 2, &bed, &error), &error);
    ok(stg_bench_components_refer(&works[i], &references, &error), &error);
    ok(stg_bench_components_check(&bed, &references, &verdict, &error), &error);
    assert_true(verdict.mae > 0 && verdict.mae < 0.05);
    assert_true(verdict.worst_ratio > 0 && verdict.worst_ratio <= 1);
    assert_int_equal(references.of[STG_BENCH_RESULT_DM].rows,
                     !works[i].both || works[i].mask_of_bool ? 0 : 70 / works[i].share);
    stg_bench_components_references_finish(&references);
    stg_bench_components_bed_finish(&bed);
  }
  close_engine(engine);
}

/* The sets hold the same, so they give the same. */
static void every_set_gives_the_same_result(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  for (size_t i = 0; i < N_WORKS; i++) {
    struct stg_bench_components_bed bed;
    stg_error error = STG_ERROR_INIT;
    ok(stg_bench_components_bed_init(engine, &works[i], 2, &bed, &error), &error);
    for (size_t launch = 0; launch < 4; launch++) {
      ok(stg_bench_components_launch(&bed, NULL, launch, stg_mem_stream(engine), &error), &error);
    }
    for (unsigned part = STG_BENCH_PART_Y; part < STG_BENCH_PARTS; part++) {
      const enum stg_bench_components_part at = (enum stg_bench_components_part)part;
      if (bed.bytes[part] > 0) {
        assert_memory_equal(stg_bench_components_at(&bed, at, 0),
                            stg_bench_components_at(&bed, at, 1), bed.bytes[part]);
      }
    }
    stg_bench_components_bed_finish(&bed);
  }
  close_engine(engine);
}

/* An input that is not the one of the formula shows in each result that follows from it. */
static void a_wrong_result_is_refused(void **state) {
  static const struct {
    enum stg_bench_components_part part;
    size_t element;
    const char *message;
  } wrongs[] = {
      {STG_BENCH_PART_X, 0, "y[0, 0] of what is looked at is "},
      {STG_BENCH_PART_DY, (size_t)69 * 13, "dx[15, "}, /* of the last row that is looked at */
      {STG_BENCH_PART_X, 20 * 3 + 5, "dv[5, 0] of what is looked at is "}, /* of one that is not */
  };
  (void)state;
  stg_engine *engine = open_engine();
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    struct stg_bench_components_bed bed;
    struct stg_bench_components_references references;
    struct stg_bench_components_verdict verdict;
    stg_error error = STG_ERROR_INIT;
    ok(stg_bench_components_bed_init(engine, &works[5], 1, &bed, &error), &error);
    ok(stg_bench_components_refer(&works[5], &references, &error), &error);
    float *elems = stg_bench_components_at(&bed, wrongs[i].part, 0);
    elems[wrongs[i].element] += 4;
    assert_int_equal(STG_E_CORRUPT,
                     stg_bench_components_check(&bed, &references, &verdict, &error));
    assert_non_null(strstr(error.message, wrongs[i].message));
    assert_non_null(strstr(error.message, "; float64 has "));
    stg_bench_components_references_finish(&references);
    stg_bench_components_bed_finish(&bed);
  }
  close_engine(engine);
}

/* ---- peers ---- */

static void the_suite_has_a_peer_whose_script_is_there(void **state) {
  static const char *const suites[] = {"steer", "components"};
  char path[512];
  (void)state;
  assert_true(stg_components_peers_wanted(suites, 2));
  assert_false(stg_components_peers_wanted(suites, 1));
  snprintf(path, sizeof path, "%s/%s", STG_PEERS_SOURCE, STG_COMPONENTS_PEER_SCRIPT);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  fclose(file);
}

static void a_case_without_a_row_of_ours_is_named(void **state) {
  const struct stg_components_peers run = {.scripts = ".", .folder = "."};
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  char wanted[160];
  (void)state;
  snprintf(wanted, sizeof wanted, "bench --peers: suite 'components' has no row '%s' of ours",
           stg_bench_components_cases[0].name);
  assert_int_equal(STG_E_NOT_FOUND, stg_components_peers_run(&run, &report, &error));
  assert_string_equal(wanted, error.message);
}

static void a_case_is_written_with_what_float64_says(void **state) {
  struct stg_bench_components_references references;
  const struct stg_tensor_info *found = NULL;
  struct stg_tensor_file file = {0};
  stg_error error = STG_ERROR_INIT;
  char *text = NULL;
  size_t size = 0;
  float y = 0;
  ok(stg_bench_components_refer(&works[3], &references, &error), &error);
  ok(stg_components_peer_case_write(&works[3], &references, temp_path(state, "."), &error), &error);
  ok(stg_file_read(temp_path(state, STG_COMPONENTS_PEER_CASE), 1 << 20, &text, &size, &error),
     &error);
  assert_non_null(strstr(text, "\"d_out\": 13"));
  assert_non_null(strstr(text, "\"both\": true"));
  stg_free(text);
  ok(stg_tensor_file_open(temp_path(state, STG_COMPONENTS_PEER_EXPECTED), NULL, &file, &error),
     &error);
  assert_int_equal(5, file.n_tensors);
  ok(stg_tensor_find(&file, "du", &found, &error), &error);
  assert_true(found->shape[0] == 4 && found->shape[1] == 13);
  ok(stg_tensor_find(&file, "y", &found, &error), &error);
  assert_true(found->shape[0] == 16 && found->shape[1] == 13);
  stg_tensor_read(found, 14, 1, STG_F32, &y);
  assert_true(y == (float)references.of[STG_BENCH_RESULT_Y].values[14]);
  stg_tensor_file_close(&file);
  assert_int_equal(STG_E_IO, stg_components_peer_case_write(&works[3], &references,
                                                            temp_path(state, "none"), &error));
  assert_non_null(strstr(error.message, "none"));
  stg_bench_components_references_finish(&references);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elements_are_those_that_peers_expect),
      cmocka_unit_test(a_stretch_has_the_elements_one_by_one),
      cmocka_unit_test(cases_are_whole_and_have_names_of_their_own),
      cmocka_unit_test(what_a_case_costs_is_counted),
      cmocka_unit_test(the_oracle_agrees_with_each_kind_of_work),
      cmocka_unit_test(every_set_gives_the_same_result),
      cmocka_unit_test(a_wrong_result_is_refused),
      cmocka_unit_test(the_suite_has_a_peer_whose_script_is_there),
      cmocka_unit_test(a_case_without_a_row_of_ours_is_named),
      cmocka_unit_test_setup_teardown(a_case_is_written_with_what_float64_says, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
