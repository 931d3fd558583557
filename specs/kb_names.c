/*
 * kb_names.c: a growing list of names and an open hash table of their numbers.
 *
 * Knows no grammar: a name is bytes.
 */
#include "specs/kb_names.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/key.h"
#include "runtime/base/suggest.h"

#define FIRST_CAPACITY 16
#define SUGGEST_MAX_NAMES 100000 /* some 50 ms */

static size_t first_slot(const struct stg_kb_names *names, const char *text, size_t len) {
  return (size_t)stg_key_of(text, len).low & (names->n_slots - 1);
}

int32_t stg_kb_names_find(const struct stg_kb_names *names, const char *text, size_t len) {
  if (names->n == 0) {
    return 0;
  }
  for (size_t at = first_slot(names, text, len); names->slots[at] != 0;
       at = (at + 1) & (names->n_slots - 1)) {
    const char *name = names->list[names->slots[at] - 1];
    if (strncmp(name, text, len) == 0 && name[len] == '\0') {
      return (int32_t)names->slots[at];
    }
  }
  return 0;
}

static void place(struct stg_kb_names *names, uint32_t number) {
  const char *name = names->list[number - 1];
  size_t at = first_slot(names, name, strlen(name));
  while (names->slots[at] != 0) {
    at = (at + 1) & (names->n_slots - 1);
  }
  names->slots[at] = number;
}

/* Room for one more, the table never more than half full. */
static stg_status reserve(struct stg_kb_names *names, stg_error *reterr) {
  if (names->n < names->capacity) {
    return STG_OK;
  }
  const size_t capacity = names->capacity == 0 ? FIRST_CAPACITY : 2 * names->capacity;
  const char **list = stg_realloc(names->list, capacity * sizeof *list);
  if (list == NULL) {
    return stg_error_memory(reterr, "the names of a knowledge base", capacity * sizeof *list);
  }
  names->list = list;
  uint32_t *slots = stg_calloc(2 * capacity, sizeof *slots);
  if (slots == NULL) {
    return stg_error_memory(reterr, "the names of a knowledge base", 2 * capacity * sizeof *slots);
  }
  stg_free(names->slots);
  names->slots = slots;
  names->n_slots = 2 * capacity;
  names->capacity = capacity;
  for (uint32_t number = 1; number <= names->n; number++) {
    place(names, number);
  }
  return STG_OK;
}

stg_status stg_kb_names_add(struct stg_kb_names *names, struct stg_arena *arena, const char *text,
                            size_t len, int32_t *ret_number, stg_error *reterr) {
  const int32_t known = stg_kb_names_find(names, text, len);
  if (known != 0) {
    *ret_number = known;
    return STG_OK;
  }
  stg_status status = reserve(names, reterr);
  if (status != STG_OK) {
    return status;
  }
  const char *copy = stg_arena_strndup(arena, text, len);
  if (copy == NULL) {
    return stg_arena_status(arena, reterr);
  }
  names->list[names->n++] = copy;
  place(names, (uint32_t)names->n);
  *ret_number = (int32_t)names->n;
  return STG_OK;
}

const char *stg_kb_names_text(const struct stg_kb_names *names, int32_t number) {
  assert(number > 0 && (size_t)number <= names->n);
  return names->list[number - 1];
}

static const char *name_at(const void *user, size_t index) {
  return ((const struct stg_kb_names *)user)->list[index];
}

const char *stg_kb_names_suggest(const struct stg_kb_names *names, const char *text) {
  return names->n <= SUGGEST_MAX_NAMES ? stg_suggest_find(text, name_at, names, names->n) : NULL;
}

void stg_kb_names_finish(struct stg_kb_names *names) {
  stg_free(names->list);
  stg_free(names->slots);
  *names = (struct stg_kb_names){0};
}
