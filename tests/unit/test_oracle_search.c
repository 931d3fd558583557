/*
 * test_oracle_search.c: whole queries by their reference: how they end, what they score, and
 * whom they follow.
 */
#include "engine/oracle/search.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "specs/kb_generate.h"
#include "tests/support/prove_net.h"

static const char facts[] = "parent(ann,bob).\nparent(bob,cid).\nnext(ann,bob).\nnext(bob,cid).\n"
                            "next(cid,dan).\nnext(dan,eve).\n";
static const char rules[] = "r0:1:parent(a,h), parent(h,b) -> grand(a,b)\n"
                            "r1:1:next(a,h), far(h,b) -> far(a,b)\n"
                            "r2:1:grand(b,a) -> old(a,b)\n"
                            "r3:1:parent(b,a) -> old(a,b)\n";

struct bed {
  struct stg_kb kb;
  struct prove_net net;
  struct stg_oracle_search search;
};

static void open_bed(struct bed *bed) {
  *bed = (struct bed){.kb = {.n_rules = 0}};
  assert_int_equal(stg_kb_parse_facts(&bed->kb, "f", facts, strlen(facts), NULL), STG_OK);
  assert_int_equal(stg_kb_parse_rules(&bed->kb, "r", rules, strlen(rules), NULL), STG_OK);
  prove_net_plain(&bed->net);
  bed->search = (struct stg_oracle_search){.kb = &bed->kb,
                                           .net = &bed->net.net,
                                           .weights = &bed->net.weights,
                                           .limits = {.atoms = 6, .children = 120, .depth = 20}};
}

static int32_t pred_of(const struct bed *bed, const char *pred) {
  return stg_kb_names_find(&bed->kb.predicates, pred, strlen(pred));
}

static struct stg_kb_atom query_of(const struct bed *bed, const char *pred, const char *a,
                                   const char *b) {
  return (struct stg_kb_atom){pred_of(bed, pred),
                              stg_kb_names_find(&bed->kb.constants, a, strlen(a)),
                              stg_kb_names_find(&bed->kb.constants, b, strlen(b))};
}

/* The direction in which states of a predicate lie; `word` counts from P + 1 on. */
static void aim(struct bed *bed, int32_t pred, int direction) {
  bed->net.predicates[(pred - 1) * 4 + direction] = 60;
}

static void assert_near(double value, double wanted) {
  if (!(fabs(value - wanted) < 1e-9)) {
    fail_msg("%.12g, not %.12g", value, wanted);
  }
}

/* With tables of zeros all children are equal: the first is taken. */
static void a_proof_takes_the_first_of_equal_children(void **state) {
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  stg_oracle_prove(&bed.search, query_of(&bed, "grand", "ann", "cid"), 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_PROVED);
  assert_int_equal(proof.depth, 2); /* the rule, or giving up; then True alone */
  assert_int_equal(proof.states, 3);
  assert_int_equal(proof.close, 1);
  assert_near(proof.logp, -log(2));
  assert_near(stg_oracle_score(&proof), -log(2));
  stg_kb_finish(&bed.kb);
}

static void a_query_that_cannot_be_derived_fails_with_a_finite_score(void **state) {
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  const struct stg_kb_atom query = query_of(&bed, "parent", "cid", "ann");
  stg_oracle_prove(&bed.search, query, 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_FAILED);
  assert_int_equal(proof.depth, 1);
  assert_near(proof.logp, 0);
  assert_near(stg_oracle_score(&proof), -100);
  stg_kb_finish(&bed.kb);
}

static void a_policy_that_likes_endf_gives_up(void **state) {
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  aim(&bed, pred_of(&bed, "grand"), 0);
  aim(&bed, (int32_t)bed.kb.predicates.n + STG_PROVE_ENDF, 0);
  aim(&bed, pred_of(&bed, "parent"), 1);
  stg_oracle_prove(&bed.search, query_of(&bed, "grand", "ann", "cid"), 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_GAVE_UP);
  assert_int_equal(proof.depth, 1);
  assert_int_equal(proof.actions[0], 1);
  assert_int_equal(proof.close, 0);
  assert_true(proof.logp < 0 && proof.logp > -0.5);
  stg_kb_finish(&bed.kb);
}

