/*
 * test_kb_generate.c: knowledge bases from a seed: the statistics of the public sets, the same
 * bytes every time, queries that are true and no facts, every size.
 */
#include "specs/kb_generate.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/key.h"
#include "specs/kb_index.h"

#define SEEDS 12

/* What the public set has. */
struct wanted {
  enum stg_kb_kind kind;
  size_t facts;
  size_t predicates;
  size_t constants;
  size_t rules;
  size_t largest[STG_KB_SIDES]; /* 0: not known */
};
static const struct wanted public_sets[] = {
    {STG_KB_COUNTRIES, 983, 4, 271, 2, {0, 16, 36}},
    {STG_KB_FAMILY, 19845, 12, 2968, 87, {2543, 28, 17}},
};

static void make(enum stg_kb_kind kind, uint64_t seed, int64_t size, struct stg_kb *kb) {
  struct stg_kb_text text = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_kb_generate(kind, seed, size, &text, &err), STG_OK);
  if (stg_kb_parse_facts(kb, "f", text.facts.data, text.facts.len, &err) != STG_OK ||
      stg_kb_parse_rules(kb, "r", text.rules.data, text.rules.len, &err) != STG_OK ||
      stg_kb_parse_queries(kb, "q", stg_strbuf_text(&text.queries), text.queries.len, &err) !=
          STG_OK) {
    fail_msg("%s", err.message);
  }
  stg_kb_text_finish(&text);
}

/* Within 20 %. */
static void assert_near(size_t count, size_t wanted, const char *what, uint64_t seed) {
  if (wanted > 0 && (10 * count < 8 * wanted || 10 * count > 12 * wanted)) {
    fail_msg("seed %d: %zu %s, the public set has %zu", (int)seed, count, what, wanted);
  }
}

static void every_seed_has_the_statistics_of_the_public_set(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof public_sets / sizeof public_sets[0]; i++) {
    const struct wanted *wanted = &public_sets[i];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      struct stg_kb kb = {0};
      struct stg_kb_stats stats;
      make(wanted->kind, seed, 0, &kb);
      assert_int_equal(stg_kb_count(&kb, &stats, NULL), STG_OK);
      assert_int_equal(stats.predicates, wanted->predicates);
      assert_int_equal(stats.constants, wanted->constants);
      assert_int_equal(stats.rules, wanted->rules);
      assert_near(stats.facts, wanted->facts, "facts", seed);
      for (int side = 0; side < STG_KB_SIDES; side++) {
        assert_near(stats.largest[side].count, wanted->largest[side], "in a bucket", seed);
      }
      stg_kb_finish(&kb);
    }
  }
}

static void assert_key(enum stg_kb_kind kind, uint64_t seed, const char *wanted) {
  struct stg_kb_text text = {0};
  char hex[STG_KEY_HEX_CHARS + 1];
  assert_int_equal(stg_kb_generate(kind, seed, 0, &text, NULL), STG_OK);
  struct stg_strbuf all = {0};
  stg_strbuf_str(&all, text.facts.data);
  stg_strbuf_str(&all, text.rules.data);
  stg_strbuf_str(&all, text.queries.data);
  stg_key_hex(stg_key_of(all.data, all.len), hex);
  assert_string_equal(hex, wanted);
  stg_strbuf_finish(&all);
  stg_kb_text_finish(&text);
}

/* Recorded results name them: what a seed gives does not change. */
static void a_seed_gives_the_same_bytes_for_ever(void **state) {
  (void)state;
  assert_key(STG_KB_COUNTRIES, 1, "ab6c4c2436e804a69eb080a3604145c2");
  assert_key(STG_KB_COUNTRIES, 2, "f9756ae03e1e983f6768c2e1d9e9153a");
  assert_key(STG_KB_FAMILY, 1, "72bd48710c5e0b4e4a5b33a65792cd11");
}

static bool is_fact(const struct stg_kb *kb, const char *pred, int32_t a, int32_t b) {
  const int32_t number = stg_kb_names_find(&kb->predicates, pred, strlen(pred));
  return number != 0 && stg_kb_find_fact(kb, (struct stg_kb_atom){number, a, b}) != SIZE_MAX;
}

/* Whether a country's region follows by its subregion or by a neighbor. */
static bool follows(const struct stg_kb *kb, struct stg_kb_atom query) {
  const int32_t n = (int32_t)kb->constants.n;
  for (int32_t x = 1; x <= n; x++) {
    if ((is_fact(kb, "in_subregion", query.arg0, x) &&
         is_fact(kb, "subregion_in", x, query.arg1)) ||
        (is_fact(kb, "neighbor", query.arg0, x) && is_fact(kb, "in_region", x, query.arg1))) {
      return true;
    }
  }
  return false;
}

