/*
 * prove_tables.c: see prove_tables.h.
 *
 * Parts lie one after the other, each from a multiple of 64 bytes on. Buckets come in the order of
 * their first facts, the facts of a bucket and the rules of a predicate in that of the file.
 * It must not know of files, nor of devices.
 */
#include "codegen/prove_tables.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "codegen/prover.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

#define ALIGNMENT 64

static bool is_argument(const struct stg_prove_source *source, int arg, unsigned n_vars) {
  return arg > 0 ? arg <= source->constants : arg < 0 && (unsigned)-(arg + 1) < n_vars;
}

static bool is_atom(const struct stg_prove_source *source, struct stg_prove_atom atom,
                    unsigned n_vars) {
  return atom.pred >= 1 && atom.pred <= source->predicates &&
         is_argument(source, atom.arg0, n_vars) && is_argument(source, atom.arg1, n_vars);
}

static stg_status refuse_atom(const struct stg_prove_source *source, const char *what, size_t index,
                              struct stg_prove_atom atom, stg_error *reterr) {
  return stg_error_set(
      reterr, STG_E_INVALID, "%s[%zu]: atom %d(%d,%d) is none of %d predicates and %d constants",
      what, index, atom.pred, atom.arg0, atom.arg1, source->predicates, source->constants);
}

static stg_status check_rule(const struct stg_prove_source *source, size_t index,
                             stg_error *reterr) {
  const struct stg_prove_rule *rule = &source->rules[index];
  if (rule->n_body < 1 || rule->n_body > STG_PROVE_MAX_BODY) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "rules[%zu]: its body has %u atoms, must be 1 to %d", index, rule->n_body,
                         STG_PROVE_MAX_BODY);
  }
  if (rule->n_vars > STG_PROVE_MAX_VARS) {
    return stg_error_set(reterr, STG_E_INVALID, "rules[%zu]: %u variables are more than %d", index,
                         rule->n_vars, STG_PROVE_MAX_VARS);
  }
  if (!is_atom(source, rule->head, rule->n_vars)) {
    return refuse_atom(source, "rules", index, rule->head, reterr);
  }
  for (unsigned k = 0; k < rule->n_body; k++) {
    if (!is_atom(source, rule->body[k], rule->n_vars)) {
      return refuse_atom(source, "rules", index, rule->body[k], reterr);
    }
  }
  return STG_OK;
}

/* What is allocated follows from what was given, not from a number alone. */
static stg_status check_predicates(const struct stg_prove_source *source, stg_error *reterr) {
  size_t most = STG_PROVE_SPARE_PREDICATES + source->n_facts + source->n_rules;
  for (size_t i = 0; i < source->n_rules; i++) {
    most += source->rules[i].n_body;
  }
  if ((size_t)source->predicates > most) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "predicates: %d are more than %zu, which are %zu and one for each atom of "
                         "facts and rules",
                         source->predicates, most, STG_PROVE_SPARE_PREDICATES);
  }
  return STG_OK;
}

