/*
 * kb_index.h: the facts of a knowledge base by what a goal knows of them: its predicate, and one of
 * its arguments.
 */
#ifndef STG_SPECS_KB_INDEX_H
#define STG_SPECS_KB_INDEX_H

#include "specs/kb.h"

enum stg_kb_side {
  STG_KB_BY_PRED, /* an argument counts as 0 */
  STG_KB_BY_ARG0,
  STG_KB_BY_ARG1,
  STG_KB_SIDES
};

/* The facts with one predicate and one argument: facts[first] to facts[first + count - 1] of the
 * index. */
struct stg_kb_bucket {
  int32_t pred;
  int32_t arg;
  uint32_t first;
  uint32_t count;
};

/* {0} is a valid empty one. Read-only once it is made: any thread. */
struct stg_kb_index {
  struct stg_kb_bucket *buckets; /* in the order of their first facts */
  size_t n_buckets;
  uint32_t *slots; /* a hash table of the buckets: 1 + index, 0 where there is none */
  size_t n_slots;  /* a power of two */
  uint32_t *facts; /* indices of facts, those of a bucket in the order of the file */
};

/** Sort the facts of `kb`. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_kb_index_init(const struct stg_kb *kb, enum stg_kb_side side,
                                           struct stg_kb_index *ret_index, stg_error *reterr);
/** The bucket of a predicate and an argument, NULL where there is no such fact. */
const struct stg_kb_bucket *stg_kb_index_find(const struct stg_kb_index *index, int32_t pred,
                                              int32_t arg);
void stg_kb_index_finish(struct stg_kb_index *index);

/* What a knowledge base is like. A bucket with a count of 0: there is none. */
struct stg_kb_stats {
  size_t facts;
  size_t predicates;
  size_t constants;
  size_t rules;
  size_t queries;
  size_t n_buckets[STG_KB_SIDES];
  struct stg_kb_bucket largest[STG_KB_SIDES]; /* the first of them */
  uint32_t longest_body;                      /* of a rule, in atoms */
  int32_t most_ruled;                         /* the predicate that most rules derive, 0: none */
  size_t most_rules;
};

/** Count. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_kb_count(const struct stg_kb *kb, struct stg_kb_stats *ret_stats,
                                      stg_error *reterr);

#endif
