/*
 * test_prove_sides.c: ranks and shares of a pool that was proved, side by side and of both.
 */
#include "tools/prove/sides.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

/* Two queries with two corruptions on one side, one of them with one on the other. */
static struct stg_prover_group groups[] = {
    {0, STG_PROVER_HEAD, 0, 2}, {1, STG_PROVER_HEAD, 3, 2}, {0, STG_PROVER_TAIL, 6, 1}};
static const struct stg_prover_pool pool = {
    .candidates = {.n = 8}, .groups = groups, .n_groups = 3};

static const stg_proof proofs[] = {
    {.logp = -1, .depth = 2, .outcome = STG_OUTCOME_PROVED}, /* rank 1: the next is not proved */
    {.logp = 0, .depth = 4, .outcome = STG_OUTCOME_FAILED},
    {.logp = -2, .depth = 3, .outcome = STG_OUTCOME_PROVED},
    {.logp = -5, .depth = 1, .outcome = STG_OUTCOME_OUT_OF_STEPS}, /* rank 2.5 */
    {.logp = -1, .depth = 2, .outcome = STG_OUTCOME_PROVED},
    {.logp = -5, .depth = 2, .outcome = STG_OUTCOME_GAVE_UP},
    {.logp = -3, .depth = 5, .outcome = STG_OUTCOME_PROVED}, /* rank 1 */
    {.logp = -4, .depth = 6, .outcome = STG_OUTCOME_PROVED},
};

static void near(double value, double wanted) {
  assert_true(value > wanted - 1e-12 && value < wanted + 1e-12);
}

static void queries_are_ranked_among_their_own_corruptions(void **state) {
  struct stg_prove_sides sides;
  float ranks[3];
  (void)state;
  assert_int_equal(stg_prove_sides_count(&pool, proofs, ranks, &sides, NULL), STG_OK);
  assert_true(ranks[0] == 1 && ranks[1] == 2.5F && ranks[2] == 1);
  assert_int_equal(sides.n, 3);
  const struct stg_prove_side *head = &sides.of[0];
  assert_string_equal(head->name, "head");
  near(stg_oracle_mrr(&head->ranking), (1 + 1 / 2.5) / 2);
  near(stg_oracle_hits(&head->ranking, 0), 0.5);
  near(stg_oracle_hits(&head->ranking, 1), 1);
  assert_int_equal(head->ranking.tied, 1);
  assert_int_equal(head->queries, 2);
  assert_int_equal(head->corruptions, 4);
  assert_int_equal(head->proved, 1);
  assert_int_equal(head->proved_corruptions, 2);
  assert_int_equal(head->steps, 14);
  assert_string_equal(sides.of[1].name, "tail");
  assert_int_equal(sides.of[1].proved_corruptions, 1);
}

static void both_is_the_mean_over_queries_and_not_over_sides(void **state) {
  struct stg_prove_sides sides;
  float ranks[3];
  (void)state;
  assert_int_equal(stg_prove_sides_count(&pool, proofs, ranks, &sides, NULL), STG_OK);
  const struct stg_prove_side *both = &sides.of[2];
  assert_string_equal(both->name, "both");
  near(stg_oracle_mrr(&both->ranking), (1 + 1 / 2.5 + 1) / 3);
  near(stg_oracle_hits(&both->ranking, 0), 2 / 3.0);
  assert_int_equal(both->queries, 3);
  assert_int_equal(both->corruptions, 5);
  assert_int_equal(both->proved, 2);
  assert_int_equal(both->proved_corruptions, 3);
  assert_int_equal(both->steps, 25);
}

static void a_side_alone_has_no_both_and_keeps_its_name(void **state) {
  struct stg_prover_pool tail = {.candidates = {.n = 2}, .groups = groups, .n_groups = 1};
  struct stg_prover_group group = {0, STG_PROVER_TAIL, 0, 1};
  struct stg_prove_sides sides;
  float rank;
  (void)state;
  tail.groups = &group;
  assert_int_equal(stg_prove_sides_count(&tail, &proofs[6], &rank, &sides, NULL), STG_OK);
  assert_int_equal(sides.n, 1);
  assert_string_equal(sides.of[0].name, "tail");
}

static void memory_that_is_not_there_is_told(void **state) {
  stg_error err = STG_ERROR_INIT;
  struct stg_prove_sides sides = {.n = 7};
  float ranks[3];
  (void)state;
  stg_alloc_fail_at(1);
  const stg_status status = stg_prove_sides_count(&pool, proofs, ranks, &sides, &err);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_E_NO_MEMORY);
  assert_string_equal(err.message, "out of memory: 64 bytes for the scores of candidates");
  assert_int_equal(sides.n, 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queries_are_ranked_among_their_own_corruptions),
      cmocka_unit_test(both_is_the_mean_over_queries_and_not_over_sides),
      cmocka_unit_test(a_side_alone_has_no_both_and_keeps_its_name),
      cmocka_unit_test(memory_that_is_not_there_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
