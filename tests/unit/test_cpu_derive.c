/*
 * test_cpu_derive.c: the children of a state on the CPU, held against those of the reference: one
 * by one, in their order, and how many were left out.
 */
#include "engine/cpu/prover_derive.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/oracle/derive.h"
#include "runtime/base/strbuf.h"
#include "specs/random.h"
#include "tests/support/prove_bases.h"

#define BASES 2000
#define WALKS 8
#define LONGEST_WALK 8

/* A base in both forms, where a walk is, and what was met. */
struct bed {
  struct stg_kb kb;
  struct stg_prove_tables tables;
  struct stg_prove_limits limits;
  uint64_t seed, drawn;
  struct stg_kb_atom query;
  struct stg_oracle_path oracle_path;
  struct stg_cpu_path path;
  struct stg_oracle_state state;
  struct stg_oracle_children wanted;
  struct stg_cpu_children children;
  size_t n_states, n_children, n_proofs, n_cut, n_rejected, n_seen;
};

static void open_tables(struct bed *bed, uint64_t seed) {
  bed->seed = seed;
  bed->drawn = 0;
  prove_base_tables(&bed->kb, &bed->tables);
}

static void close_bed(struct bed *bed) {
  stg_prove_tables_finish(&bed->tables);
  stg_kb_finish(&bed->kb);
}

static uint32_t draw(struct bed *bed, uint32_t below) {
  return (uint32_t)stg_random_between(bed->seed, 98, bed->drawn++, 0, (int64_t)below - 1);
}

static struct stg_prove_state state_of(const struct stg_oracle_state *from) {
  struct stg_prove_state state = {.n = from->n};
  for (uint32_t i = 0; i < from->n; i++) {
    state.atoms[i] = prove_atom_of(from->atoms[i]);
  }
  return state;
}

static void assert_state(const struct bed *bed, const struct stg_prove_state *state,
                         const struct stg_oracle_state *wanted, const char *what) {
  const struct stg_prove_state other = state_of(wanted);
  if (state->n != other.n ||
      memcmp(state->atoms, other.atoms, other.n * sizeof other.atoms[0]) != 0) {
    fail_msg("base %d, draw %d: %s is another", (int)bed->seed, (int)bed->drawn, what);
  }
}

/* Derive in both ways. */
static void derive(struct bed *bed) {
  const struct stg_prove_state state = state_of(&bed->state);
  const struct stg_oracle_children *wanted = &bed->wanted;
  const struct stg_cpu_children *children = &bed->children;
  stg_oracle_derive(&bed->kb, &bed->limits, bed->query, &bed->oracle_path, &bed->state,
                    &bed->wanted);
  stg_cpu_derive(&bed->tables.base, &bed->limits, prove_atom_of(bed->query), &bed->path, &state,
                 &bed->children);
  const bool proved = stg_oracle_is_word(&bed->kb, &wanted->states[0], STG_PROVE_TRUE);
  const uint32_t most = bed->limits.children;
  assert_int_equal(children->n, wanted->n);
  for (uint32_t i = 0; i < wanted->n; i++) {
    assert_state(bed, &children->states[i], &wanted->states[i], "a child");
  }
  assert_int_equal(children->rejected, proved ? 0 : wanted->rejected);
  assert_int_equal(children->seen, proved ? 0 : wanted->seen);
  assert_int_equal(children->cut, proved || wanted->unified < most ? 0 : wanted->unified - most);
  assert_true(proved || children->pairs >= wanted->unified);
  bed->n_states++;
  bed->n_children += children->n;
  bed->n_proofs += proved;
  bed->n_cut += children->cut;
  bed->n_rejected += children->rejected;
  bed->n_seen += children->seen;
}

static void enter(struct bed *bed, const struct stg_oracle_state *state) {
  const struct stg_prove_state own = state_of(state);
  bed->state = *state;
  stg_oracle_path_add(&bed->oracle_path, &bed->state);
  stg_cpu_path_add(&bed->path, &own);
  assert_true(memcmp(bed->path.hashes, bed->oracle_path.hashes,
                     bed->path.n * sizeof bed->path.hashes[0]) == 0);
}

