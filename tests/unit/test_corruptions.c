/*
 * test_corruptions.c: the corruptions of queries: whom they replace, which there may be, how many,
 * and that each group depends on itself alone.
 */
#include "specs/prover_pool.h"
#include "specs/spec.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "specs/random.h"

struct bed {
  struct stg_spec spec;
  struct stg_prover_workload *w;
  struct stg_prover_pool pool;
};

/* A family of 200, and corruptions as `members` say. */
static void make(struct bed *bed, const char *members) {
  *bed = (struct bed){.w = NULL};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_printf(&text,
                    "{\"steergraph\":1,\"family\":\"prover\",\"knowledge\":{\"generate\":{\"kind\":"
                    "\"family\",\"seed\":2,\"size\":200}},\"policy\":{\"embed\":2,\"hidden\":2,"
                    "\"blocks\":1,\"weights\":{\"random\":{\"seed\":1}}},\"corruptions\":{%s}}",
                    members);
  if (stg_spec_parse("w.json", text.data, text.len, NULL, &bed->spec, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  stg_strbuf_finish(&text);
  bed->w = &bed->spec.of.prover;
  assert_int_equal(stg_prover_pool_make(bed->w, &bed->pool, &err), STG_OK);
}

static void finish(struct bed *bed) {
  stg_prover_pool_finish(&bed->pool);
  stg_spec_finish(&bed->spec);
}

static int32_t side_of(struct stg_kb_atom atom, enum stg_prover_side side) {
  return side == STG_PROVER_HEAD ? atom.arg0 : atom.arg1;
}

static bool is_equal(struct stg_kb_atom a, struct stg_kb_atom b) {
  return a.pred == b.pred && a.arg0 == b.arg0 && a.arg1 == b.arg1;
}

static bool is_query(const struct bed *bed, struct stg_kb_atom atom) {
  for (size_t i = 0; i < bed->w->kb.queries.n; i++) {
    if (is_equal(bed->w->kb.queries.list[i], atom)) {
      return true;
    }
  }
  return false;
}

/* Whether a fact of the predicate has the constant there. */
static bool is_seen(const struct bed *bed, int32_t pred, enum stg_prover_side side, int32_t is) {
  for (size_t i = 0; i < bed->w->kb.facts.n; i++) {
    const struct stg_kb_atom fact = bed->w->kb.facts.list[i];
    if (fact.pred == pred && side_of(fact, side) == is) {
      return true;
    }
  }
  return false;
}

/* How many a group may have at most, counted naively. */
static uint32_t count_allowed(const struct bed *bed, struct stg_kb_atom own,
                              enum stg_prover_side side) {
  const struct stg_prover_corruptions *c = &bed->w->corruptions;
  uint32_t n = 0;
  for (int32_t is = 1; is <= (int32_t)bed->w->kb.constants.n; is++) {
    struct stg_kb_atom atom = own;
    *(side == STG_PROVER_HEAD ? &atom.arg0 : &atom.arg1) = is;
    const bool known = stg_kb_find_fact(&bed->w->kb, atom) != SIZE_MAX || is_query(bed, atom);
    n += is != side_of(own, side) && !(c->filter && known) &&
         (!c->of_argument || is_seen(bed, own.pred, side, is));
  }
  return n;
}

/* What holds for every group. Returns how many corruptions are facts. */
static size_t check(const struct bed *bed) {
  const struct stg_prover_corruptions *c = &bed->w->corruptions;
  size_t first = 0;
  size_t facts = 0;
  assert_int_equal(bed->pool.n_groups, bed->w->n_queries * c->n_sides);
  for (size_t g = 0; g < bed->pool.n_groups; g++) {
    const struct stg_prover_group *group = &bed->pool.groups[g];
    const struct stg_kb_atom *own = &bed->pool.candidates.list[group->first];
    bool seen[512] = {false};
    assert_int_equal(group->query, g % bed->w->n_queries);
    assert_int_equal(group->side, c->sides[g / bed->w->n_queries]);
    assert_int_equal(group->first, first);
    assert_true(is_equal(*own, bed->w->queries[group->query]));
    const uint32_t allowed = count_allowed(bed, *own, group->side);
    assert_int_equal(group->count, allowed < c->count ? allowed : c->count);
    seen[side_of(*own, group->side)] = true;
    for (uint32_t i = 1; i <= group->count; i++) {
      const int32_t is = side_of(own[i], group->side);
      assert_int_equal(own[i].pred, own->pred);
      assert_int_equal(side_of(own[i], !group->side), side_of(*own, !group->side));
      assert_in_range(is, 1, bed->w->kb.constants.n);
      assert_false(seen[is]);
      seen[is] = true;
      facts += stg_kb_find_fact(&bed->w->kb, own[i]) != SIZE_MAX;
      assert_true(!c->filter || !is_query(bed, own[i]));
      assert_true(!c->of_argument || is_seen(bed, own->pred, group->side, is));
    }
    first += group->count + 1;
  }
  assert_int_equal(bed->pool.candidates.n, first);
  assert_true(!c->filter || facts == 0);
  return facts;
}

static void are_distinct_on_one_side_and_no_facts(void **state) {
  struct bed bed;
  make(&bed, "\"count\":20,\"seed\":1");
  (void)state;
  check(&bed);
  assert_int_equal(bed.pool.candidates.n, bed.w->n_queries * 2 * 21);
  finish(&bed);
}

static void are_all_that_there_are_where_fewer_than_asked_for(void **state) {
  static const char *const members[] = {
      "\"count\":100000,\"seed\":1", "\"count\":100000,\"seed\":1,\"domain\":\"argument\"",
      "\"count\":100000,\"seed\":1,\"domain\":\"argument\",\"filter\":false",
      "\"count\":100000,\"seed\":1,\"filter\":false"};
  (void)state;
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    struct bed bed;
    make(&bed, members[i]);
    const size_t facts = check(&bed);
    assert_true(bed.w->corruptions.filter || facts > 0);
    assert_true(i != 3 || bed.pool.groups[0].count == bed.w->kb.constants.n - 1);
    finish(&bed);
  }
}

static void the_domain_of_an_argument_is_what_facts_have_there(void **state) {
  struct bed all;
  make(&all, "\"count\":1000,\"seed\":1");
  struct bed argument;
  make(&argument, "\"count\":1000,\"seed\":1,\"domain\":\"argument\"");
  (void)state;
  check(&argument);
  assert_true(argument.pool.candidates.n < all.pool.candidates.n);
  finish(&all);
  finish(&argument);
}

static void sides_come_in_the_order_of_the_workload(void **state) {
  struct bed both;
  make(&both, "\"count\":5,\"seed\":1");
  struct bed turned;
  make(&turned, "\"count\":5,\"seed\":1,\"sides\":[\"tail\",\"head\"]");
  struct bed tail;
  make(&tail, "\"count\":5,\"seed\":1,\"sides\":[\"tail\"]");
  const size_t half = tail.pool.candidates.n;
  const size_t bytes = half * sizeof(struct stg_kb_atom);
  (void)state;
  check(&turned);
  check(&tail);
  assert_int_equal(both.pool.candidates.n, 2 * half);
  assert_memory_equal(tail.pool.candidates.list, both.pool.candidates.list + half, bytes);
  assert_memory_equal(tail.pool.candidates.list, turned.pool.candidates.list, bytes);
  finish(&both);
  finish(&turned);
  finish(&tail);
}

static void depend_on_the_seed_and_not_on_each_other(void **state) {
  struct bed bed;
  make(&bed, "\"count\":20,\"seed\":1");
  struct bed again;
  make(&again, "\"count\":20,\"seed\":1");
  struct bed fewer;
  make(&fewer, "\"count\":7,\"seed\":1");
  struct bed other;
  make(&other, "\"count\":20,\"seed\":2");
  const size_t bytes = bed.pool.candidates.n * sizeof(struct stg_kb_atom);
  (void)state;
  assert_memory_equal(bed.pool.candidates.list, again.pool.candidates.list, bytes);
  assert_memory_not_equal(bed.pool.candidates.list, other.pool.candidates.list, bytes);
  for (size_t g = 0; g < bed.pool.n_groups; g++) { /* fewer are the first of more */
    assert_memory_equal(fewer.pool.candidates.list + fewer.pool.groups[g].first,
                        bed.pool.candidates.list + bed.pool.groups[g].first,
                        8 * sizeof(struct stg_kb_atom));
  }
  finish(&bed);
  finish(&again);
  finish(&fewer);
  finish(&other);
}

/* Written down in specs/README.md: draw k of query q and side s swaps place k with a later one. */
static void are_drawn_as_the_format_says(void **state) {
  struct bed bed;
  make(&bed, "\"count\":3,\"seed\":6,\"filter\":false");
  const int64_t n = (int64_t)bed.w->kb.constants.n;
  (void)state;
  for (uint64_t query = 0; query < 4; query++) {
    const struct stg_prover_group *group = &bed.pool.groups[bed.w->n_queries + query];
    const struct stg_kb_atom *atoms = &bed.pool.candidates.list[group->first];
    int32_t constants[512];
    uint32_t found = 0;
    for (int32_t i = 0; i < n; i++) {
      constants[i] = i + 1;
    }
    for (int64_t k = 0; found < 3; k++) {
      const int64_t with = stg_random_between(
          6, (uint64_t)10 << 32, (2 * query + 1) * 4294967296u + (uint64_t)k, k, n - 1);
      const int32_t drawn = constants[with];
      constants[with] = constants[k];
      constants[k] = drawn;
      if (drawn != atoms->arg1) {
        assert_int_equal(atoms[++found].arg1, drawn);
      }
    }
  }
  finish(&bed);
}

static void each_constant_is_drawn_as_often(void **state) {
  /* 20 of 200 without replacement, over all groups: each some n_groups / 10 times */
  struct bed bed;
  make(&bed, "\"count\":20,\"seed\":3,\"filter\":false");
  size_t seen[512] = {0};
  const double expected = (double)bed.pool.n_groups * 20 / (double)bed.w->kb.constants.n;
  double chi2 = 0;
  (void)state;
  for (size_t g = 0; g < bed.pool.n_groups; g++) {
    const struct stg_prover_group *group = &bed.pool.groups[g];
    for (uint32_t i = 1; i <= group->count; i++) {
      seen[side_of(bed.pool.candidates.list[group->first + i], group->side)]++;
    }
  }
  for (size_t i = 1; i <= bed.w->kb.constants.n; i++) {
    chi2 += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
  }
  /* 199 degrees of freedom, a little less for being without replacement: mean 180, deviation 19 */
  assert_true(chi2 > 100 && chi2 < 280);
  finish(&bed);
}

static void running_out_of_memory_is_said_and_nothing_leaks(void **state) {
  static const char *const members[] = {"\"count\":9,\"seed\":1",
                                        "\"count\":9,\"seed\":1,\"domain\":\"argument\""};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bed bed;
    make(&bed, members[i]);
    stg_status status = STG_E_NO_MEMORY;
    size_t nth = 0;
    while (status == STG_E_NO_MEMORY) {
      struct stg_prover_pool pool = {0};
      stg_error err = STG_ERROR_INIT;
      stg_alloc_fail_at(++nth);
      status = stg_prover_pool_make(bed.w, &pool, &err);
      stg_alloc_fail_at(0);
      assert_true(status == STG_OK || strstr(err.message, "memory") != NULL);
      stg_prover_pool_finish(&pool);
    }
    assert_int_equal(status, STG_OK);
    assert_true(nth > 5);
    finish(&bed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(are_distinct_on_one_side_and_no_facts),
      cmocka_unit_test(are_all_that_there_are_where_fewer_than_asked_for),
      cmocka_unit_test(the_domain_of_an_argument_is_what_facts_have_there),
      cmocka_unit_test(sides_come_in_the_order_of_the_workload),
      cmocka_unit_test(depend_on_the_seed_and_not_on_each_other),
      cmocka_unit_test(are_drawn_as_the_format_says),
      cmocka_unit_test(each_constant_is_drawn_as_often),
      cmocka_unit_test(running_out_of_memory_is_said_and_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
