/*
 * prover_pool.c: draw the corruptions of queries.
 *
 * A group shuffles the constants of its domain as far as it needs (Fisher and Yates), takes those
 * that are allowed, and puts the list back in order, so that no group depends on another one and
 * one that needs a few constants of a million touches a few.
 */
#include "specs/prover_pool.h"

#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "specs/random.h"

/* Of the generator (specs/README.md, "Random values"). */
#define STREAM ((uint64_t)10 << 32)

/* Constants that may stand on a side, in ascending order, of predicate p from first[p] up to
 * first[p + 1]; first NULL: all of them, of every predicate. */
struct domain {
  int32_t *constants;
  size_t *first;
  size_t n;
};

struct making {
  const struct stg_prover_workload *workload;
  struct stg_kb truths; /* its facts are the queries */
  struct domain domain; /* of the side that is being drawn */
  uint32_t *swapped;    /* of a place its partner; as long as there are constants */
  struct stg_prover_pool pool;
  stg_error *err;
};

static void finish_domain(struct domain *domain) {
  stg_free(domain->constants);
  stg_free(domain->first);
  *domain = (struct domain){0};
}

static int32_t arg_of(struct stg_kb_atom atom, enum stg_prover_side side) {
  return side == STG_PROVER_HEAD ? atom.arg0 : atom.arg1;
}

