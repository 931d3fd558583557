/*
 * test_prove_tables.c: a knowledge base as tables: what is found in them, in which order, in a copy
 * of them as well, and what is refused.
 */
#include "codegen/prove_tables.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/prelude/gumbel.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "specs/kb_index.h"
#include "specs/random.h"
#include "tests/support/prove_bases.h"

static void assert_span(const struct stg_kb *kb, const struct stg_prove_base *base,
                        enum stg_kb_side side, int32_t pred, int32_t arg, int variable) {
  struct stg_kb_index index = {0};
  static const int open0[] = {1, 0, 1};
  static const int open1[] = {1, 1, 0};
  assert_int_equal(stg_kb_index_init(kb, side, &index, NULL), STG_OK);
  const struct stg_kb_bucket *bucket = stg_kb_index_find(&index, pred, arg);
  const struct stg_prove_atom goal = {pred, open0[side] ? variable : arg,
                                      open1[side] ? variable + 1 : arg};
  const struct stg_prove_span span = stg_atom_find_facts(base, goal);
  assert_int_equal(span.count, bucket != NULL ? bucket->count : 0);
  for (unsigned i = 0; i < span.count; i++) {
    const struct stg_prove_atom fact = stg_atom_fact(base, &span, i);
    const struct stg_prove_atom wanted =
        prove_atom_of(kb->facts.list[index.facts[bucket->first + i]]);
    assert_true(stg_atom_is_equal(fact, wanted));
  }
  stg_kb_index_finish(&index);
}

static void assert_base(const struct stg_kb *kb, const struct stg_prove_base *base) {
  const int variable = (int)kb->constants.n + 1;
  for (size_t i = 0; i < kb->facts.n; i++) {
    struct stg_kb_atom fact = kb->facts.list[i];
    assert_int_equal(stg_atom_find_fact(base, prove_atom_of(fact)), i);
    const int32_t arg0 = fact.arg0;
    fact.arg0 = fact.arg1; /* mostly none */
    fact.arg1 = arg0;
    const size_t swapped = stg_kb_find_fact(kb, fact);
    const struct stg_prove_span span = stg_atom_find_facts(base, prove_atom_of(fact));
    assert_int_equal(span.count, swapped != SIZE_MAX);
    assert_true(span.count == 0 ||
                stg_atom_is_equal(stg_atom_fact(base, &span, 0), prove_atom_of(fact)));
  }
  for (int32_t pred = 1; pred <= (int32_t)kb->predicates.n; pred++) {
    assert_span(kb, base, STG_KB_BY_PRED, pred, 0, variable);
    for (int32_t arg = 1; arg <= (int32_t)kb->constants.n; arg += 37) {
      assert_span(kb, base, STG_KB_BY_ARG0, pred, arg, variable);
      assert_span(kb, base, STG_KB_BY_ARG1, pred, arg, variable);
    }
  }
}

static void facts_are_found_in_the_order_of_the_file(void **state) {
  struct stg_kb kb = {0};
  struct stg_prove_tables tables = {0};
  (void)state;
  prove_base_generate(STG_KB_COUNTRIES, 1, &kb);
  prove_base_tables(&kb, &tables);
  assert_base(&kb, &tables.base);
  stg_prove_tables_finish(&tables);
  assert_null(tables.block);
  stg_kb_finish(&kb);
}

static void a_copy_of_the_block_is_the_same_base(void **state) {
  struct stg_kb kb = {0};
  struct stg_prove_tables tables = {0};
  (void)state;
  prove_base_generate(STG_KB_COUNTRIES, 2, &kb);
  prove_base_tables(&kb, &tables);
  unsigned char *copy = stg_malloc_aligned(tables.bytes);
  assert_non_null(copy);
  memcpy(copy, tables.block, tables.bytes);
  const struct stg_prove_base base = stg_prove_tables_at(&tables, copy);
  const unsigned n_rules = base.rule_first[base.predicates];
  assert_int_equal(n_rules, kb.n_rules);
  memset(tables.block, 0, tables.bytes); /* nothing is read there */
  stg_prove_tables_finish(&tables);
  assert_base(&kb, &base);
  assert_int_equal(base.rule_first[base.predicates], n_rules);
  for (unsigned i = 0; i < n_rules; i++) {
    assert_in_range(base.rules[i].n_body, 1, STG_PROVE_MAX_BODY);
    assert_in_range(base.bodies[base.rules[i].first_body].pred, 1, base.predicates);
  }
  stg_free(copy);
  stg_kb_finish(&kb);
}

