/*
 * test_cpu_prover_equivalence.c: whole queries on the CPU, held against the reference: picks,
 * depths, outcomes and logp on both generated bases; and that the reference sees what is wrong.
 * STG_TEST_QUICK=1: fewer queries.
 */
#include "engine/cpu/prover.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/prove_pool.h"
#include "tests/support/quick.h"

static const struct stg_prove_net small = {
    .embed = 50, .hidden = 64, .blocks = 3, .epsilon = 1e-5f};
static const struct stg_prove_net whole = {
    .embed = 250, .hidden = 256, .blocks = 8, .epsilon = 1e-5f};

static struct prove_pool pool;

static void assert_equivalent(const struct prove_verdict *verdict, const char *what) {
  if (verdict->wrong != 0 || verdict->off != 0) {
    fail_msg("%s: %d wrong, %d off, by %g", what, (int)verdict->wrong, (int)verdict->off,
             verdict->most);
  }
  print_message("%s: logp within %.2g; %d proved, %d failed, %d gave up, %d out of steps\n", what,
                verdict->most, (int)verdict->outcomes[STG_PROVE_PROVED],
                (int)verdict->outcomes[STG_PROVE_FAILED], (int)verdict->outcomes[STG_PROVE_GAVE_UP],
                (int)verdict->outcomes[STG_PROVE_OUT_OF_STEPS]);
}

static void assert_counts(const struct prove_pool *run) {
  const struct stg_prove_counts wanted = prove_pool_recount(run);
  assert_memory_equal(&run->counts, &wanted, sizeof wanted);
}

static void check_base(enum stg_kb_kind kind, const char *name) {
  const size_t n = test_is_quick() ? 40 : 300;
  char what[60];
  size_t met[STG_PROVE_OUT_OF_STEPS + 1] = {0};
  prove_pool_open(kind, small, n, &pool);
  for (int sample = 0; sample < 2; sample++) {
    pool.pool.sample = sample == 1;
    prove_pool_run(&pool);
    const struct prove_verdict verdict = prove_pool_judge(&pool);
    snprintf(what, sizeof what, "%s, %s", name, sample == 1 ? "sampled" : "largest");
    assert_equivalent(&verdict, what);
    assert_counts(&pool);
    for (int outcome = 0; outcome <= STG_PROVE_OUT_OF_STEPS; outcome++) {
      met[outcome] += verdict.outcomes[outcome];
    }
  }
  assert_int_equal(met[STG_PROVE_RUNNING], 0);
  assert_true(met[STG_PROVE_PROVED] > 0);
  assert_true(met[STG_PROVE_FAILED] + met[STG_PROVE_GAVE_UP] > 0);
  prove_pool_close(&pool);
}

static void queries_of_countries_go_the_way_of_the_reference(void **state) {
  (void)state;
  check_base(STG_KB_COUNTRIES, "countries");
}

static void queries_of_families_go_the_way_of_the_reference(void **state) {
  (void)state;
  check_base(STG_KB_FAMILY, "family");
}

static void a_policy_of_the_full_size_goes_the_way_of_the_reference(void **state) {
  (void)state;
  prove_pool_open(STG_KB_FAMILY, whole, test_is_quick() ? 2 : 12, &pool);
  prove_pool_run(&pool);
  const struct prove_verdict verdict = prove_pool_judge(&pool);
  assert_equivalent(&verdict, "family, full size");
  prove_pool_close(&pool);
}

/* Searched with other weights than the reference has. */
static struct prove_verdict judge_changed(struct stg_prove_net net,
                                          const struct stg_prove_weights *weights) {
  stg_cpu_policy_destroy(pool.cpu_policy);
  assert_int_equal(
      stg_cpu_policy_create(&net, weights, &pool.tables.base, 6, &pool.cpu_policy, NULL), STG_OK);
  pool.pool.policy = pool.cpu_policy;
  prove_pool_run(&pool);
  return prove_pool_judge(&pool);
}

static void the_reference_sees_another_policy(void **state) {
  static float scaled[50 * 64];
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, 40, &pool);
  struct stg_prove_net net = small;
  struct stg_prove_weights weights = pool.policy.weights;
  struct prove_verdict verdict = judge_changed(net, &weights);
  assert_int_equal(verdict.wrong + verdict.off, 0);
  for (size_t i = 0; i < sizeof scaled / sizeof scaled[0]; i++) {
    scaled[i] = weights.out.weight[i] * 1.0005f; /* logits by 1.001 */
  }
  weights.out.weight = scaled;
  verdict = judge_changed(net, &weights);
  assert_true(verdict.wrong + verdict.off > 0);
  net.epsilon = 1e-3f;
  verdict = judge_changed(net, &pool.policy.weights);
  assert_true(verdict.wrong + verdict.off > 0);
  prove_pool_close(&pool);
}

static void the_reference_sees_a_fact_too_few_and_another_limit(void **state) {
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, 40, &pool);
  pool.pool.limits.children = 20;
  prove_pool_run(&pool);
  pool.pool.limits.children = 120;
  struct prove_verdict verdict = prove_pool_judge(&pool);
  assert_true(verdict.wrong + verdict.off > 0);
  pool.kb.facts.n -= 2000; /* the last ones, which hashes still find */
  struct stg_prove_tables tables = {0};
  prove_base_tables(&pool.kb, &tables);
  pool.kb.facts.n += 2000;
  pool.pool.base = &tables.base;
  prove_pool_run(&pool);
  verdict = prove_pool_judge(&pool);
  assert_true(verdict.wrong + verdict.off > 0);
  stg_prove_tables_finish(&tables);
  prove_pool_close(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queries_of_countries_go_the_way_of_the_reference),
      cmocka_unit_test(queries_of_families_go_the_way_of_the_reference),
      cmocka_unit_test(a_policy_of_the_full_size_goes_the_way_of_the_reference),
      cmocka_unit_test(the_reference_sees_another_policy),
      cmocka_unit_test(the_reference_sees_a_fact_too_few_and_another_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