/* From a query on, any child after the other. */
static void walk(struct bed *bed, struct stg_kb_atom query) {
  bed->query = query;
  bed->oracle_path.n = bed->path.n = 0;
  enter(bed, &(struct stg_oracle_state){.n = 1, .atoms = {query}});
  for (int step = 0; step < LONGEST_WALK; step++) {
    derive(bed);
    const struct stg_oracle_state child = bed->wanted.states[draw(bed, bed->wanted.n)];
    enter(bed, &child);
  }
}

static struct stg_kb_atom any_atom(struct bed *bed, uint32_t n_vars) {
  const uint32_t n = (uint32_t)bed->kb.constants.n + n_vars;
  const int32_t pred = 1 + (int32_t)draw(bed, (uint32_t)bed->kb.predicates.n);
  const int32_t arg0 = 1 + (int32_t)draw(bed, n);
  return (struct stg_kb_atom){pred, arg0, 1 + (int32_t)draw(bed, n)};
}

/* Any atoms in any order, with holes, and with variables as they come. */
static void try_any_state(struct bed *bed) {
  struct stg_oracle_state state = {.n = 1 + draw(bed, STG_PROVE_MAX_ATOMS)};
  for (uint32_t i = 0; i < state.n; i++) {
    state.atoms[i] = any_atom(bed, 5);
    state.atoms[i].pred = draw(bed, 8) == 0 ? 0 : state.atoms[i].pred;
  }
  bed->query = any_atom(bed, 0);
  bed->oracle_path.n = bed->path.n = 0;
  bed->state = state;
  derive(bed);
}

static void random_bases_have_the_children_of_the_reference(void **state) {
  static struct bed bed;
  (void)state;
  for (uint64_t seed = 0; seed < BASES; seed++) {
    prove_base_random(seed, &bed.kb);
    open_tables(&bed, seed);
    for (int i = 0; i < WALKS; i++) {
      bed.limits = (struct stg_prove_limits){
          .atoms = 1 + draw(&bed, STG_PROVE_MAX_ATOMS), .children = 2 + draw(&bed, 5), .depth = 20};
      walk(&bed, any_atom(&bed, 0));
      try_any_state(&bed);
    }
    close_bed(&bed);
  }
  /* all of it was met */
  assert_int_equal(bed.n_states, BASES * WALKS * (LONGEST_WALK + 1));
  assert_true(bed.n_proofs > BASES && bed.n_cut > BASES);
  assert_true(bed.n_rejected > BASES && bed.n_seen > BASES / 4);
}

static void generated_bases_have_the_children_of_the_reference(void **state) {
  static struct bed bed;
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    prove_base_generate((enum stg_kb_kind)kind, 3, &bed.kb);
    open_tables(&bed, 3);
    bed.limits = (struct stg_prove_limits){.atoms = 6, .children = 120, .depth = 20};
    for (size_t i = 0; i < 100; i++) {
      struct stg_kb_atom query = bed.kb.queries.list[i % bed.kb.queries.n];
      walk(&bed, query);
      query.arg1 = 1 + (int32_t)draw(&bed, (uint32_t)bed.kb.constants.n);
      walk(&bed, query);
    }
    close_bed(&bed);
  }
  assert_true(bed.n_children > 4 * bed.n_states);
  assert_true(bed.n_proofs > 0 && bed.n_cut > 0 && bed.n_rejected > 0 && bed.n_seen > 0);
}

/* Goals and heads of two constants and two variables each, and a rest that knows them. */
static void every_goal_meets_every_head(void **state) {
  static const char *const head_args[] = {"'a'", "'b'", "X", "Y"};
  static struct bed bed;
  size_t n_unified = 0;
  (void)state;
  bed.limits = (struct stg_prove_limits){.atoms = 6, .children = 120, .depth = 20};
  for (int head = 0; head < 16; head++) {
    char rules[200];
    /* every variable of the head is in the body, and one more */
    snprintf(rules, sizeof rules, "r:1:q(X,Z), q(Y,'b'), q(Z,X), q(%s,%s) -> p(%s,%s)\n",
             head_args[head / 4], head_args[head % 4], head_args[head / 4], head_args[head % 4]);
    prove_base_read(&bed.kb, "p(a,a).\np(b,a).\nq(b,b).\nq(a,b).\n", rules);
    open_tables(&bed, (uint64_t)head);
    const int32_t p = stg_kb_names_find(&bed.kb.predicates, "p", 1);
    const int32_t q = stg_kb_names_find(&bed.kb.predicates, "q", 1);
    bed.query = (struct stg_kb_atom){q, 1, 1};
    for (int32_t goal = 0; goal < 16; goal++) { /* constants are 1 and 2, variables 3 and 4 */
      bed.state =
          (struct stg_oracle_state){.n = 2, .atoms = {{p, 1 + goal / 4, 1 + goal % 4}, {q, 4, 3}}};
      derive(&bed);
      n_unified += bed.wanted.unified;
    }
    close_bed(&bed);
  }
  assert_true(n_unified > 256);
}

