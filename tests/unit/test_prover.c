/*
 * test_prover.c: provers as hosts use them: the results of the CPU backend, held against the
 * reference; what is left of a run; what is refused, and in which words. STG_TEST_QUICK=1: fewer
 * traces.
 */
#include <steergraph/prover.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/prover_objects.h"
#include "tests/support/quick.h"

#define N 60

static struct prover_objects bed;

static void open_bed(void) {
  prover_objects_open(&bed, STG_BACKEND_CPU, STG_KB_FAMILY, prover_small_net, N);
  assert_int_equal(stg_prover_create(bed.engine, &bed.desc, &bed.prover, NULL), STG_OK);
}

static void run(void) {
  prover_objects_run(&bed);
}

static void pools_have_the_results_of_the_reference(void **state) {
  (void)state;
  open_bed();
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  for (int sample = 0; sample < 2; sample++) {
    bed.run.sample = sample == 1;
    bed.run.seed = 11;
    run();
    prover_objects_judge(&bed);
  }
  stg_prover_counts other = {.struct_size = 8, .proofs = 77};
  stg_prover_get_counts(bed.prover, &other);
  assert_int_equal(other.proofs, 77);
  prover_objects_close(&bed);
}

static void a_trace_is_of_its_query_and_goes_with_the_next_run(void **state) {
  const stg_prover_step *steps = NULL;
  size_t n = 7;
  (void)state;
  open_bed();
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  stg_prover_get_trace(bed.prover, &steps, &n);
  assert_int_equal(n, 0);
  bed.run.trace = true;
  for (bed.run.traced = 0; bed.run.traced < N; bed.run.traced += test_is_quick() ? 15 : 1) {
    run();
    const stg_proof *proof = &bed.proofs[bed.run.traced];
    double logp = 0;
    stg_prover_get_trace(bed.prover, &steps, &n);
    assert_int_equal(n, proof->depth);
    assert_memory_equal(&steps[0].state.atoms[0], &bed.queries[bed.run.traced], sizeof(stg_atom));
    for (size_t k = 0; k < n; k++) {
      double sum = 0;
      assert_int_equal(steps[k].action, proof->actions[k]);
      for (uint32_t i = 0; i < steps[k].n_children; i++) {
        sum += exp((double)steps[k].logits[i]);
      }
      logp += (double)steps[k].logits[steps[k].action] - log(sum);
      const stg_prover_state *picked = &steps[k].children[steps[k].action];
      if (k + 1 < n) {
        assert_int_equal(picked->n, steps[k + 1].state.n);
        assert_memory_equal(picked->atoms, steps[k + 1].state.atoms, picked->n * sizeof(stg_atom));
      } else {
        const bool proved = picked->atoms[0].pred == bed.desc.predicates + 1;
        assert_int_equal(proved, proof->outcome == STG_OUTCOME_PROVED);
      }
    }
    assert_true(fabs(logp - (double)proof->logp) < 1e-4);
  }
  bed.run.trace = false;
  run();
  stg_prover_get_trace(bed.prover, &steps, &n);
  assert_int_equal(n, 0);
  prover_objects_close(&bed);
}

static void any_threads_give_the_same_proofs(void **state) {
  static stg_proof first[N];
  (void)state;
  open_bed();
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  run(); /* as many as processors */
  memcpy(first, bed.proofs, sizeof first);
  for (bed.run.threads = 1; bed.run.threads <= 3; bed.run.threads++) {
    memset(bed.proofs, 0, sizeof bed.proofs);
    run();
    for (size_t i = 0; i < N; i++) {
      assert_true(first[i].logp >= bed.proofs[i].logp && first[i].logp <= bed.proofs[i].logp);
      assert_memory_equal(first[i].actions, bed.proofs[i].actions, sizeof first[i].actions);
    }
  }
  prover_objects_close(&bed);
}

static void an_engine_with_a_prover_is_not_destroyed(void **state) {
  stg_error err = STG_ERROR_INIT;
  (void)state;
  open_bed();
  assert_int_equal(stg_engine_destroy(bed.engine, &err), STG_E_BUSY);
  assert_string_equal(err.message, "stg_engine_destroy: 1 provers are alive; destroy them first");
  assert_int_equal(stg_prover_destroy(NULL, NULL), STG_OK);
  prover_objects_close(&bed);
}

static void what_there_is_of_no_prover_is_nothing(void **state) {
  stg_prover_counts counts = {.struct_size = sizeof counts, .states = 7};
  stg_prover_memory memory = {.struct_size = sizeof memory, .slots = 7};
  const stg_prover_step *steps = (const stg_prover_step *)(const void *)&counts;
  size_t n = 7;
  (void)state;
  open_bed();
  stg_prover_get_counts(NULL, &counts);
  stg_prover_get_memory(NULL, &memory);
  stg_prover_get_counts(bed.prover, NULL);
  stg_prover_get_memory(bed.prover, NULL);
  stg_prover_get_trace(NULL, &steps, &n);
  assert_int_equal(counts.states, 7);
  assert_int_equal(memory.slots, 7);
  assert_null(steps);
  assert_int_equal(n, 0);
  prover_objects_close(&bed);
}