static void rules_lie_by_predicate_and_then_as_in_the_file(void **state) {
  struct stg_kb kb = {0};
  struct stg_prove_tables tables = {0};
  (void)state;
  prove_base_read(&kb, "p(a,b).\nq(c,d).\nr(e,a).\n",
                  "r0:1:p(X,Y) -> r('c',Y)\nr1:1:p(X,Y) -> q('a',Y)\nr2:1:p(X,Y) -> q('b',Y)\n"
                  "r3:1:p(X,Y), q(Y,Z) -> r('d',Z)\n");
  prove_base_tables(&kb, &tables);
  const struct stg_prove_base *base = &tables.base;
  static const unsigned first[] = {0, 0, 2, 4};
  for (int p = 0; p <= 3; p++) {
    assert_int_equal(base->rule_first[p], first[p]);
  }
  static const int wanted[] = {1, 2, 3, 4};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(base->rules[i].arg0, wanted[i]);
    assert_int_equal(base->rules[i].n_body, i == 3 ? 2 : 1);
  }
  assert_int_equal(base->bodies[base->rules[3].first_body].pred, 1);
  assert_int_equal(base->bodies[base->rules[3].first_body + 1].pred, 2);
  assert_int_equal(base->bodies[base->rules[3].first_body + 1].arg1, base->rules[3].arg1);
  stg_prove_tables_finish(&tables);
  stg_kb_finish(&kb);
}

static void assert_refused(const struct stg_prove_source *source, const char *message) {
  struct stg_prove_tables tables = {.bytes = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_prove_tables_init(source, &tables, &err), STG_E_INVALID);
  assert_string_equal(err.message, message);
  assert_int_equal(tables.bytes, 7);
}

static void what_is_no_base_is_refused_by_its_index(void **state) {
  struct stg_prove_atom facts[] = {{1, 1, 2}, {2, 3, 3}, {2, 1, 3}};
  struct stg_prove_atom body[] = {{1, -1, -2}, {2, -2, 3}};
  struct stg_prove_rule rules[] = {{{1, -1, 2}, body, 2, 2}, {{2, -1, -2}, body, 1, 2}};
  struct stg_prove_source source = {2, 3, facts, 3, rules, 2};
  (void)state;
  facts[2] = (struct stg_prove_atom){1, 1, 2};
  assert_refused(&source, "facts[2]: 1(1,2) is facts[0] already");
  facts[2] = (struct stg_prove_atom){3, 1, 2};
  assert_refused(&source, "facts[2]: atom 3(1,2) is none of 2 predicates and 3 constants");
  facts[2] = (struct stg_prove_atom){0, 1, 2};
  assert_refused(&source, "facts[2]: atom 0(1,2) is none of 2 predicates and 3 constants");
  facts[2] = (struct stg_prove_atom){2, 4, 2};
  assert_refused(&source, "facts[2]: atom 2(4,2) is none of 2 predicates and 3 constants");
  facts[2] = (struct stg_prove_atom){2, 1, -1};
  assert_refused(&source, "facts[2]: atom 2(1,-1) is none of 2 predicates and 3 constants");
  facts[2] = (struct stg_prove_atom){2, 1, 0};
  assert_refused(&source, "facts[2]: atom 2(1,0) is none of 2 predicates and 3 constants");
  facts[2] = (struct stg_prove_atom){2, 1, 3};
  rules[1].n_body = 0;
  assert_refused(&source, "rules[1]: its body has 0 atoms, must be 1 to 8");
  rules[1].n_body = 9;
  assert_refused(&source, "rules[1]: its body has 9 atoms, must be 1 to 8");
  rules[1].n_body = 1;
  rules[1].n_vars = 19; /* the last of 2^32 would be no int behind the constants */
  assert_refused(&source, "rules[1]: 19 variables are more than 18");
  rules[1].n_vars = 2;
  rules[1].head.arg1 = -3;
  assert_refused(&source, "rules[1]: atom 2(-1,-3) is none of 2 predicates and 3 constants");
  rules[1].head.arg1 = INT32_MIN;
  assert_refused(&source, "rules[1]: atom 2(-1,-2147483648) is none of 2 predicates and 3 "
                          "constants");
  rules[1].head.arg1 = -2;
  body[1].arg1 = 4;
  assert_refused(&source, "rules[0]: atom 2(-2,4) is none of 2 predicates and 3 constants");
  source.predicates = 0;
  assert_refused(&source, "0 predicates and 3 constants are no knowledge base");
  body[1].arg1 = 3;
  source.predicates = (1 << 20) + 3 + 2 + 3 + 1;
  assert_refused(&source,
                 "predicates: 1048585 are more than 1048584, which are 1048576 and one for "
                 "each atom of facts and rules");
  source = (struct stg_prove_source){INT32_MAX - 3, 1, NULL, 0, NULL, 0};
  assert_refused(&source, "predicates: 2147483644 are more than 1048576, which are 1048576 and one "
                          "for each atom of facts and rules");
  source = (struct stg_prove_source){2, 3, facts, ((size_t)1 << 30) + 1, rules, 2};
  assert_refused(&source, "1073741825 facts and 2 rules: at most 1073741824 and 134217728");
}