static void a_policy_that_likes_a_rule_takes_it(void **state) {
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  aim(&bed, pred_of(&bed, "old"), 0);
  aim(&bed, pred_of(&bed, "parent"), 0);
  aim(&bed, pred_of(&bed, "grand"), 1);
  stg_oracle_prove(&bed.search, query_of(&bed, "old", "cid", "ann"), 0, NULL, 0, &proof);
  /* the second of three; parent(ann,cid) is no fact, and no rule's head */
  assert_int_equal(proof.actions[0], 1);
  assert_int_equal(proof.outcome, STG_PROVE_FAILED);
  assert_int_equal(proof.depth, 2);
  stg_kb_finish(&bed.kb);
}

static void steps_are_bounded_and_a_proof_in_the_last_counts(void **state) {
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  bed.search.limits.depth = 3;
  stg_oracle_prove(&bed.search, query_of(&bed, "far", "ann", "eve"), 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_OUT_OF_STEPS);
  assert_int_equal(proof.depth, 3);
  assert_near(stg_oracle_score(&proof), proof.logp - 100);
  bed.search.limits.depth = 2;
  stg_oracle_prove(&bed.search, query_of(&bed, "grand", "ann", "cid"), 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_PROVED);
  bed.search.limits.depth = 1;
  stg_oracle_prove(&bed.search, query_of(&bed, "grand", "ann", "cid"), 0, NULL, 0, &proof);
  assert_int_equal(proof.outcome, STG_PROVE_OUT_OF_STEPS);
  stg_kb_finish(&bed.kb);
}

static void the_picks_of_others_are_followed_where_they_are_as_good(void **state) {
  static const uint8_t give_up[] = {1};
  static const uint8_t beyond[] = {2};
  struct bed bed;
  struct stg_oracle_proof proof;
  (void)state;
  open_bed(&bed);
  const struct stg_kb_atom query = query_of(&bed, "grand", "ann", "cid");
  stg_oracle_prove(&bed.search, query, 0, give_up, 1, &proof);
  assert_int_equal(proof.wrong, 0); /* it is equal to the first */
  assert_int_equal(proof.outcome, STG_PROVE_GAVE_UP);
  stg_oracle_prove(&bed.search, query, 0, beyond, 1, &proof);
  assert_int_equal(proof.wrong, 1);
  aim(&bed, pred_of(&bed, "grand"), 0);
  aim(&bed, pred_of(&bed, "parent"), 0);
  aim(&bed, (int32_t)bed.kb.predicates.n + STG_PROVE_ENDF, 1);
  stg_oracle_prove(&bed.search, query, 0, give_up, 1, &proof);
  assert_int_equal(proof.wrong, 1);
  assert_int_equal(proof.outcome, STG_PROVE_RUNNING);
  struct stg_oracle_search lax = bed.search;
  lax.slack = 1e6;
  stg_oracle_prove(&lax, query, 0, give_up, 1, &proof);
  assert_int_equal(proof.wrong, 0);
  assert_int_equal(proof.outcome, STG_PROVE_GAVE_UP);
  assert_true(proof.logp < -1e-4); /* it is a pick that hardly any sample would be */
  stg_oracle_prove(&lax, query, 0, beyond, 1, &proof);
  assert_int_equal(proof.wrong, 1); /* it is no child */
  stg_oracle_prove(&bed.search, query, 0, (const uint8_t[]){0}, 1, &proof);
  assert_int_equal(proof.wrong, 2); /* a pick is missing */
  stg_oracle_prove(&bed.search, query, 0, (const uint8_t[]){0, 0}, 2, &proof);
  assert_int_equal(proof.wrong, 0);
  assert_int_equal(proof.outcome, STG_PROVE_PROVED);
  stg_kb_finish(&bed.kb);
}