static void assert_create(stg_prover_desc desc, stg_status status, const char *message) {
  stg_prover *prover = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_prover_create(bed.engine, &desc, &prover, &err), status);
  assert_string_equal(err.message, message);
  assert_null(prover);
}

#define REFUSED(change, status, message)                                                           \
  do {                                                                                             \
    stg_prover_desc desc = bed.desc;                                                               \
    change;                                                                                        \
    assert_create(desc, status, message);                                                          \
  } while (0)

static void what_no_prover_can_be_is_refused(void **state) {
  static stg_prover_rule bodyless = {.head = {1, 1, 1}, .n_body = 1};
  char size[80];
  (void)state;
  open_bed();
  snprintf(size, sizeof size, "stg_prover_create: desc is NULL, or struct_size is not %zu",
           sizeof bed.desc);
  REFUSED(desc.struct_size = 8, STG_E_INVALID, size);
  REFUSED(desc.atoms = 9, STG_E_INVALID, "atoms: 9 is not in 1..8");
  REFUSED(desc.children = 1, STG_E_INVALID, "children: 1 is not in 2..128");
  REFUSED(desc.children = 129, STG_E_INVALID, "children: 129 is not in 2..128");
  REFUSED(desc.depth = 65, STG_E_INVALID, "depth: 65 is not in 1..64");
  REFUSED(desc.hidden = 258, STG_E_UNSUPPORTED, "hidden: 258 is not even and in 2..256");
  REFUSED(desc.hidden = 41, STG_E_UNSUPPORTED, "hidden: 41 is not even and in 2..256");
  REFUSED(desc.embed = 42, STG_E_UNSUPPORTED, "embed: 42 is not even and in 2..40, up to hidden");
  REFUSED(desc.embed = 33, STG_E_UNSUPPORTED, "embed: 33 is not even and in 2..40, up to hidden");
  REFUSED(desc.blocks = 65, STG_E_UNSUPPORTED, "blocks: 65 is not in 1..64");
  REFUSED(desc.arithmetic = (stg_arithmetic)3, STG_E_INVALID,
          "arithmetic: 3 is none of f32 (0), tf32x3 (1), tf32 (2)");
  REFUSED(desc.capacity = 1048577, STG_E_INVALID, "capacity: 1048577 is not in 1..1048576");
  REFUSED(desc.epsilon = -1, STG_E_INVALID, "epsilon: -1 is not finite and above 0");
  REFUSED(desc.epsilon = INFINITY, STG_E_INVALID, "epsilon: inf is not finite and above 0");
  REFUSED(desc.facts = NULL; desc.n_facts = 3, STG_E_INVALID, "facts: NULL for 3 of them");
  REFUSED(desc.rules = NULL; desc.n_rules = 2, STG_E_INVALID, "rules: NULL for 2 of them");
  REFUSED(desc.n_facts = SIZE_MAX, STG_E_INVALID,
          "facts: 18446744073709551615 are more than 1073741824");
  REFUSED(desc.n_rules = SIZE_MAX, STG_E_INVALID,
          "rules: 18446744073709551615 are more than 134217728");
  REFUSED(desc.rules = &bodyless;
          desc.n_rules = 1, STG_E_INVALID, "rules[0]: its body of 1 atoms is NULL");
  bodyless.n_body = 9;
  REFUSED(desc.rules = &bodyless;
          desc.n_rules = 1, STG_E_INVALID, "rules[0]: its body has 9 atoms, must be 1 to 8");
  REFUSED(
      desc.predicates = INT32_MAX - 3;
      desc.n_facts = desc.n_rules = 0, STG_E_INVALID,
      "predicates: 2147483644 are more than 1048576, which are 1048576 and one for each atom of "
      "facts and rules");
  REFUSED(desc.predicates = 0, STG_E_INVALID,
          "0 predicates and 2968 constants are no knowledge base");
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_prover_create(NULL, &bed.desc, &bed.prover, &err), STG_E_INVALID);
  assert_string_equal(err.message, "stg_prover_create: engine or ret_prover is NULL");
  prover_objects_close(&bed);
}

static void weights_that_are_none_are_refused_and_change_nothing(void **state) {
  stg_error err = STG_ERROR_INIT;
  stg_prover_weights weights;
  char size[100];
  (void)state;
  open_bed();
  assert_int_equal(stg_prover_run(bed.prover, &bed.run, bed.proofs, &err), STG_E_INVALID);
  assert_string_equal(err.message,
                      "stg_prover_run: there are no weights; call stg_prover_set_weights");
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  run();
  const float logp = bed.proofs[0].logp;
  weights = bed.weights;
  weights.head_bias = NULL;
  assert_int_equal(stg_prover_set_weights(bed.prover, &weights, &err), STG_E_INVALID);
  assert_string_equal(err.message, "stg_prover_set_weights: head_bias is NULL");
  bed.blocks[2][prover_small_net.hidden + 3] = NAN; /* the last block's */
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, &err), STG_E_NON_FINITE);
  assert_string_equal(err.message, "stg_prover_set_weights: block_gain[43] is nan");
  bed.blocks[2][prover_small_net.hidden + 3] = 1;
  weights.struct_size = 8;
  assert_int_equal(stg_prover_set_weights(bed.prover, &weights, &err), STG_E_INVALID);
  snprintf(size, sizeof size,
           "stg_prover_set_weights: prover or weights is NULL, or struct_size is not %zu",
           sizeof weights);
  assert_string_equal(err.message, size);
  run();
  assert_true(bed.proofs[0].logp >= logp && bed.proofs[0].logp <= logp);
  prover_objects_close(&bed);
}

