/*
 * kb_index.c: buckets of facts: who is in which, then where each begins, then who lies where.
 */
#include "specs/kb_index.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

static int32_t arg_of(struct stg_kb_atom fact, enum stg_kb_side side) {
  return side == STG_KB_BY_PRED ? 0 : side == STG_KB_BY_ARG0 ? fact.arg0 : fact.arg1;
}

/* The slot where a bucket is, or where it would be. */
static size_t slot_of(const struct stg_kb_index *index, int32_t pred, int32_t arg) {
  size_t at = (size_t)stg_kb_mix((struct stg_kb_atom){pred, arg, 0}) & (index->n_slots - 1);
  while (index->slots[at] != 0) {
    const struct stg_kb_bucket *bucket = &index->buckets[index->slots[at] - 1];
    if (bucket->pred == pred && bucket->arg == arg) {
      break;
    }
    at = (at + 1) & (index->n_slots - 1);
  }
  return at;
}

static uint32_t bucket_of(struct stg_kb_index *index, int32_t pred, int32_t arg) {
  const size_t slot = slot_of(index, pred, arg);
  if (index->slots[slot] == 0) {
    index->buckets[index->n_buckets++] = (struct stg_kb_bucket){.pred = pred, .arg = arg};
    index->slots[slot] = (uint32_t)index->n_buckets;
  }
  return index->slots[slot] - 1;
}

static void fill(const struct stg_kb *kb, enum stg_kb_side side, struct stg_kb_index *index) {
  uint32_t next = 0;
  for (size_t i = 0; i < kb->facts.n; i++) {
    const struct stg_kb_atom fact = kb->facts.list[i];
    index->buckets[bucket_of(index, fact.pred, arg_of(fact, side))].count++;
  }
  for (size_t i = 0; i < index->n_buckets; i++) {
    index->buckets[i].first = next;
    next += index->buckets[i].count;
    index->buckets[i].count = 0;
  }
  for (size_t i = 0; i < kb->facts.n; i++) {
    const struct stg_kb_atom fact = kb->facts.list[i];
    struct stg_kb_bucket *bucket = &index->buckets[bucket_of(index, fact.pred, arg_of(fact, side))];
    index->facts[bucket->first + bucket->count++] = (uint32_t)i;
  }
}

stg_status stg_kb_index_init(const struct stg_kb *kb, enum stg_kb_side side,
                             struct stg_kb_index *ret_index, stg_error *reterr) {
  const size_t n = kb->facts.n;
  struct stg_kb_index index = {.n_slots = stg_next_pow2(2 * n + 1)};
  index.buckets = stg_calloc(n, sizeof *index.buckets);
  index.slots = stg_calloc(index.n_slots, sizeof *index.slots);
  index.facts = stg_calloc(n, sizeof *index.facts);
  if (index.buckets == NULL || index.slots == NULL || index.facts == NULL) {
    stg_kb_index_finish(&index);
    return stg_error_memory(reterr, "an index of facts",
                            n * (sizeof *index.buckets + sizeof *index.facts) +
                                index.n_slots * sizeof *index.slots);
  }
  fill(kb, side, &index);
  *ret_index = index;
  return STG_OK;
}

const struct stg_kb_bucket *stg_kb_index_find(const struct stg_kb_index *index, int32_t pred,
                                              int32_t arg) {
  if (index->n_buckets == 0) {
    return NULL;
  }
  const uint32_t found = index->slots[slot_of(index, pred, arg)];
  return found != 0 ? &index->buckets[found - 1] : NULL;
}

void stg_kb_index_finish(struct stg_kb_index *index) {
  stg_free(index->buckets);
  stg_free(index->slots);
  stg_free(index->facts);
  *index = (struct stg_kb_index){0};
}

static void count_rules(const struct stg_kb *kb, uint32_t *counts, struct stg_kb_stats *stats) {
  for (size_t i = 0; i < kb->n_rules; i++) {
    const struct stg_kb_rule *rule = &kb->rules[i];
    const uint32_t count = ++counts[rule->head.pred - 1];
    stats->longest_body = rule->n_body > stats->longest_body ? rule->n_body : stats->longest_body;
    if (count > stats->most_rules) {
      stats->most_rules = count;
      stats->most_ruled = rule->head.pred;
    }
  }
}

static stg_status count_side(const struct stg_kb *kb, enum stg_kb_side side,
                             struct stg_kb_stats *stats, stg_error *reterr) {
  struct stg_kb_index index = {0};
  stg_status status = stg_kb_index_init(kb, side, &index, reterr);
  if (status != STG_OK) {
    return status;
  }
  stats->n_buckets[side] = index.n_buckets;
  for (size_t i = 0; i < index.n_buckets; i++) {
    if (index.buckets[i].count > stats->largest[side].count) {
      stats->largest[side] = index.buckets[i];
    }
  }
  stg_kb_index_finish(&index);
  return STG_OK;
}

stg_status stg_kb_count(const struct stg_kb *kb, struct stg_kb_stats *ret_stats,
                        stg_error *reterr) {
  struct stg_kb_stats stats = {.facts = kb->facts.n,
                               .predicates = kb->predicates.n,
                               .constants = kb->constants.n,
                               .rules = kb->n_rules,
                               .queries = kb->queries.n};
  uint32_t *counts = stg_calloc(kb->predicates.n, sizeof *counts);
  if (counts == NULL) {
    return stg_error_memory(reterr, "the counts of rules", kb->predicates.n * sizeof *counts);
  }
  count_rules(kb, counts, &stats);
  stg_free(counts);
  for (int side = 0; side < STG_KB_SIDES; side++) {
    stg_status status = count_side(kb, (enum stg_kb_side)side, &stats, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  *ret_stats = stats;
  return STG_OK;
}