static const char chain_facts[] = "next(a,b).\nnext(b,c).\n";
static const char chain_rules[] = "r:1:next(X,Y), far(Y,Z) -> far(X,Z)\n";

static void a_hole_in_front_is_no_failure(void **state) {
  static struct bed bed;
  (void)state;
  prove_base_read(&bed.kb, chain_facts, chain_rules);
  open_tables(&bed, 0);
  bed.limits = (struct stg_prove_limits){.atoms = 6, .children = 120, .depth = 20};
  bed.query = (struct stg_kb_atom){2, 1, 3};
  bed.state = (struct stg_oracle_state){.n = 3, .atoms = {{0, 0, 0}, {0, 0, 0}, {1, 1, 4}}};
  derive(&bed);
  assert_int_equal(bed.n_proofs, 1);
  bed.state = (struct stg_oracle_state){.n = 2};
  derive(&bed);
  assert_int_equal(bed.children.states[0].atoms[0].pred, 2 + STG_PROVE_FALSE);
  close_bed(&bed);
}

/* far(a,Z) and five more make seven, one of which would have to go. */
static void a_child_that_is_too_long_is_rejected_and_not_cut(void **state) {
  static struct bed bed;
  (void)state;
  prove_base_read(&bed.kb, chain_facts, chain_rules);
  open_tables(&bed, 0);
  bed.limits = (struct stg_prove_limits){.atoms = 6, .children = 120, .depth = 20};
  bed.query = (struct stg_kb_atom){2, 1, 3};
  bed.state = (struct stg_oracle_state){
      .n = 6, .atoms = {{2, 4, 3}, {2, 3, 5}, {2, 3, 6}, {2, 3, 7}, {2, 3, 8}, {2, 3, 9}}};
  derive(&bed);
  assert_int_equal(bed.children.rejected, 1);
  assert_int_equal(bed.children.n, 1);
  assert_int_equal(bed.children.states[0].atoms[0].pred, 2 + STG_PROVE_FALSE);
  bed.limits.atoms = 7;
  derive(&bed);
  assert_int_equal(bed.children.rejected, 0);
  assert_int_equal(bed.children.states[0].n, 7);
  assert_int_equal(bed.children.states[1].atoms[0].pred, 2 + STG_PROVE_ENDF);
  close_bed(&bed);
}

static void words_derive_themselves_or_false(void **state) {
  static struct bed bed;
  (void)state;
  prove_base_read(&bed.kb, chain_facts, chain_rules);
  open_tables(&bed, 0);
  bed.limits = (struct stg_prove_limits){.atoms = 6, .children = 120, .depth = 20};
  for (int word = STG_PROVE_TRUE; word <= STG_PROVE_ENDF; word++) {
    const int wanted = word == STG_PROVE_TRUE ? STG_PROVE_TRUE : STG_PROVE_FALSE;
    bed.state = stg_oracle_word(&bed.kb, (enum stg_prove_word)word);
    derive(&bed);
    assert_int_equal(bed.children.n, 1);
    assert_int_equal(bed.children.states[0].atoms[0].pred, 2 + wanted);
    assert_int_equal(bed.children.pairs, 0);
  }
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_bases_have_the_children_of_the_reference),
      cmocka_unit_test(generated_bases_have_the_children_of_the_reference),
      cmocka_unit_test(every_goal_meets_every_head),
      cmocka_unit_test(a_hole_in_front_is_no_failure),
      cmocka_unit_test(a_child_that_is_too_long_is_rejected_and_not_cut),
      cmocka_unit_test(words_derive_themselves_or_false),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
