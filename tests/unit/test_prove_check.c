/*
 * test_prove_check.c: what judges the proofs of `steergraph prove` finds what is wrong with one of
 * them, in whatever part of the pool it looks; and the weights that both sides search with.
 */
#include "tools/prove/check.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "specs/prover_pool.h"
#include "specs/spec.h"
#include "tools/prove/net.h"

#define EMBED 6
#define HIDDEN 8
#define BLOCKS 3

static const char text[] =
    "{\"steergraph\": 1, \"family\": \"prover\","
    " \"knowledge\": {\"generate\": {\"kind\": \"family\", \"seed\": 2, \"size\": 60}},"
    " \"queries\": {\"first\": 4},"
    " \"policy\": {\"embed\": 6, \"hidden\": 8, \"blocks\": 3,"
    "  \"weights\": {\"random\": {\"seed\": 1}}},"
    " \"corruptions\": {\"count\": 4, \"seed\": 1}}";

/* A pool that was proved: by the reference, so that nothing is wrong. */
struct bed {
  struct stg_spec spec;
  struct stg_prover_pool pool;
  struct stg_prove_job_net net;
  struct stg_oracle_search search;
  size_t *originals;
  stg_proof *proofs;
  struct stg_prove_judged judged;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static stg_proof prove(const struct bed *bed, size_t i) {
  struct stg_oracle_proof proof;
  stg_oracle_prove(&bed->search, bed->pool.candidates.list[i], i, NULL, 0, &proof);
  stg_proof same = {
      .logp = (float)proof.logp, .depth = proof.depth, .outcome = (stg_outcome)proof.outcome};
  memcpy(same.actions, proof.actions, sizeof same.actions);
  return same;
}

static void open_bed(struct bed *bed) {
  stg_error err = STG_ERROR_INIT;
  *bed = (struct bed){.originals = NULL};
  ok(stg_spec_parse("w.json", text, sizeof text - 1, NULL, &bed->spec, &err), &err);
  struct stg_prover_workload *w = &bed->spec.of.prover;
  ok(stg_prover_pool_make(w, &bed->pool, &err), &err);
  ok(stg_prove_net_init(w, &bed->net, &err), &err);
  bed->search = (struct stg_oracle_search){
      .kb = &w->kb,
      .net = &bed->net.sizes,
      .weights = &bed->net.reference,
      .limits = {.atoms = w->sizes.atoms, .children = w->children, .depth = w->depth},
  };
  bed->proofs = stg_calloc(bed->pool.candidates.n, sizeof *bed->proofs);
  bed->originals = stg_calloc(bed->pool.n_groups, sizeof *bed->originals);
  assert_non_null(bed->proofs);
  assert_non_null(bed->originals);
  for (size_t i = 0; i < bed->pool.candidates.n; i++) {
    bed->proofs[i] = prove(bed, i);
  }
  for (size_t i = 0; i < bed->pool.n_groups; i++) {
    bed->originals[i] = bed->pool.groups[i].first;
  }
  bed->judged = (struct stg_prove_judged){.search = &bed->search,
                                          .candidates = bed->pool.candidates.list,
                                          .proofs = bed->proofs,
                                          .originals = bed->originals,
                                          .n = bed->pool.candidates.n,
                                          .n_originals = bed->pool.n_groups,
                                          .sample = SIZE_MAX,
                                          .threads = 2};
}

static void close_bed(struct bed *bed) {
  stg_free(bed->proofs);
  stg_free(bed->originals);
  stg_prove_net_finish(&bed->net);
  stg_prover_pool_finish(&bed->pool);
  stg_spec_finish(&bed->spec);
}

static struct stg_prove_check check(const struct bed *bed) {
  stg_error err = STG_ERROR_INIT;
  struct stg_prove_check result;
  ok(stg_prove_check(&bed->judged, &result, &err), &err);
  return result;
}

/* One of more than one step, with children that are not alone. */
static size_t find_long(const struct bed *bed) {
  for (size_t i = 5; i < bed->pool.candidates.n; i++) {
    if (bed->proofs[i].depth > 1 && bed->proofs[i].logp < 0) {
      return i;
    }
  }
  fail_msg("%s", "all proofs are short");
  return 0;
}

static void finds_nothing_where_nothing_is_wrong(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const struct stg_prove_check found = check(&bed);
  assert_true(found.ok);
  assert_int_equal(found.checked, bed.pool.candidates.n);
  assert_int_equal(found.violations, 0);
  assert_true(found.first == SIZE_MAX);
  assert_true(found.max_logp_err < 1e-5);
  close_bed(&bed);
}

static void expect(struct bed *bed, size_t at, enum stg_prove_fault fault, const char *name) {
  const struct stg_prove_check found = check(bed);
  assert_false(found.ok);
  assert_int_equal(found.violations, 1);
  assert_int_equal(found.first, at);
  assert_int_equal(found.fault, fault);
  assert_string_equal(stg_prove_fault_name(found.fault), name);
  bed->proofs[at] = prove(bed, at);
}

static void finds_each_fault_and_where_it_is(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const size_t at = find_long(&bed);
  stg_proof *proof = &bed.proofs[at];
  proof->actions[1] = 127;
  assert_int_equal(check(&bed).step, 2);
  expect(&bed, at, STG_PROVE_FAULT_PICK, "pick");
  proof->depth--; /* a pick too few */
  expect(&bed, at, STG_PROVE_FAULT_PICK, "pick");
  proof->depth++;
  expect(&bed, at, STG_PROVE_FAULT_DEPTH, "depth");
  proof->outcome = proof->outcome == STG_OUTCOME_PROVED ? STG_OUTCOME_FAILED : STG_OUTCOME_PROVED;
  expect(&bed, at, STG_PROVE_FAULT_OUTCOME, "outcome");
  proof->logp += 2e-4F;
  bed.judged.logp_bound = 3e-4;
  assert_true(check(&bed).ok);
  bed.judged.logp_bound = 0;
  expect(&bed, at, STG_PROVE_FAULT_LOGP, "logp");
  proof->logp = (float)NAN;
  assert_true(isinf(check(&bed).max_logp_err));
  expect(&bed, at, STG_PROVE_FAULT_OVERFLOW, "overflow");
  assert_true(check(&bed).ok);
  close_bed(&bed);
}

/* Weights whose products float32 does not have. What is wrong with a proof is that then, whichever
 * part of it shows it; a proof that is right all the same is. */
static void what_leaves_float32_is_called_so(void **state) {
  static const float gain = 3e38F;
  struct bed bed;
  (void)state;
  open_bed(&bed);
  assert_int_equal(check(&bed).overflows, 0);
  const size_t at = find_long(&bed);
  const float *const own = bed.net.reference.out.bias;
  float large[EMBED];
  for (size_t i = 0; i < EMBED; i++) {
    large[i] = own[i] + gain;
  }
  bed.net.reference.out.bias = large;
  for (size_t i = 0; i < bed.pool.candidates.n; i++) {
    bed.proofs[i] = prove(&bed, i);
  }
  const struct stg_prove_check right = check(&bed);
  assert_true(right.ok);
  assert_true(right.overflows > 0);
  bed.proofs[at].depth++;
  const struct stg_prove_check found = check(&bed);
  assert_int_equal(found.violations, 1);
  assert_int_equal(found.fault, STG_PROVE_FAULT_OVERFLOW);
  bed.net.reference.out.bias = own;
  close_bed(&bed);
}

/* A sample that does not have it, even one of none. */
static void a_logp_that_is_no_number_is_found_wherever_it_is(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const size_t last = bed.pool.candidates.n - 1;
  bed.proofs[last].logp = -(float)INFINITY;
  for (bed.judged.sample = 0; bed.judged.sample < 3; bed.judged.sample++) {
    const struct stg_prove_check found = check(&bed);
    assert_int_equal(found.first, last);
    assert_int_equal(found.fault, STG_PROVE_FAULT_OVERFLOW);
    assert_int_equal(found.checked, bed.judged.sample + 1);
    assert_int_equal(found.overflows, 1);
  }
  close_bed(&bed);
}

static void the_first_of_several_is_told_whatever_the_threads(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const size_t n = bed.pool.candidates.n;
  for (size_t i = 3; i < n; i += 4) {
    bed.proofs[i].logp += 1;
  }
  for (bed.judged.threads = 1; bed.judged.threads < 6; bed.judged.threads++) {
    const struct stg_prove_check found = check(&bed);
    assert_int_equal(found.first, 3);
    assert_int_equal(found.violations, n / 4);
    assert_true(fabs(found.max_logp_err - 1) < 1e-4);
  }
  close_bed(&bed);
}

static void a_sample_is_as_large_as_asked_and_half_of_it_are_queries(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const size_t n = bed.pool.candidates.n;
  for (size_t i = 0; i < bed.pool.n_groups; i++) {
    bed.proofs[bed.originals[i]].logp += 1; /* so that they are told from the others */
  }
  for (size_t sample = 0; sample <= n + 1; sample++) {
    bed.judged.sample = sample;
    const struct stg_prove_check found = check(&bed);
    const size_t half = (sample + 1) / 2;
    assert_int_equal(found.checked, sample < n ? sample : n);
    assert_true(found.violations >= (half < bed.pool.n_groups ? half : bed.pool.n_groups));
  }
  bed.judged.sample = 4;
  assert_true(check(&bed).violations < 4); /* others too */
  close_bed(&bed);
}

static void numbers_count_from_the_first_of_the_pool(void **state) {
  struct bed bed;
  (void)state;
  open_bed(&bed);
  bed.search.sample = true;
  bed.search.seed = 3;
  const size_t at = find_long(&bed);
  bed.proofs[at] = prove(&bed, at); /* as number `at` */
  bed.judged.candidates = &bed.pool.candidates.list[at];
  bed.judged.proofs = &bed.proofs[at];
  bed.judged.n = 1;
  bed.judged.first = at;
  assert_true(check(&bed).ok);
  bed.proofs[at].logp += 1;
  assert_int_equal(check(&bed).first, at);
  close_bed(&bed);
}

struct told {
  size_t calls, most;
};

static void tell(void *user, size_t done, size_t n) {
  struct told *told = user;
  assert_true(done <= n);
  told->calls++;
  told->most = done > told->most ? done : told->most;
}

static void says_how_far_it_is(void **state) {
  struct told told = {0};
  struct bed bed;
  (void)state;
  open_bed(&bed);
  bed.judged.threads = 1;
  bed.judged.progress = tell;
  bed.judged.user = &told;
  check(&bed);
  assert_int_equal(told.calls, bed.pool.candidates.n);
  assert_int_equal(told.most, bed.pool.candidates.n);
  close_bed(&bed);
}

static void blocks_stand_side_by_side_by_kind(void **state) {
  static const size_t counts[] = {(size_t)HIDDEN * HIDDEN, HIDDEN, HIDDEN, HIDDEN};
  struct bed bed;
  (void)state;
  open_bed(&bed);
  const stg_prover_weights *given = &bed.net.given;
  const float *const kinds[] = {given->block_weight, given->block_bias, given->block_gain,
                                given->block_shift};
  for (size_t i = 0; i < (size_t)4 * BLOCKS; i++) {
    const size_t kind = i % 4;
    const float *tensor = bed.net.tensors.tensors[STG_PROVE_BLOCKS + i].data;
    assert_memory_equal(kinds[kind] + i / 4 * counts[kind], tensor, counts[kind] * sizeof(float));
  }
  assert_ptr_equal(given->block_bias, given->block_weight + BLOCKS * counts[0]);
  assert_ptr_equal(given->block_shift, given->block_gain + (size_t)BLOCKS * HIDDEN);
  assert_ptr_equal(given->out_bias, bed.net.tensors.tensors[bed.net.tensors.n_tensors - 1].data);
  assert_int_equal(bed.net.sizes.embed, EMBED);
  close_bed(&bed);
}

static void memory_that_is_not_there_is_told(void **state) {
  struct bed bed;
  struct stg_prove_check result;
  (void)state;
  open_bed(&bed);
  for (size_t nth = 1; nth <= 4; nth++) {
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    const stg_status status = stg_prove_check(&bed.judged, &result, &err);
    stg_alloc_fail_at(0);
    assert_int_equal(status, STG_E_NO_MEMORY);
    assert_non_null(strstr(err.message, "check"));
  }
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_nothing_where_nothing_is_wrong),
      cmocka_unit_test(finds_each_fault_and_where_it_is),
      cmocka_unit_test(what_leaves_float32_is_called_so),
      cmocka_unit_test(a_logp_that_is_no_number_is_found_wherever_it_is),
      cmocka_unit_test(the_first_of_several_is_told_whatever_the_threads),
      cmocka_unit_test(a_sample_is_as_large_as_asked_and_half_of_it_are_queries),
      cmocka_unit_test(numbers_count_from_the_first_of_the_pool),
      cmocka_unit_test(says_how_far_it_is),
      cmocka_unit_test(blocks_stand_side_by_side_by_kind),
      cmocka_unit_test(memory_that_is_not_there_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
