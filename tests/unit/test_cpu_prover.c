/*
 * test_cpu_prover.c: pools of queries on the CPU: the same bits for any threads, pools and batches;
 * what is told and written down on the way; what happens without memory or threads.
 */
#include "engine/cpu/prover.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "tests/support/prove_pool.h"
#include "tests/support/quick.h"

#define N 96

static const struct stg_prove_net small = {
    .embed = 34, .hidden = 40, .blocks = 2, .epsilon = 1e-5f};

static struct prove_pool pool;
static struct stg_prove_result first[PROVE_POOL_MOST];

/* Threads that may still be started; below 0: all. */
static int startable = -1;
/* NOLINTBEGIN: names of the linker */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*work)(void *),
                          void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*work)(void *),
                          void *user) {
  if (startable == 0) {
    return EAGAIN;
  }
  startable -= startable > 0;
  return __real_pthread_create(thread, attr, work, user);
}
/* NOLINTEND */

static bool is_same(size_t i) {
  const struct stg_prove_result *a = &first[i];
  const struct stg_prove_result *b = &pool.results[i];
  return stg_f32_bits(a->logp) == stg_f32_bits(b->logp) && a->depth == b->depth &&
         a->outcome == b->outcome && a->close == b->close &&
         memcmp(a->actions, b->actions, sizeof a->actions) == 0;
}

static void assert_same(size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!is_same(i)) {
      fail_msg("query %d has another result", (int)i);
    }
  }
}

static void keep_results(void) {
  prove_pool_run(&pool);
  memcpy(first, pool.results, sizeof first);
}

static void any_threads_give_the_same_bits_and_counts(void **state) {
  (void)state;
  for (int sample = 0; sample < 2; sample++) {
    prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
    pool.pool.sample = sample == 1;
    pool.pool.threads = 1;
    keep_results();
    const struct stg_prove_counts counts = pool.counts;
    for (size_t threads = 2; threads <= (test_is_quick() ? 3 : 9); threads++) {
      pool.pool.threads = threads;
      prove_pool_run(&pool);
      assert_same(N);
      assert_memory_equal(&counts, &pool.counts, sizeof counts);
    }
    pool.pool.threads = 1000; /* more than queries */
    prove_pool_run(&pool);
    assert_same(N);
    prove_pool_close(&pool);
  }
}

static void a_query_does_not_depend_on_the_pool_it_is_in(void **state) {
  static const size_t sizes[] = {0, 1, 2, 7, 63, 64, 65};
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, N, &pool);
  pool.pool.sample = true;
  keep_results();
  struct stg_prove_counts before = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    pool.pool.n = sizes[i];
    prove_pool_run(&pool);
    assert_same(sizes[i]);
    assert_int_equal(pool.counts.slot_steps, pool.counts.query_steps);
    assert_true(i == 0 || pool.counts.query_steps > before.query_steps);
    before = pool.counts;
  }
  prove_pool_close(&pool);
}

static void seeds_give_other_samples(void **state) {
  int differ = 0;
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
  pool.pool.sample = true;
  keep_results();
  pool.pool.seed += (uint64_t)1 << 40;
  prove_pool_run(&pool);
  for (size_t i = 0; i < N; i++) {
    differ += !is_same(i);
  }
  assert_true(differ > N / 4);
  prove_pool_close(&pool);
}

/* Each limit at both ends, judged by the reference. */
static void limits_are_those_of_the_reference(void **state) {
  static const struct stg_prove_limits limits[] = {
      {6, 2, 20}, {6, 128, 64}, {1, 120, 20}, {6, 120, 1}, {2, 3, 2}};
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, N, &pool);
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    pool.pool.limits = limits[i];
    /* the mean divides by `atoms` */
    stg_cpu_policy_destroy(pool.cpu_policy);
    assert_int_equal(stg_cpu_policy_create(&small, &pool.policy.weights, &pool.tables.base,
                                           limits[i].atoms, &pool.cpu_policy, NULL),
                     STG_OK);
    pool.pool.policy = pool.cpu_policy;
    prove_pool_run(&pool);
    const struct prove_verdict verdict = prove_pool_judge(&pool);
    if (verdict.wrong + verdict.off > 0) {
      fail_msg("limits %d: %d wrong, %d off", (int)i, (int)verdict.wrong, (int)verdict.off);
    }
  }
  prove_pool_close(&pool);
}