static int compare_keys(const void *a, const void *b) {
  const uint64_t left = *(const uint64_t *)a;
  const uint64_t right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

/* Predicate and constant of each fact, each pair once; `keys` has room for all facts. */
static size_t list_pairs(const struct stg_kb *kb, enum stg_prover_side side, uint64_t *keys) {
  size_t n = 0;
  for (size_t i = 0; i < kb->facts.n; i++) {
    const struct stg_kb_atom fact = kb->facts.list[i];
    keys[i] = (uint64_t)(uint32_t)fact.pred << 32 | (uint32_t)arg_of(fact, side);
  }
  qsort(keys, kb->facts.n, sizeof *keys, compare_keys);
  for (size_t i = 0; i < kb->facts.n; i++) {
    if (i == 0 || keys[i] != keys[i - 1]) {
      keys[n++] = keys[i];
    }
  }
  return n;
}

static stg_status domain_of_argument(struct making *m, enum stg_prover_side side) {
  const struct stg_kb *kb = &m->workload->kb;
  const size_t n_first = kb->predicates.n + 2;
  struct domain *domain = &m->domain;
  const size_t bytes = kb->facts.n * sizeof(uint64_t);
  uint64_t *keys = stg_malloc(bytes);
  domain->constants = stg_calloc(kb->facts.n, sizeof *domain->constants);
  domain->first = stg_calloc(n_first, sizeof *domain->first);
  if (keys == NULL || domain->constants == NULL || domain->first == NULL) {
    stg_free(keys);
    return stg_error_memory(m->err, "the constants of arguments", bytes);
  }
  domain->n = list_pairs(kb, side, keys);
  for (size_t i = 0; i < domain->n; i++) {
    domain->constants[i] = (int32_t)(uint32_t)keys[i];
    domain->first[(keys[i] >> 32) + 1]++;
  }
  for (size_t pred = 1; pred < n_first; pred++) {
    domain->first[pred] += domain->first[pred - 1];
  }
  stg_free(keys);
  return STG_OK;
}

static stg_status domain_of_all(struct making *m) {
  struct domain *domain = &m->domain;
  domain->n = m->workload->kb.constants.n;
  domain->constants = stg_calloc(domain->n, sizeof *domain->constants);
  if (domain->constants == NULL) {
    return stg_error_memory(m->err, "the constants of a knowledge base",
                            domain->n * sizeof *domain->constants);
  }
  for (size_t i = 0; i < domain->n; i++) {
    domain->constants[i] = (int32_t)i + 1;
  }
  return STG_OK;
}

static bool is_known(const struct making *m, struct stg_kb_atom atom) {
  return stg_kb_find_fact(&m->workload->kb, atom) != SIZE_MAX ||
         stg_kb_find_fact(&m->truths, atom) != SIZE_MAX;
}

static void swap(int32_t *constants, size_t a, size_t b) {
  const int32_t kept = constants[a];
  constants[a] = constants[b];
  constants[b] = kept;
}

static stg_status draw_group(struct making *m, uint32_t query, enum stg_prover_side side) {
  const struct stg_prover_corruptions *c = &m->workload->corruptions;
  const struct domain *domain = &m->domain;
  const struct stg_kb_atom own = m->workload->queries[query];
  const size_t begin = domain->first != NULL ? domain->first[own.pred] : 0;
  const size_t n = (domain->first != NULL ? domain->first[own.pred + 1] : domain->n) - begin;
  int32_t *constants = domain->constants + begin;
  struct stg_prover_group group = {query, side, m->pool.candidates.n, 0};
  const uint64_t index = ((uint64_t)query * STG_PROVER_SIDES + (uint64_t)side) << 32;
  size_t drawn = 0;
  stg_status status = stg_kb_atoms_add(&m->pool.candidates, own, m->err);
  for (; drawn < n && group.count < c->count && status == STG_OK; drawn++) {
    const int64_t with =
        stg_random_between(c->seed, STREAM, index + drawn, (int64_t)drawn, (int64_t)n - 1);
    m->swapped[drawn] = (uint32_t)with;
    swap(constants, drawn, (size_t)with);
    struct stg_kb_atom atom = own;
    *(side == STG_PROVER_HEAD ? &atom.arg0 : &atom.arg1) = constants[drawn];
    if (constants[drawn] != arg_of(own, side) && !(c->filter && is_known(m, atom))) {
      status = stg_kb_atoms_add(&m->pool.candidates, atom, m->err);
      group.count++;
    }
  }
  while (drawn > 0) {
    drawn--;
    swap(constants, drawn, m->swapped[drawn]);
  }
  m->pool.groups[m->pool.n_groups++] = group;
  return status;
}

static stg_status draw_side(struct making *m, enum stg_prover_side side) {
  const struct stg_prover_workload *w = m->workload;
  stg_status status = w->corruptions.of_argument ? domain_of_argument(m, side) : domain_of_all(m);
  for (uint32_t query = 0; query < w->n_queries && status == STG_OK; query++) {
    status = draw_group(m, query, side);
  }
  finish_domain(&m->domain);
  return status;
}

static stg_status begin(struct making *m) {
  const struct stg_prover_workload *w = m->workload;
  const size_t n_groups = w->n_queries * w->corruptions.n_sides;
  bool added = false;
  stg_status status = STG_OK;
  m->swapped = stg_calloc(w->kb.constants.n, sizeof *m->swapped);
  m->pool.groups = stg_calloc(n_groups, sizeof *m->pool.groups);
  if (m->swapped == NULL || m->pool.groups == NULL) {
    return stg_error_memory(m->err, "a pool of queries", n_groups * sizeof *m->pool.groups);
  }
  for (size_t i = 0; i < w->kb.queries.n && status == STG_OK; i++) {
    status = stg_kb_add_fact(&m->truths, w->kb.queries.list[i], &added, m->err);
  }
  return status;
}

stg_status stg_prover_pool_make(const struct stg_prover_workload *workload,
                                struct stg_prover_pool *ret_pool, stg_error *reterr) {
  struct making m = {.workload = workload, .err = reterr};
  stg_status status = begin(&m);
  for (uint32_t i = 0; i < workload->corruptions.n_sides && status == STG_OK; i++) {
    status = draw_side(&m, workload->corruptions.sides[i]);
  }
  stg_free(m.swapped);
  stg_kb_finish(&m.truths);
  if (status == STG_OK) {
    *ret_pool = m.pool;
  } else {
    stg_prover_pool_finish(&m.pool);
  }
  return status;
}

void stg_prover_pool_finish(struct stg_prover_pool *pool) {
  stg_free(pool->candidates.list);
  stg_free(pool->groups);
  *pool = (struct stg_prover_pool){0};
}
