/*
 * kb.h: a knowledge base as text, read: facts and rules over predicates of two arguments, and
 * queries.
 *
 * Names become numbers in the order of their first occurrence, facts before rules: predicates from
 * 1 on, constants from 1 on. Whoever derives from it decides what the numbers above are. Must not
 * know how a proof is searched for.
 */
#ifndef STG_SPECS_KB_H
#define STG_SPECS_KB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "specs/kb_names.h"

#define STG_KB_MAX_FILE_BYTES ((uint64_t)64 << 20)
#define STG_KB_MAX_BODY 8       /* atoms in the body of a rule */
#define STG_KB_MAX_RULE_VARS 18 /* of its head and its body, all of them apart */

/* pred(arg0, arg1). In a rule an argument below 0 is the rule's variable number -arg - 1. */
struct stg_kb_atom {
  int32_t pred;
  int32_t arg0;
  int32_t arg1;
};

struct stg_kb_rule {
  const char *name;
  double confidence; /* 0 to 1; reported, and no part of a derivation */
  struct stg_kb_atom head;
  const struct stg_kb_atom *body;
  uint32_t n_body; /* 1 to STG_KB_MAX_BODY */
  uint32_t n_vars;
};

/* All atoms of a growing list. */
struct stg_kb_atoms {
  struct stg_kb_atom *list;
  size_t n;
  size_t capacity;
};

/* {0} is a valid empty one. Read-only once it is read: any thread. */
struct stg_kb {
  struct stg_arena arena; /* names, and bodies of rules */
  struct stg_kb_names predicates;
  struct stg_kb_names constants;
  struct stg_kb_atoms facts; /* ground, each once */
  struct stg_kb_atoms queries;
  uint32_t *fact_slots; /* a hash table of the facts: 1 + index, 0 where there is none */
  size_t n_fact_slots;  /* a power of two, at least twice the facts */
  struct stg_kb_rule *rules;
  size_t n_rules;
  size_t rules_capacity;
};

/* Where the parts lie; NULL: there are none. */
struct stg_kb_paths {
  const char *facts;
  const char *rules;
  const char *queries;
};

/**
 * Read the files of a knowledge base, the largest of 64 MiB.
 * @return STG_E_FORMAT with "file:line:column: " before the message, columns counting characters;
 *         what stg_file_read returns. Then `*ret_kb` is untouched.
 */
STG_NODISCARD stg_status stg_kb_load(const struct stg_kb_paths *paths, struct stg_kb *ret_kb,
                                     stg_error *reterr);

/**
 * Add what a text says, facts before rules and rules before queries; `path` names it in messages.
 * After a failure the knowledge base is good for stg_kb_finish alone. A query's names are those of
 * facts and rules.
 */
STG_NODISCARD stg_status stg_kb_parse_facts(struct stg_kb *kb, const char *path, const char *text,
                                            size_t len, stg_error *reterr);
STG_NODISCARD stg_status stg_kb_parse_rules(struct stg_kb *kb, const char *path, const char *text,
                                            size_t len, stg_error *reterr);
STG_NODISCARD stg_status stg_kb_parse_queries(struct stg_kb *kb, const char *path, const char *text,
                                              size_t len, stg_error *reterr);
/**
 * Read a text that is one query, whose full stop may be left out; comments and empty lines may
 * stand around it. STG_E_FORMAT with place, also for none and for more than one.
 */
STG_NODISCARD stg_status stg_kb_parse_query(const struct stg_kb *kb, const char *path,
                                            const char *text, size_t len,
                                            struct stg_kb_atom *ret_atom, stg_error *reterr);
void stg_kb_finish(struct stg_kb *kb);

/** The index of a fact, or SIZE_MAX. */
size_t stg_kb_find_fact(const struct stg_kb *kb, struct stg_kb_atom atom);
/** Add a ground atom to the facts, unless it is one: `*ret_added` is false. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_kb_add_fact(struct stg_kb *kb, struct stg_kb_atom atom,
                                         bool *ret_added, stg_error *reterr);
/** Append to a list. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_kb_atoms_add(struct stg_kb_atoms *atoms, struct stg_kb_atom atom,
                                          stg_error *reterr);

/** 64 bits of an atom, all of which depend on each of its numbers. */
static inline uint64_t stg_kb_mix(struct stg_kb_atom atom) {
  uint64_t x = (uint32_t)atom.arg0 | (uint64_t)(uint32_t)atom.arg1 << 32;
  x ^= (uint32_t)atom.pred * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

#endif
