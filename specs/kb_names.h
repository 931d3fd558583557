/*
 * kb_names.h: names and their numbers, both ways.
 */
#ifndef STG_SPECS_KB_NAMES_H
#define STG_SPECS_KB_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"

#define STG_KB_MAX_NAME_BYTES 200

/* {0} is a valid empty set. Numbers count from 1, in the order of adding. */
struct stg_kb_names {
  const char **list; /* of number i at i - 1; the texts are the arena's */
  size_t n;
  size_t capacity;
  uint32_t *slots; /* a hash table of the numbers, 0 where there is none */
  size_t n_slots;
};

/** The number of a name, 0 where it has none. */
int32_t stg_kb_names_find(const struct stg_kb_names *names, const char *text, size_t len);
/** Its number, a new one where it has none. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_kb_names_add(struct stg_kb_names *names, struct stg_arena *arena,
                                          const char *text, size_t len, int32_t *ret_number,
                                          stg_error *reterr);
/** The name of a number of the set. */
const char *stg_kb_names_text(const struct stg_kb_names *names, int32_t number);
/** The nearest name to one that is not there, NULL where none is near, or where they are so many
 * that looking takes long. */
const char *stg_kb_names_suggest(const struct stg_kb_names *names, const char *text);
void stg_kb_names_finish(struct stg_kb_names *names);

#endif
