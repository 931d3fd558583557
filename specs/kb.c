/*
 * kb.c: a knowledge base in memory: its list of facts, and the table that finds one.
 *
 * Knows no text but the names of files.
 */
#include "specs/kb.h"

#include <stdbool.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

#define FIRST_CAPACITY 16
#define FIRST_SLOTS ((size_t)2 * FIRST_CAPACITY)

stg_status stg_kb_atoms_add(struct stg_kb_atoms *atoms, struct stg_kb_atom atom,
                            stg_error *reterr) {
  if (atoms->n == atoms->capacity) {
    const size_t capacity = atoms->capacity == 0 ? FIRST_CAPACITY : 2 * atoms->capacity;
    struct stg_kb_atom *list = stg_realloc(atoms->list, capacity * sizeof *list);
    if (list == NULL) {
      return stg_error_memory(reterr, "the atoms of a knowledge base", capacity * sizeof *list);
    }
    atoms->list = list;
    atoms->capacity = capacity;
  }
  atoms->list[atoms->n++] = atom;
  return STG_OK;
}

static bool is_equal(struct stg_kb_atom a, struct stg_kb_atom b) {
  return a.pred == b.pred && a.arg0 == b.arg0 && a.arg1 == b.arg1;
}

/* The slot where a fact is, or where it would be. */
static size_t slot_of(const struct stg_kb *kb, struct stg_kb_atom atom) {
  size_t at = (size_t)stg_kb_mix(atom) & (kb->n_fact_slots - 1);
  while (kb->fact_slots[at] != 0 && !is_equal(kb->facts.list[kb->fact_slots[at] - 1], atom)) {
    at = (at + 1) & (kb->n_fact_slots - 1);
  }
  return at;
}

size_t stg_kb_find_fact(const struct stg_kb *kb, struct stg_kb_atom atom) {
  if (kb->facts.n == 0) {
    return SIZE_MAX;
  }
  const uint32_t found = kb->fact_slots[slot_of(kb, atom)];
  return found != 0 ? found - 1 : SIZE_MAX;
}

/* A table that stays at most half full with one fact more. */
static stg_status reserve_slots(struct stg_kb *kb, stg_error *reterr) {
  if (2 * (kb->facts.n + 1) <= kb->n_fact_slots) {
    return STG_OK;
  }
  const size_t n_slots = kb->n_fact_slots == 0 ? FIRST_SLOTS : 2 * kb->n_fact_slots;
  uint32_t *slots = stg_calloc(n_slots, sizeof *slots);
  if (slots == NULL) {
    return stg_error_memory(reterr, "the table of facts", n_slots * sizeof *slots);
  }
  stg_free(kb->fact_slots);
  kb->fact_slots = slots;
  kb->n_fact_slots = n_slots;
  for (size_t i = 0; i < kb->facts.n; i++) {
    slots[slot_of(kb, kb->facts.list[i])] = (uint32_t)i + 1;
  }
  return STG_OK;
}

stg_status stg_kb_add_fact(struct stg_kb *kb, struct stg_kb_atom atom, bool *ret_added,
                           stg_error *reterr) {
  stg_status status = reserve_slots(kb, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t slot = slot_of(kb, atom);
  const bool is_new = kb->fact_slots[slot] == 0;
  if (is_new) {
    status = stg_kb_atoms_add(&kb->facts, atom, reterr);
  }
  if (status == STG_OK) {
    kb->fact_slots[slot] = is_new ? (uint32_t)kb->facts.n : kb->fact_slots[slot];
    *ret_added = is_new;
  }
  return status;
}

typedef stg_status (*parse_fn)(struct stg_kb *kb, const char *path, const char *text, size_t len,
                               stg_error *reterr);

static stg_status load_file(struct stg_kb *kb, const char *path, parse_fn parse,
                            stg_error *reterr) {
  char *text = NULL;
  size_t len = 0;
  if (path == NULL) {
    return STG_OK;
  }
  stg_status status = stg_file_read(path, STG_KB_MAX_FILE_BYTES, &text, &len, reterr);
  if (status == STG_OK) {
    status = parse(kb, path, text, len, reterr);
  }
  stg_free(text);
  return status;
}

stg_status stg_kb_load(const struct stg_kb_paths *paths, struct stg_kb *ret_kb, stg_error *reterr) {
  struct stg_kb kb = {0};
  stg_status status = load_file(&kb, paths->facts, stg_kb_parse_facts, reterr);
  if (status == STG_OK) {
    status = load_file(&kb, paths->rules, stg_kb_parse_rules, reterr);
  }
  if (status == STG_OK) {
    status = load_file(&kb, paths->queries, stg_kb_parse_queries, reterr);
  }
  if (status == STG_OK) {
    *ret_kb = kb;
  } else {
    stg_kb_finish(&kb);
  }
  return status;
}

void stg_kb_finish(struct stg_kb *kb) {
  stg_kb_names_finish(&kb->predicates);
  stg_kb_names_finish(&kb->constants);
  stg_free(kb->facts.list);
  stg_free(kb->queries.list);
  stg_free(kb->fact_slots);
  stg_free(kb->rules);
  stg_arena_finish(&kb->arena);
  *kb = (struct stg_kb){0};
}