static void assert_run(stg_prover_run_desc desc, const char *message) {
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_prover_run(bed.prover, &desc, bed.proofs, &err), STG_E_INVALID);
  assert_string_equal(err.message, message);
}

static void runs_of_what_are_no_queries_are_refused(void **state) {
  stg_error err = STG_ERROR_INIT;
  char size[100];
  (void)state;
  open_bed();
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  stg_prover_run_desc desc = bed.run;
  desc.struct_size = 8;
  snprintf(size, sizeof size, "stg_prover_run: prover or desc is NULL, or struct_size is not %zu",
           sizeof desc);
  assert_run(desc, size);
  desc = bed.run;
  desc.queries = NULL;
  assert_run(desc, "stg_prover_run: queries is NULL for 60 queries");
  desc = bed.run;
  assert_int_equal(stg_prover_run(bed.prover, &desc, NULL, &err), STG_E_INVALID);
  assert_string_equal(err.message, "stg_prover_run: ret_proofs is NULL for 60 queries");
  desc.threads = 1025;
  assert_run(desc, "threads: 1025 are more than 1024");
  desc = bed.run;
  desc.trace = true;
  desc.traced = N;
  assert_run(desc, "traced: 60 is none of 60 queries");
  bed.queries[7] = (stg_atom){1, 2969, 3};
  assert_run(bed.run, "queries[7]: atom 1(2969,3) is none of 12 predicates and 2968 constants");
  bed.queries[7] = (stg_atom){13, 1, 3};
  assert_run(bed.run, "queries[7]: atom 13(1,3) is none of 12 predicates and 2968 constants");
  bed.queries[7] = (stg_atom){1, 1, -1};
  assert_run(bed.run, "queries[7]: atom 1(1,-1) is none of 12 predicates and 2968 constants");
  bed.run.n = 0;
  bed.run.queries = NULL;
  assert_int_equal(stg_prover_run(bed.prover, &bed.run, NULL, NULL), STG_OK);
  prover_objects_close(&bed);
}

/* Each allocation of a call fails once; then the call succeeds. */
static void without_memory_calls_fail_and_leave_things_as_they_were(void **state) {
  stg_prover *prover = NULL;
  stg_error err = STG_ERROR_INIT;
  size_t nth = 0;
  stg_status status = STG_E_NO_MEMORY;
  (void)state;
  open_bed();
  while (status == STG_E_NO_MEMORY) {
    stg_alloc_fail_at(++nth);
    status = stg_prover_create(bed.engine, &bed.desc, &prover, &err);
    stg_alloc_fail_at(0);
  }
  assert_int_equal(status, STG_OK);
  assert_true(nth > 6); /* the prover, three copies, the tables, what its plan takes */
  assert_int_equal(stg_prover_destroy(prover, NULL), STG_OK);
  for (nth = 1; nth <= 4; nth++) { /* blocks, the policy, its layers, its weights */
    stg_alloc_fail_at(nth);
    assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, &err), STG_E_NO_MEMORY);
    stg_alloc_fail_at(0);
  }
  assert_int_equal(stg_prover_set_weights(bed.prover, &bed.weights, NULL), STG_OK);
  bed.run.trace = true;
  bed.run.threads = 1;
  run();
  for (nth = 1; nth <= 8;
       nth++) { /* queries, results, steps; the trace's three; the worker's two */
    const stg_prover_step *steps = NULL;
    size_t n = 0;
    stg_alloc_fail_at(nth);
    assert_int_equal(stg_prover_run(bed.prover, &bed.run, bed.proofs, &err), STG_E_NO_MEMORY);
    stg_alloc_fail_at(0);
    stg_prover_get_trace(bed.prover, &steps, &n);
    assert_int_equal(n, bed.proofs[0].depth);
  }
  run();
  prover_objects_close(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pools_have_the_results_of_the_reference),
      cmocka_unit_test(a_trace_is_of_its_query_and_goes_with_the_next_run),
      cmocka_unit_test(any_threads_give_the_same_proofs),
      cmocka_unit_test(an_engine_with_a_prover_is_not_destroyed),
      cmocka_unit_test(what_there_is_of_no_prover_is_nothing),
      cmocka_unit_test(what_no_prover_can_be_is_refused),
      cmocka_unit_test(weights_that_are_none_are_refused_and_change_nothing),
      cmocka_unit_test(runs_of_what_are_no_queries_are_refused),
      cmocka_unit_test(without_memory_calls_fail_and_leave_things_as_they_were),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