/* Two children, equally likely: half of many queries give up. A seed says which. */
static void samples_follow_the_softmax(void **state) {
  enum { N = 2000 };
  static uint8_t first[N];
  struct bed bed;
  int given_up = 0;
  int differ = 0;
  (void)state;
  open_bed(&bed);
  bed.search.sample = true;
  const struct stg_kb_atom query = query_of(&bed, "grand", "ann", "cid");
  for (int seed = 1; seed <= 2; seed++) {
    bed.search.seed = (uint64_t)seed;
    for (uint64_t i = 0; i < N; i++) {
      struct stg_oracle_proof proof;
      stg_oracle_prove(&bed.search, query, i, NULL, 0, &proof);
      assert_near(proof.logp, -log(2)); /* of the logits as they are */
      given_up += proof.outcome == STG_PROVE_GAVE_UP;
      differ += seed == 2 && first[i] != proof.actions[0];
      first[i] = proof.actions[0];
    }
  }
  assert_true(given_up > 1880 && given_up < 2120); /* of 4000, within 4 deviations */
  assert_true(differ > 800 && differ < 1200);
  stg_kb_finish(&bed.kb);
}

/* On a base that was made up a search ends, and the same where it follows itself. */
static void check_search(const struct bed *bed, struct stg_kb_atom query, int *outcomes) {
  const uint64_t index = (uint64_t)query.arg0 << 32 | (uint64_t)query.arg1;
  struct stg_oracle_proof proof;
  struct stg_oracle_proof again;
  stg_oracle_prove(&bed->search, query, index, NULL, 0, &proof);
  assert_in_range(proof.outcome, STG_PROVE_PROVED, STG_PROVE_OUT_OF_STEPS);
  assert_in_range(proof.depth, 1, 20);
  assert_true(proof.logp <= 0 && isfinite(proof.logp));
  stg_oracle_prove(&bed->search, query, index, proof.actions, proof.depth, &again);
  assert_int_equal(again.wrong, 0);
  assert_int_equal(again.outcome, proof.outcome);
  assert_true(again.logp == proof.logp);
  outcomes[proof.outcome]++;
}

static void queries_of_a_made_up_base_end(void **state) {
  struct stg_kb_text text = {0};
  struct bed bed;
  int outcomes[STG_PROVE_OUT_OF_STEPS + 1] = {0};
  (void)state;
  open_bed(&bed);
  stg_kb_finish(&bed.kb);
  assert_int_equal(stg_kb_generate(STG_KB_COUNTRIES, 1, 22, &text, NULL), STG_OK);
  assert_int_equal(stg_kb_parse_facts(&bed.kb, "f", text.facts.data, text.facts.len, NULL), STG_OK);
  assert_int_equal(stg_kb_parse_rules(&bed.kb, "r", text.rules.data, text.rules.len, NULL), STG_OK);
  const int32_t in_region = stg_kb_names_find(&bed.kb.predicates, "in_region", 9);
  for (int32_t a = 1; a <= (int32_t)bed.kb.constants.n; a++) {
    for (int32_t b = 1; b <= (int32_t)bed.kb.constants.n; b++) {
      const struct stg_kb_atom query = {in_region, a, b};
      prove_net_formula(&bed.net);
      bed.search.sample = false;
      check_search(&bed, query, outcomes);
      prove_net_plain(&bed.net);
      bed.search.sample = true;
      check_search(&bed, query, outcomes);
    }
  }
  assert_true(outcomes[STG_PROVE_PROVED] > 0);
  assert_true(outcomes[STG_PROVE_FAILED] + outcomes[STG_PROVE_GAVE_UP] > 0);
  stg_kb_text_finish(&text);
  stg_kb_finish(&bed.kb);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_proof_takes_the_first_of_equal_children),
      cmocka_unit_test(a_query_that_cannot_be_derived_fails_with_a_finite_score),
      cmocka_unit_test(a_policy_that_likes_endf_gives_up),
      cmocka_unit_test(a_policy_that_likes_a_rule_takes_it),
      cmocka_unit_test(steps_are_bounded_and_a_proof_in_the_last_counts),
      cmocka_unit_test(the_picks_of_others_are_followed_where_they_are_as_good),
      cmocka_unit_test(samples_follow_the_softmax),
      cmocka_unit_test(queries_of_a_made_up_base_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
