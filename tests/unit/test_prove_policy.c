/*
 * test_prove_policy.c: weights of the proof search's policy: made up, written, read back, and
 * files that are none.
 */
#include "specs/prove_policy.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "specs/random.h"
#include "tests/support/temp_folder.h"

static const struct stg_prove_sizes sizes = {
    .predicates = 4, .constants = 7, .atoms = 6, .embed = 5, .hidden = 6, .blocks = 2};
#define N_TENSORS 18

static const struct {
  const char *name;
  int64_t shape[2]; /* of one dimension: 0 */
} wanted[N_TENSORS] = {
    {"predicate.weight", {7, 5}},  {"entity.weight", {19, 5}},
    {"in.weight", {6, 5}},         {"in.bias", {6}},
    {"in_norm.weight", {6}},       {"in_norm.bias", {6}},
    {"blocks.0.weight", {6, 6}},   {"blocks.0.bias", {6}},
    {"blocks.0.norm.weight", {6}}, {"blocks.0.norm.bias", {6}},
    {"blocks.1.weight", {6, 6}},   {"blocks.1.bias", {6}},
    {"blocks.1.norm.weight", {6}}, {"blocks.1.norm.bias", {6}},
    {"head.weight", {6, 6}},       {"head.bias", {6}},
    {"out.weight", {5, 6}},        {"out.bias", {5}},
};

static size_t count_of(const struct stg_tensor_out *tensor) {
  return (size_t)(tensor->shape[0] * (tensor->n_dims > 1 ? tensor->shape[1] : 1));
}

static void lists_the_tensors_of_the_net(void **state) {
  struct stg_prove_policy policy = {0};
  (void)state;
  assert_int_equal(stg_prove_policy_random(1, &sizes, &policy, NULL), STG_OK);
  assert_int_equal(policy.n_tensors, N_TENSORS);
  for (size_t i = 0; i < N_TENSORS; i++) {
    assert_string_equal(policy.tensors[i].name, wanted[i].name);
    assert_int_equal(policy.tensors[i].n_dims, wanted[i].shape[1] > 0 ? 2 : 1);
    assert_int_equal(policy.tensors[i].shape[0], wanted[i].shape[0]);
    assert_int_equal(policy.tensors[i].shape[1], wanted[i].shape[1]);
  }
  assert_string_equal(policy.tensors[STG_PROVE_ENTITY].name, "entity.weight");
  assert_string_equal(policy.tensors[STG_PROVE_IN].name, "in.weight");
  assert_string_equal(policy.tensors[STG_PROVE_BLOCKS + 4].name, "blocks.1.weight");
  stg_prove_policy_finish(&policy);
}

static void makes_up_weights_of_the_scale_of_their_inputs(void **state) {
  struct stg_prove_policy policy = {0};
  float expected[36];
  (void)state;
  assert_int_equal(stg_prove_policy_random(9, &sizes, &policy, NULL), STG_OK);
  stg_random_normal(9, 1, 0, 1, expected, 36);
  assert_memory_equal(policy.tensors[STG_PROVE_ENTITY].data, expected, sizeof expected);
  stg_random_normal(9, STG_PROVE_BLOCKS, 0, (float)(1 / sqrt(6)), expected, 36);
  assert_memory_equal(policy.tensors[STG_PROVE_BLOCKS].data, expected, sizeof expected);
  for (size_t i = 0; i < 6; i++) {
    assert_true(((const float *)policy.tensors[STG_PROVE_IN + 1].data)[i] == 0);
    assert_true(((const float *)policy.tensors[STG_PROVE_IN + 2].data)[i] == 1);
    assert_true(((const float *)policy.tensors[STG_PROVE_BLOCKS + 3].data)[i] == 0);
  }
  stg_prove_policy_finish(&policy);
}