static stg_status check_source(const struct stg_prove_source *source, stg_error *reterr) {
  if (source->predicates < 1 || source->constants < 1 ||
      source->predicates > INT32_MAX - STG_PROVE_ENDF || source->constants > INT32_MAX / 2) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%d predicates and %d constants are no knowledge "
                         "base",
                         source->predicates, source->constants);
  }
  if (source->n_facts > STG_PROVE_MAX_FACTS || source->n_rules > STG_PROVE_MAX_RULES) {
    return stg_error_set(reterr, STG_E_INVALID, "%zu facts and %zu rules: at most %zu and %zu",
                         source->n_facts, source->n_rules, STG_PROVE_MAX_FACTS,
                         STG_PROVE_MAX_RULES);
  }
  for (size_t i = 0; i < source->n_facts; i++) {
    if (!is_atom(source, source->facts[i], 0)) {
      return refuse_atom(source, "facts", i, source->facts[i], reterr);
    }
  }
  for (size_t i = 0; i < source->n_rules; i++) {
    const stg_status status = check_rule(source, i, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  return check_predicates(source, reterr);
}

/* Parts of the block, in bytes from its start. */
struct side_layout {
  size_t buckets, slots, facts;
};

struct layout {
  size_t facts, fact_slots, rules, rule_first, bodies, bytes;
  struct side_layout sides[3];
  size_t n_slots; /* of every hash table */
  size_t n_bodies;
};

static size_t place(size_t *at, size_t count, size_t unit) {
  const size_t here = *at;
  *at += stg_round_up(count * unit, ALIGNMENT);
  return here;
}

/* Sizes are bounded by check_source, far below what wraps. */
static struct layout lay_out(const struct stg_prove_source *source) {
  struct layout l = {.n_slots = stg_next_pow2(2 * source->n_facts + 1)};
  for (size_t i = 0; i < source->n_rules; i++) {
    l.n_bodies += source->rules[i].n_body;
  }
  l.facts = place(&l.bytes, source->n_facts, sizeof(struct stg_prove_row));
  l.fact_slots = place(&l.bytes, l.n_slots, sizeof(unsigned));
  for (int side = 0; side < 3; side++) {
    l.sides[side].buckets = place(&l.bytes, source->n_facts, sizeof(struct stg_prove_bucket));
    l.sides[side].slots = place(&l.bytes, l.n_slots, sizeof(unsigned));
    l.sides[side].facts = place(&l.bytes, source->n_facts, sizeof(unsigned));
  }
  l.rules = place(&l.bytes, source->n_rules, sizeof(struct stg_prove_template));
  l.rule_first = place(&l.bytes, (size_t)source->predicates + 1, sizeof(unsigned));
  l.bodies = place(&l.bytes, l.n_bodies, sizeof(struct stg_prove_row));
  return l;
}

static struct stg_prove_side side_at(const struct layout *l, int side, const unsigned char *at) {
  return (struct stg_prove_side){
      .buckets = (const void *)(at + l->sides[side].buckets),
      .slots = (const void *)(at + l->sides[side].slots),
      .facts = (const void *)(at + l->sides[side].facts),
      .mask = (unsigned)l->n_slots - 1,
  };
}

static struct stg_prove_base base_at(const struct stg_prove_source *source, const struct layout *l,
                                     const unsigned char *at) {
  return (struct stg_prove_base){
      .facts = (const void *)(at + l->facts),
      .fact_slots = (const void *)(at + l->fact_slots),
      .by_pred = side_at(l, 0, at),
      .by_arg0 = side_at(l, 1, at),
      .by_arg1 = side_at(l, 2, at),
      .rules = (const void *)(at + l->rules),
      .rule_first = (const void *)(at + l->rule_first),
      .bodies = (const void *)(at + l->bodies),
      .fact_mask = (unsigned)l->n_slots - 1,
      .predicates = source->predicates,
      .constants = source->constants,
  };
}

static struct stg_prove_row row_of(struct stg_prove_atom atom) {
  return (struct stg_prove_row){.pred = atom.pred, .arg0 = atom.arg0, .arg1 = atom.arg1};
}

static stg_status fill_facts(const struct stg_prove_source *source, const struct layout *l,
                             unsigned char *block, stg_error *reterr) {
  struct stg_prove_row *facts = (void *)(block + l->facts);
  unsigned *slots = (void *)(block + l->fact_slots);
  const struct stg_prove_base base = base_at(source, l, block);
  for (size_t i = 0; i < source->n_facts; i++) {
    const struct stg_prove_atom fact = source->facts[i];
    const unsigned same = stg_atom_find_fact(&base, fact);
    if (same != STG_ATOM_NO_FACT) {
      return stg_error_set(reterr, STG_E_INVALID, "facts[%zu]: %d(%d,%d) is facts[%u] already", i,
                           fact.pred, fact.arg0, fact.arg1, same);
    }
    size_t at = (size_t)stg_atom_mix(fact.pred, fact.arg0, fact.arg1) & base.fact_mask;
    while (slots[at] != 0) {
      at = (at + 1) & base.fact_mask;
    }
    facts[i] = row_of(fact);
    slots[at] = (unsigned)i + 1;
  }
  return STG_OK;
}

static int key_of(struct stg_prove_atom fact, int side) {
  return side == 0 ? 0 : side == 1 ? fact.arg0 : fact.arg1;
}

/* Who is in which bucket, then where each begins, then who lies where. */
static void fill_side(const struct stg_prove_source *source, const struct layout *l, int side,
                      unsigned char *block) {
  struct stg_prove_bucket *buckets = (void *)(block + l->sides[side].buckets);
  unsigned *slots = (void *)(block + l->sides[side].slots);
  unsigned *facts = (void *)(block + l->sides[side].facts);
  const size_t mask = l->n_slots - 1;
  unsigned n_buckets = 0;
  unsigned next = 0;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < source->n_facts; i++) {
      const int pred = source->facts[i].pred;
      const int arg = key_of(source->facts[i], side);
      size_t at = (size_t)stg_atom_mix(pred, arg, 0) & mask;
      while (slots[at] != 0 &&
             (buckets[slots[at] - 1].pred != pred || buckets[slots[at] - 1].arg != arg)) {
        at = (at + 1) & mask;
      }
      if (slots[at] == 0) {
        buckets[n_buckets] = (struct stg_prove_bucket){.pred = pred, .arg = arg};
        slots[at] = ++n_buckets;
      }
      struct stg_prove_bucket *bucket = &buckets[slots[at] - 1];
      if (round == 1) {
        facts[bucket->first + bucket->count] = (unsigned)i;
      }
      bucket->count++;
    }
    for (unsigned b = 0; b < n_buckets && round == 0; b++) {
      buckets[b].first = next;
      next += buckets[b].count;
      buckets[b].count = 0;
    }
  }
}