static void an_empty_base_has_no_facts_and_no_rules(void **state) {
  const struct stg_prove_source source = {.predicates = 2, .constants = 3};
  struct stg_prove_tables tables = {0};
  (void)state;
  assert_int_equal(stg_prove_tables_init(&source, &tables, NULL), STG_OK);
  for (int arg0 = 1; arg0 <= 5; arg0++) {
    const struct stg_prove_atom goal = {2, arg0, 6 - arg0};
    assert_int_equal(stg_atom_find_facts(&tables.base, goal).count, 0);
  }
  assert_int_equal(tables.base.rule_first[2], 0);
  stg_prove_tables_finish(&tables);
}

static void without_memory_nothing_is_made(void **state) {
  const struct stg_prove_source source = {.predicates = 2, .constants = 3};
  struct stg_prove_tables tables = {.bytes = 7};
  stg_error err = STG_ERROR_INIT;
  (void)state;
  stg_alloc_fail_at(1);
  assert_int_equal(stg_prove_tables_init(&source, &tables, &err), STG_E_NO_MEMORY);
  stg_alloc_fail_at(0);
  assert_non_null(strstr(err.message, "the tables of a knowledge base"));
  assert_int_equal(tables.bytes, 7);
}

/* Hashes and noise are those of the reference, to the bit. */
static void an_atom_and_a_query_have_the_words_of_the_reference(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 10000; i++) {
    uint32_t words[4];
    stg_philox4x32((const uint32_t[]){(uint32_t)i, 0, 0, 0}, (const uint32_t[]){5, 7}, words);
    const struct stg_kb_atom atom = {(int32_t)words[0], (int32_t)words[1], (int32_t)words[2]};
    assert_true(stg_atom_mix(atom.pred, atom.arg0, atom.arg1) == stg_kb_mix(atom));
    const uint64_t query = (uint64_t)words[3] << 32 | words[2];
    const uint64_t seed = (uint64_t)words[1] << 32 | words[0];
    const unsigned depth = words[0] % 64;
    const unsigned child = words[1] % 128;
    stg_philox4x32((const uint32_t[]){words[2], words[3], depth, child / 4},
                   (const uint32_t[]){words[0], words[1]}, words);
    assert_int_equal(stg_gumbel_word(seed, query, depth, child), words[child % 4]);
  }
}

static void noise_is_finite_and_near_what_it_should_be(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 100000; i++) {
    const uint32_t word = i < 512 ? i : i < 1024 ? UINT32_MAX - i : i * 2654435761u;
    const double u = ((word >> 9) + 0.5) / 8388608.0;
    const double wanted = -log(-log(u));
    assert_true(fabs((double)stg_gumbel_noise(word) - wanted) <= 2e-6);
  }
}

static void there_may_be_predicates_that_the_base_does_not_have(void **state) {
  const struct stg_prove_atom fact = {1 << 20, 1, 1};
  const struct stg_prove_source source = {(1 << 20) + 1, 1, &fact, 1, NULL, 0};
  struct stg_prove_tables tables = {0};
  (void)state;
  assert_int_equal(stg_prove_tables_init(&source, &tables, NULL), STG_OK);
  assert_int_equal(stg_atom_find_facts(&tables.base, fact).count, 1);
  assert_true(tables.bytes < 5 << 20);
  stg_prove_tables_finish(&tables);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(facts_are_found_in_the_order_of_the_file),
      cmocka_unit_test(a_copy_of_the_block_is_the_same_base),
      cmocka_unit_test(rules_lie_by_predicate_and_then_as_in_the_file),
      cmocka_unit_test(what_is_no_base_is_refused_by_its_index),
      cmocka_unit_test(there_may_be_predicates_that_the_base_does_not_have),
      cmocka_unit_test(an_empty_base_has_no_facts_and_no_rules),
      cmocka_unit_test(without_memory_nothing_is_made),
      cmocka_unit_test(an_atom_and_a_query_have_the_words_of_the_reference),
      cmocka_unit_test(noise_is_finite_and_near_what_it_should_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