static void what_is_written_reads_as_the_same(void **state) {
  const char *path = temp_path(state, "w.safetensors");
  struct stg_prove_policy policy = {0};
  struct stg_prove_policy again = {0};
  assert_int_equal(stg_prove_policy_random(2, &sizes, &policy, NULL), STG_OK);
  assert_int_equal(stg_safetensors_write(path, policy.tensors, policy.n_tensors, NULL, 0, NULL),
                   STG_OK);
  assert_int_equal(stg_prove_policy_load(path, &sizes, &again, NULL), STG_OK);
  assert_int_equal(again.n_tensors, N_TENSORS);
  for (size_t i = 0; i < N_TENSORS; i++) {
    assert_memory_equal(again.tensors[i].data, policy.tensors[i].data,
                        count_of(&policy.tensors[i]) * sizeof(float));
  }
  stg_prove_policy_finish(&policy);
  stg_prove_policy_finish(&again);
}

/* Write a policy with one tensor changed or left out, and read it. */
static void assert_refused(void *const *state, size_t index, const struct stg_tensor_out *instead,
                           stg_status status, const char *message) {
  const char *path = temp_path(state, "w.safetensors");
  struct stg_prove_policy policy = {0};
  struct stg_prove_policy read = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_prove_policy_random(3, &sizes, &policy, NULL), STG_OK);
  policy.tensors[index] = instead != NULL ? *instead : policy.tensors[--policy.n_tensors];
  assert_int_equal(stg_safetensors_write(path, policy.tensors, policy.n_tensors, NULL, 0, NULL),
                   STG_OK);
  assert_int_equal(stg_prove_policy_load(path, &sizes, &read, &err), status);
  assert_non_null(strstr(err.message, "w.safetensors'"));
  assert_non_null(strstr(err.message, message));
  assert_null(read.tensors);
  stg_prove_policy_finish(&policy);
}

static void a_tensor_of_another_shape_is_refused_with_both(void **state) {
  static const float zeros[64];
  const struct stg_tensor_out turned = {"in.weight", STG_F32, 2, {5, 6}, zeros};
  const struct stg_tensor_out flat = {"in.bias", STG_F32, 2, {1, 6}, zeros};
  assert_refused(state, STG_PROVE_IN, &turned, STG_E_FORMAT,
                 "tensor 'in.weight' is [5, 6], expected [6, 5]");
  assert_refused(state, STG_PROVE_IN + 1, &flat, STG_E_FORMAT,
                 "tensor 'in.bias' is [1, 6], expected [6]");
}

static void a_tensor_that_is_missing_is_named(void **state) {
  assert_refused(state, STG_PROVE_BLOCKS + 4, NULL, STG_E_NOT_FOUND, "'blocks.1.weight'");
}

static void an_element_that_is_not_finite_is_named(void **state) {
  static const float elems[6] = {0, 0, 0, 0, (float)INFINITY, 0};
  const struct stg_tensor_out bias = {"head.bias", STG_F32, 1, {6}, elems};
  assert_refused(state, 15, &bias, STG_E_NON_FINITE, "element 4 of tensor 'head.bias' is inf");
}

static void a_file_that_is_not_there_is_said(void **state) {
  struct stg_prove_policy policy = {0};
  stg_error err = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(stg_prove_policy_load("/nowhere/w.safetensors", &sizes, &policy, &err),
                   STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "/nowhere/w.safetensors"));
}

static void running_out_of_memory_is_said_and_nothing_leaks(void **state) {
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  const struct stg_prove_sizes large = {4, 50, 6, 250, 256, 8};
  while (status == STG_E_NO_MEMORY) {
    struct stg_prove_policy policy = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = stg_prove_policy_random(4, &large, &policy, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || strstr(err.message, "memory") != NULL);
    stg_prove_policy_finish(&policy);
  }
  assert_int_equal(status, STG_OK);
  assert_true(nth > 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_the_tensors_of_the_net),
      cmocka_unit_test(makes_up_weights_of_the_scale_of_their_inputs),
      cmocka_unit_test(what_is_written_reads_as_the_same),
      cmocka_unit_test(a_tensor_of_another_shape_is_refused_with_both),
      cmocka_unit_test(a_tensor_that_is_missing_is_named),
      cmocka_unit_test(an_element_that_is_not_finite_is_named),
      cmocka_unit_test(a_file_that_is_not_there_is_said),
      cmocka_unit_test(running_out_of_memory_is_said_and_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
