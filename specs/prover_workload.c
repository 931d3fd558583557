/*
 * prover_workload.c: read a workload of the family "prover": the order of its members, and its
 * corruptions.
 *
 * The base and its queries are read by prover_queries.c, how it is searched by prover_search.c;
 * corruptions are drawn by prover_pool.c.
 */
#include "specs/prover_workload.h"

#include <inttypes.h>
#include <string.h>

#include "specs/prover_reader.h"

#define WARMUP 1
#define REPEATS 3

typedef stg_status (*read_part)(struct stg_prover_reader *, const struct stg_json *);

stg_status stg_prover_read_seed(const struct stg_prover_reader *reader,
                                const struct stg_json *object, uint64_t *ret_seed) {
  struct stg_json member;
  int64_t seed = 0;
  stg_status status = stg_json_get(object, "seed", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 0, STG_PROVER_MAX_SEED, &seed, reader->spec.err);
  }
  if (status == STG_OK) {
    *ret_seed = (uint64_t)seed;
  }
  return status;
}

stg_status stg_prover_read_either(const struct stg_prover_reader *reader,
                                  const struct stg_json *object, const char *first,
                                  const char *second, struct stg_json *ret_member,
                                  bool *ret_first) {
  struct stg_json other;
  const bool has_first = stg_json_find(object, first, ret_member);
  const bool has_second = stg_json_find(object, second, &other);
  if (has_first == has_second) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, object,
                          "has %d of '%s' and '%s'; give exactly one", has_first + has_second,
                          first, second);
  }
  if (has_second) {
    *ret_member = other;
  }
  *ret_first = has_first;
  return STG_OK;
}

static stg_status read_side(const struct stg_prover_reader *reader, const struct stg_json *item,
                            struct stg_prover_corruptions *c) {
  const char *word = NULL;
  stg_status status = stg_json_string(item, &word, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const bool is_head = strcmp(word, "head") == 0;
  if (!is_head && strcmp(word, "tail") != 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, item,
                          "'%.40s' is not known; use 'head' or 'tail'", word);
  }
  const enum stg_prover_side side = is_head ? STG_PROVER_HEAD : STG_PROVER_TAIL;
  for (uint32_t i = 0; i < c->n_sides; i++) {
    if (c->sides[i] == side) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, item, "'%s' is there twice; remove one",
                            word);
    }
  }
  c->sides[c->n_sides++] = side; /* there is room: no two are equal */
  return STG_OK;
}

static stg_status read_sides(const struct stg_prover_reader *reader, const struct stg_json *at,
                             struct stg_prover_corruptions *c) {
  struct stg_json list;
  struct stg_json item;
  if (!stg_json_find(at, "sides", &list)) {
    c->sides[0] = STG_PROVER_HEAD;
    c->sides[1] = STG_PROVER_TAIL;
    c->n_sides = STG_PROVER_SIDES;
    return STG_OK;
  }
  stg_status status = stg_json_expect_array(&list, reader->spec.err);
  bool more = status == STG_OK && stg_json_first(&list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = read_side(reader, &item, c);
  }
  if (status == STG_OK && c->n_sides == 0) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                            "no sides; give 'head', 'tail' or both, or leave 'sides' out");
  }
  return status;
}

/* A pool has each query on each side, and its corruptions. */
static stg_status check_pool(const struct stg_prover_reader *reader, const struct stg_json *count) {
  const struct stg_prover_workload *w = reader->workload;
  const struct stg_prover_corruptions *c = &w->corruptions;
  const uint64_t group = (uint64_t)c->count + 1;
  const uint64_t groups = (uint64_t)w->n_queries * c->n_sides;
  return groups <= STG_PROVER_MAX_POOL / group
             ? STG_OK
             : stg_json_error(reader->spec.err, STG_E_FORMAT, count,
                              "%" PRIu64 " candidates, %" PRIu32 " of each of %zu queries, at most "
                              "%d; ask for fewer corruptions or queries",
                              groups * group, (uint32_t)group * c->n_sides, w->n_queries,
                              STG_PROVER_MAX_POOL);
}

static stg_status read_corruptions(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"count", "seed", "sides", "domain", "filter", NULL};
  static const char *const domains[] = {"all", "argument", NULL};
  struct stg_prover_corruptions *c = &reader->workload->corruptions;
  struct stg_json at;
  struct stg_json count_at;
  struct stg_json member;
  int64_t count = 0;
  unsigned domain = 0;
  stg_status status = stg_json_get(root, "corruptions", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_get(&at, "count", &count_at, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&count_at, 1, STG_PROVER_MAX_CORRUPTIONS, &count, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_prover_read_seed(reader, &at, &c->seed);
  }
  if (status == STG_OK) {
    status = read_sides(reader, &at, c);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, &at, "domain", domains, &domain);
  }
  c->filter = true;
  if (status == STG_OK && stg_json_find(&at, "filter", &member)) {
    status = stg_json_bool(&member, &c->filter, reader->spec.err);
  }
  c->count = (uint32_t)count;
  c->of_argument = domain == 1;
  return status == STG_OK ? check_pool(reader, &count_at) : status;
}

static stg_status read_run(struct stg_prover_reader *reader, const struct stg_json *root) {
  struct stg_prover_workload *w = reader->workload;
  w->warmup = WARMUP;
  w->repeats = REPEATS;
  return stg_spec_read_run(&reader->spec, root, &w->warmup, &w->repeats);
}

static stg_status read_root(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"steergraph", "family",   "knowledge", "queries",
                                     "policy",     "limits",   "pick",      "corruptions",
                                     "arithmetic", "capacity", "run",       NULL};
  static const read_part parts[] = {
      stg_prover_read_knowledge,  stg_prover_read_queries,  stg_prover_read_limits,
      stg_prover_read_policy,     read_corruptions,         stg_prover_read_pick,
      stg_prover_read_arithmetic, stg_prover_read_capacity, read_run};
  stg_status status = stg_json_check_keys(root, keys, reader->spec.err);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STG_OK; i++) {
    status = parts[i](reader, root);
  }
  return status;
}

stg_status stg_prover_read_root(const struct stg_spec_reader *outer, const struct stg_json *root,
                                struct stg_prover_workload *ret_workload) {
  struct stg_prover_workload workload = {0};
  struct stg_prover_reader reader = {.spec = *outer, .workload = &workload};
  reader.spec.arena = &workload.arena;
  workload.file = stg_arena_strdup(&workload.arena, outer->file);
  stg_status status = stg_arena_status(&workload.arena, outer->err);
  status = status == STG_OK ? read_root(&reader, root) : status;
  if (status != STG_OK) {
    stg_prover_finish(&workload);
    return status;
  }
  *ret_workload = workload;
  return STG_OK;
}

void stg_prover_finish(struct stg_prover_workload *workload) {
  if (workload == NULL) {
    return;
  }
  stg_kb_finish(&workload->kb);
  stg_prove_policy_finish(&workload->policy);
  stg_arena_finish(&workload->arena);
  *workload = (struct stg_prover_workload){0};
}

stg_status stg_prover_take_policy(struct stg_prover_workload *workload,
                                  struct stg_prove_policy *ret_policy, stg_error *reterr) {
  if (workload->policy.n_tensors == 0) {
    return workload->weights_path != NULL
               ? stg_prove_policy_load(workload->weights_path, &workload->sizes, ret_policy, reterr)
               : stg_prove_policy_random(workload->weights_seed, &workload->sizes, ret_policy,
                                         reterr);
  }
  *ret_policy = workload->policy;
  workload->policy = (struct stg_prove_policy){0};
  return STG_OK;
}