static void a_state_has_the_same_bits_alone_and_in_a_batch(void **state) {
  enum { STATES = 9 };
  struct stg_prove_state states[STATES];
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, 1, &pool);
  const size_t stride = stg_cpu_policy_stride(pool.cpu_policy);
  float *scratch = stg_malloc_aligned(stg_cpu_policy_scratch(pool.cpu_policy, STATES) * 4);
  float *all = stg_malloc_aligned(STATES * stride * sizeof *all);
  float *alone = stg_malloc_aligned(stride * sizeof *alone);
  for (int i = 0; i < STATES; i++) {
    const int n = (int)pool.kb.constants.n;
    states[i] = (struct stg_prove_state){.n = 1 + (unsigned)i % 6};
    for (unsigned k = 0; k < states[i].n; k++) {
      states[i].atoms[k] = (struct stg_prove_atom){1 + (i + (int)k) % 4, 1 + i, n + 1 + (int)k};
    }
  }
  states[STATES - 1] = stg_cpu_word(&pool.tables.base, STG_PROVE_ENDF);
  stg_cpu_policy_run(pool.cpu_policy, states, STATES, scratch, all);
  for (size_t i = 0; i < STATES; i++) {
    stg_cpu_policy_run(pool.cpu_policy, &states[i], 1, scratch, alone);
    assert_memory_equal(alone, all + i * stride, stride * sizeof *alone);
    struct stg_oracle_state own = {.n = states[i].n};
    double wanted[STG_ORACLE_MAX_WIDTH];
    for (unsigned k = 0; k < states[i].n; k++) {
      own.atoms[k] = (struct stg_kb_atom){states[i].atoms[k].pred, states[i].atoms[k].arg0,
                                          states[i].atoms[k].arg1};
    }
    stg_oracle_policy(&small, &pool.policy.weights, 6, &own, wanted);
    for (size_t k = 0; k < stride; k++) { /* zeros past the row */
      assert_true(fabs((double)alone[k] - (k < small.embed ? wanted[k] : 0)) < 1e-5);
    }
  }
  stg_free(alone);
  stg_free(all);
  stg_free(scratch);
  prove_pool_close(&pool);
}

/* With weights of zeros all logits are equal: the first child, every time, and close. */
static void of_equal_children_the_first_is_taken(void **state) {
  static const float zeros[40 * 40];
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
  struct stg_prove_weights weights = pool.policy.weights;
  weights.out.weight = zeros;
  stg_cpu_policy_destroy(pool.cpu_policy);
  assert_int_equal(
      stg_cpu_policy_create(&small, &weights, &pool.tables.base, 6, &pool.cpu_policy, NULL),
      STG_OK);
  pool.pool.policy = pool.cpu_policy;
  prove_pool_run(&pool);
  uint64_t close = 0;
  for (size_t i = 0; i < N; i++) {
    for (uint32_t k = 0; k < pool.results[i].depth; k++) {
      assert_int_equal(pool.results[i].actions[k], 0);
    }
    assert_true(pool.results[i].close <= pool.results[i].depth);
    close += pool.results[i].close;
  }
  assert_int_equal(pool.counts.close, close);
  assert_true(close > N / 2);
  prove_pool_close(&pool);
}

/* Outputs so small that no logits are equal, and all of them near. */
static void near_children_are_close(void **state) {
  static float tiny[40 * 40];
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
  prove_pool_run(&pool);
  assert_true(pool.counts.close < 4);
  struct stg_prove_weights weights = pool.policy.weights;
  for (size_t i = 0; i < (size_t)small.embed * small.hidden; i++) {
    tiny[i] = 1e-4f * weights.out.weight[i];
  }
  weights.out.weight = tiny;
  stg_cpu_policy_destroy(pool.cpu_policy);
  assert_int_equal(
      stg_cpu_policy_create(&small, &weights, &pool.tables.base, 6, &pool.cpu_policy, NULL),
      STG_OK);
  pool.pool.policy = pool.cpu_policy;
  prove_pool_run(&pool);
  /* every step with a choice; those without are each the last of a query */
  assert_true(pool.counts.close > 0 && pool.counts.close + N >= pool.counts.query_steps);
  assert_true(pool.counts.close <= pool.counts.query_steps - pool.counts.proofs);
  prove_pool_close(&pool);
}

