/*
 * test_bench_prove_bed.c: a bed of the suite `prove` on a device of the host: runs, launches, what
 * they leave, and what the oracle says of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/hostmem.h"
#include "tests/support/host_device.h"
#include "tools/bench/prove_bed.h"

#define N 12

static struct stg_prove_bed bed;

static void must(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static int open_bed(void **state) {
  const struct stg_bench_options options = {.cache = ""};
  stg_error error = STG_ERROR_INIT;
  (void)state;
  must(stg_prove_bed_init(&options, STG_PROVE_COUNTRIES, STG_PROVER_F32, 1000, &bed, &error),
       &error);
  return 0;
}

static int close_bed(void **state) {
  (void)state;
  stg_prove_bed_finish(&bed);
  assert_null(bed.queries);
  return 0;
}

static void run(size_t first, size_t n) {
  struct stg_prove_pool_run pool = stg_prove_pool_of(&bed, first, n);
  stg_error error = STG_ERROR_INIT;
  double us = 0;
  must(stg_prove_bed_time(&pool, &us, &error), &error);
  assert_true(us > 0);
}

static void candidates_are_those_of_the_workload_far_apart(void **state) {
  (void)state;
  unsigned *seen = test_calloc(bed.n, sizeof *seen);
  assert_true(bed.cuda);
  assert_int_equal(bed.n, bed.objects.pool.candidates.n);
  for (size_t i = 0; i < bed.n; i++) {
    const size_t from = i * STG_PROVE_STRIDE % bed.n;
    assert_memory_equal(&bed.objects.queries[from], &bed.queries[i], sizeof(stg_atom));
    seen[from]++;
  }
  for (size_t i = 0; i < bed.n; i++) {
    assert_int_equal(1, seen[i]);
  }
  test_free(seen);
}

static void a_run_leaves_proofs_and_counts(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  uint64_t steps = 0;
  run(0, N);
  for (size_t i = 0; i < N; i++) {
    steps += bed.proofs[i].depth;
    assert_true(bed.proofs[i].outcome >= STG_OUTCOME_PROVED);
  }
  assert_int_equal(steps, stg_prove_bed_counts(&bed).query_steps);
  assert_int_equal(steps, stg_prove_bed_counts(&bed).slot_steps);
  must(stg_prove_bed_check(&bed, N, 4, &error), &error);
}

static void pools_of_any_size_need_no_other_kernel(void **state) {
  (void)state;
  const double kernels = stg_prove_bed_kernels(&bed);
  run(0, 1);
  run(3, N);
  assert_true(stg_prove_bed_kernels(&bed) == kernels);
}

static void it_says_what_it_holds(void **state) {
  (void)state;
  double states = 0;
  const double all = stg_prove_bed_bytes(&bed, &states);
  assert_true(states > 0 && all > states);
}

static void a_launch_leaves_the_proofs_of_a_run(void **state) {
  (void)state;
  struct stg_prove_pool_run pool = stg_prove_pool_of(&bed, 0, N);
  stg_proof wanted[N];
  stg_error error = STG_ERROR_INIT;
  run(0, N);
  memcpy(wanted, bed.proofs, sizeof wanted);
  memset(bed.proofs, 0, sizeof wanted);
  for (int turn = 0; turn < 2; turn++) { /* its room is made once */
    must(stg_prove_bed_upload(&pool, &error), &error);
    must(stg_prove_bed_launch(&pool, NULL, 0, stg_mem_stream(bed.job.engine), &error), &error);
    must(stg_mem_synchronize(bed.job.engine, &error), &error);
  }
  must(stg_prove_bed_download(&pool, &error), &error);
  for (size_t i = 0; i < N; i++) {
    assert_memory_equal(&wanted[i].logp, &bed.proofs[i].logp, sizeof(float));
    assert_int_equal(wanted[i].depth, bed.proofs[i].depth);
    assert_int_equal(wanted[i].outcome, bed.proofs[i].outcome);
    assert_memory_equal(wanted[i].actions, bed.proofs[i].actions, wanted[i].depth);
  }
}

static void a_proof_that_is_wrong_is_named(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  run(0, N);
  bed.proofs[5].logp -= 0.5F;
  assert_int_equal(STG_E_CORRUPT, stg_prove_bed_check(&bed, N, SIZE_MAX, &error));
  assert_non_null(strstr(error.message, "candidate 5, atom "));
  assert_non_null(
      strstr(error.message, "has not the logp that the oracle allows; 1 of 12 are wrong"));
}

static void too_few_candidates_are_said(void **state) {
  (void)state;
  const struct stg_bench_options options = {.cache = ""};
  struct stg_prove_bed other;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_prove_bed_init(&options, STG_PROVE_COUNTRIES, STG_PROVER_F32,
                                                     1000000, &other, &error));
  assert_non_null(strstr(error.message, " candidates, more than 1000000 are needed"));
  stg_prove_bed_finish(&other);
}

static void a_copy_that_fails_is_said(void **state) {
  (void)state;
  struct stg_prove_pool_run pool = stg_prove_pool_of(&bed, 0, N);
  stg_error error = STG_ERROR_INIT;
  for (size_t nth = 1; nth <= 2; nth++) {
    host_device_fail_copies(nth);
    assert_int_equal(STG_E_CUDA, stg_prove_bed_upload(&pool, &error));
    assert_string_not_equal("", error.message);
  }
  host_device_fail_copies(0);
  must(stg_prove_bed_upload(&pool, &error), &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(candidates_are_those_of_the_workload_far_apart),
      cmocka_unit_test(a_run_leaves_proofs_and_counts),
      cmocka_unit_test(pools_of_any_size_need_no_other_kernel),
      cmocka_unit_test(it_says_what_it_holds),
      cmocka_unit_test(a_launch_leaves_the_proofs_of_a_run),
      cmocka_unit_test(a_proof_that_is_wrong_is_named),
      cmocka_unit_test(a_copy_that_fails_is_said),
  };
  const struct CMUnitTest alone[] = {cmocka_unit_test(too_few_candidates_are_said)};
  const int failed = cmocka_run_group_tests(tests, open_bed, close_bed);
  return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