static void fill_rules(const struct stg_prove_source *source, const struct layout *l,
                       unsigned char *block) {
  struct stg_prove_template *rules = (void *)(block + l->rules);
  struct stg_prove_row *bodies = (void *)(block + l->bodies);
  unsigned *first = (void *)(block + l->rule_first);
  unsigned n_bodies = 0;
  /* first[p] ends the rules of predicate p, which begin at first[p - 1]; filled from the back */
  for (size_t i = 0; i < source->n_rules; i++) {
    first[source->rules[i].head.pred]++;
  }
  for (int p = 1; p <= source->predicates; p++) {
    first[p] += first[p - 1];
  }
  for (size_t i = source->n_rules; i-- > 0;) {
    const struct stg_prove_rule *rule = &source->rules[i];
    struct stg_prove_template *to = &rules[--first[rule->head.pred]];
    *to = (struct stg_prove_template){.arg0 = rule->head.arg0,
                                      .arg1 = rule->head.arg1,
                                      .first_body = n_bodies,
                                      .n_body = rule->n_body};
    for (unsigned k = 0; k < rule->n_body; k++) {
      bodies[n_bodies++] = row_of(rule->body[k]);
    }
  }
  /* each has become where its predicate's rules begin */
  for (int p = 0; p < source->predicates; p++) {
    first[p] = first[p + 1];
  }
  first[source->predicates] = (unsigned)source->n_rules;
}

stg_status stg_prove_tables_init(const struct stg_prove_source *source,
                                 struct stg_prove_tables *ret_tables, stg_error *reterr) {
  stg_status status = check_source(source, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct layout l = lay_out(source);
  unsigned char *block = stg_malloc_aligned(l.bytes);
  if (block == NULL) {
    return stg_error_memory(reterr, "the tables of a knowledge base", l.bytes);
  }
  memset(block, 0, l.bytes);
  status = fill_facts(source, &l, block, reterr);
  if (status != STG_OK) {
    stg_free(block);
    return status;
  }
  for (int side = 0; side < 3; side++) {
    fill_side(source, &l, side, block);
  }
  fill_rules(source, &l, block);
  *ret_tables = (struct stg_prove_tables){
      .block = block, .bytes = l.bytes, .base = base_at(source, &l, block)};
  return STG_OK;
}

void stg_prove_tables_finish(struct stg_prove_tables *tables) {
  stg_free(tables->block);
  *tables = (struct stg_prove_tables){0};
}

/* Where a part of the block is in the copy. */
static const void *moved(const struct stg_prove_tables *tables, const void *part, const void *at) {
  return (const unsigned char *)at + ((const unsigned char *)part - tables->block);
}

static struct stg_prove_side side_moved(const struct stg_prove_tables *tables,
                                        struct stg_prove_side side, const void *at) {
  side.buckets = moved(tables, side.buckets, at);
  side.slots = moved(tables, side.slots, at);
  side.facts = moved(tables, side.facts, at);
  return side;
}

struct stg_prove_base stg_prove_tables_at(const struct stg_prove_tables *tables, const void *at) {
  struct stg_prove_base base = tables->base;
  base.facts = moved(tables, base.facts, at);
  base.fact_slots = moved(tables, base.fact_slots, at);
  base.by_pred = side_moved(tables, base.by_pred, at);
  base.by_arg0 = side_moved(tables, base.by_arg0, at);
  base.by_arg1 = side_moved(tables, base.by_arg1, at);
  base.rules = moved(tables, base.rules, at);
  base.rule_first = moved(tables, base.rule_first, at);
  base.bodies = moved(tables, base.bodies, at);
  return base;
}