static void steps_of_one_query_are_written_down(void **state) {
  static struct stg_prove_step steps[20];
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, N, &pool);
  keep_results();
  size_t longest = 0;
  for (size_t i = 1; i < N; i++) {
    longest = first[i].depth > first[longest].depth ? i : longest;
  }
  const struct stg_prove_result *result = &first[longest];
  assert_true(result->depth > 2);
  pool.pool.traced = longest;
  pool.pool.steps = steps;
  prove_pool_run(&pool);
  assert_same(N);
  double logp = 0;
  assert_true(stg_atom_is_equal(steps[0].state.atoms[0], pool.queries[longest]));
  for (uint32_t k = 0; k < result->depth; k++) {
    double sum = 0;
    assert_int_equal(steps[k].action, result->actions[k]);
    for (uint32_t i = 0; i < steps[k].n_children; i++) {
      sum += exp((double)steps[k].logits[i]);
      assert_true(steps[k].logits[i] <= steps[k].logits[steps[k].action]);
    }
    logp += (double)steps[k].logits[steps[k].action] - log(sum);
    if (k + 1 < result->depth) {
      const struct stg_prove_state *next = &steps[k].children[steps[k].action];
      assert_memory_equal(next->atoms, steps[k + 1].state.atoms, next->n * sizeof next->atoms[0]);
    }
  }
  assert_true(fabs(logp - (double)result->logp) < 1e-4);
  prove_pool_close(&pool);
}

struct told {
  size_t calls, last;
  pthread_t thread;
};

static void tell(void *user, size_t done, size_t n) {
  struct told *told = user;
  assert_true(done > told->last && done <= n);
  assert_true(pthread_equal(told->thread, pthread_self()) != 0);
  assert_int_equal(n, pool.pool.n);
  told->calls++;
  told->last = done;
}

static void progress_grows_to_the_end_in_the_thread_of_the_caller(void **state) {
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
  for (size_t threads = 1; threads <= 3; threads++) {
    struct told told = {.thread = pthread_self()};
    pool.pool.threads = threads;
    pool.pool.progress = tell;
    pool.pool.user = &told;
    prove_pool_run(&pool);
    assert_int_equal(told.last, N);
    assert_true(threads > 1 || told.calls == N);
  }
  prove_pool_close(&pool);
}

static void without_memory_nothing_is_run(void **state) {
  stg_error err = STG_ERROR_INIT;
  struct stg_prove_counts counts = {.proofs = 7};
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, 3, &pool);
  pool.results[0].depth = 77;
  for (size_t nth = 1; nth <= 3; nth++) { /* the workers, and what two of them need */
    stg_alloc_fail_at(nth);
    assert_int_equal(stg_cpu_prove(&pool.pool, pool.results, &counts, &err), STG_E_NO_MEMORY);
    stg_alloc_fail_at(0);
    assert_non_null(strstr(err.message, "workers of the proof search"));
  }
  assert_int_equal(pool.results[0].depth, 77);
  assert_int_equal(counts.proofs, 7);
  for (size_t nth = 1; nth <= 3; nth++) {
    struct stg_cpu_policy *policy = NULL;
    stg_alloc_fail_at(nth);
    assert_int_equal(
        stg_cpu_policy_create(&small, &pool.policy.weights, &pool.tables.base, 6, &policy, &err),
        STG_E_NO_MEMORY);
    stg_alloc_fail_at(0);
    assert_non_null(strstr(err.message, nth < 3 ? "a policy of the CPU" : "weights of the CPU"));
    assert_null(policy);
  }
  prove_pool_close(&pool);
}

static void threads_that_do_not_start_are_done_without(void **state) {
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, N, &pool);
  keep_results();
  pool.pool.threads = 4;
  for (int starts = 0; starts < 3; starts++) {
    startable = starts;
    prove_pool_run(&pool);
    assert_int_equal(startable, 0);
    startable = -1;
    assert_same(N);
  }
  prove_pool_close(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_threads_give_the_same_bits_and_counts),
      cmocka_unit_test(a_query_does_not_depend_on_the_pool_it_is_in),
      cmocka_unit_test(seeds_give_other_samples),
      cmocka_unit_test(limits_are_those_of_the_reference),
      cmocka_unit_test(a_state_has_the_same_bits_alone_and_in_a_batch),
      cmocka_unit_test(of_equal_children_the_first_is_taken),
      cmocka_unit_test(near_children_are_close),
      cmocka_unit_test(steps_of_one_query_are_written_down),
      cmocka_unit_test(progress_grows_to_the_end_in_the_thread_of_the_caller),
      cmocka_unit_test(without_memory_nothing_is_run),
      cmocka_unit_test(threads_that_do_not_start_are_done_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