static void queries_of_countries_are_no_facts_and_follow(void **state) {
  struct stg_kb kb = {0};
  size_t by_neighbor_alone = 0;
  (void)state;
  make(STG_KB_COUNTRIES, 3, 0, &kb);
  assert_true(kb.queries.n > 50);
  for (size_t i = 0; i < kb.queries.n; i++) {
    const struct stg_kb_atom query = kb.queries.list[i];
    bool has_subregion = false;
    assert_int_equal(stg_kb_find_fact(&kb, query), SIZE_MAX);
    assert_true(follows(&kb, query));
    for (int32_t x = 1; x <= (int32_t)kb.constants.n; x++) {
      has_subregion = has_subregion || is_fact(&kb, "in_subregion", query.arg0, x);
    }
    by_neighbor_alone += !has_subregion;
  }
  assert_true(by_neighbor_alone > 5 && by_neighbor_alone < kb.queries.n / 2);
  stg_kb_finish(&kb);
}

static void neighbors_are_so_both_ways(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  make(STG_KB_COUNTRIES, 4, 0, &kb);
  const int32_t neighbor = stg_kb_names_find(&kb.predicates, "neighbor", 8);
  for (size_t i = 0; i < kb.facts.n; i++) {
    const struct stg_kb_atom fact = kb.facts.list[i];
    assert_true(fact.pred != neighbor || is_fact(&kb, "neighbor", fact.arg1, fact.arg0));
  }
  stg_kb_finish(&kb);
}

/* The other relation that says the same from the other end, whichever of two it is. */
static bool has_inverse(const struct stg_kb *kb, const char *pred, int32_t a, int32_t b) {
  static const struct {
    const char *pred;
    const char *inverse[2];
  } rows[] = {
      {"husband", {"wife", "husband"}},   {"wife", {"husband", "wife"}},
      {"father", {"son", "daughter"}},    {"mother", {"son", "daughter"}},
      {"son", {"father", "mother"}},      {"daughter", {"father", "mother"}},
      {"brother", {"brother", "sister"}}, {"sister", {"brother", "sister"}},
      {"uncle", {"nephew", "niece"}},     {"aunt", {"nephew", "niece"}},
      {"nephew", {"uncle", "aunt"}},      {"niece", {"uncle", "aunt"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].pred, pred) == 0) {
      return is_fact(kb, rows[i].inverse[0], b, a) != is_fact(kb, rows[i].inverse[1], b, a);
    }
  }
  return false;
}

static void kin_is_so_from_both_ends(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  make(STG_KB_FAMILY, 5, 0, &kb);
  for (size_t i = 0; i < kb.queries.n; i++) { /* as if none had been taken out */
    bool added = false;
    assert_int_equal(stg_kb_add_fact(&kb, kb.queries.list[i], &added, NULL), STG_OK);
    assert_true(added);
  }
  for (size_t i = 0; i < kb.facts.n; i++) {
    const struct stg_kb_atom fact = kb.facts.list[i];
    const char *pred = stg_kb_names_text(&kb.predicates, fact.pred);
    assert_int_not_equal(fact.arg0, fact.arg1);
    assert_true(has_inverse(&kb, pred, fact.arg0, fact.arg1));
  }
  stg_kb_finish(&kb);
}

static void any_size_has_as_many_constants(void **state) {
  static const int64_t sizes[] = {20, 21, 43, 44, 100, 271, 1000, 5001};
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      struct stg_kb kb = {0};
      make((enum stg_kb_kind)kind, 6, sizes[i], &kb);
      assert_int_equal(kb.constants.n, sizes[i]);
      stg_kb_finish(&kb);
    }
  }
}

static void sizes_outside_the_limits_are_refused(void **state) {
  static const struct {
    enum stg_kb_kind kind;
    int64_t size;
    const char *message;
  } cases[] = {
      {STG_KB_COUNTRIES, 19, "a knowledge base 'countries' of 19 constants, expected 20 to 200000"},
      {STG_KB_FAMILY, 200001,
       "a knowledge base 'family' of 200001 constants, expected 20 to 200000"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_kb_text text = {0};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_kb_generate(cases[i].kind, 1, cases[i].size, &text, &err), STG_E_INVALID);
    assert_string_equal(err.message, cases[i].message);
    assert_null(text.facts.data);
  }
}

static void running_out_of_memory_is_said_and_nothing_leaks(void **state) {
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    stg_status status = STG_E_NO_MEMORY;
    size_t nth = 0;
    while (status == STG_E_NO_MEMORY) {
      struct stg_kb_text text = {0};
      stg_error err = STG_ERROR_INIT;
      stg_alloc_fail_at(++nth);
      status = stg_kb_generate((enum stg_kb_kind)kind, 7, 60, &text, &err);
      stg_alloc_fail_at(0);
      assert_true(status == STG_OK || strstr(err.message, "memory") != NULL);
      stg_kb_text_finish(&text);
    }
    assert_int_equal(status, STG_OK);
    assert_true(nth > 8);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_seed_has_the_statistics_of_the_public_set),
      cmocka_unit_test(a_seed_gives_the_same_bytes_for_ever),
      cmocka_unit_test(queries_of_countries_are_no_facts_and_follow),
      cmocka_unit_test(neighbors_are_so_both_ways),
      cmocka_unit_test(kin_is_so_from_both_ends),
      cmocka_unit_test(any_size_has_as_many_constants),
      cmocka_unit_test(sizes_outside_the_limits_are_refused),
      cmocka_unit_test(running_out_of_memory_is_said_and_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
