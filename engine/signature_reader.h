/*
 * signature_reader.h: reading signatures: words, numbers and choices, with their columns.
 *
 * Every family reads its own part with these. Places are columns of the text, from 1. Knows no file
 * and no JSON.
 */
#ifndef STG_ENGINE_SIGNATURE_READER_H
#define STG_ENGINE_SIGNATURE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_arena;
struct stg_graph_shape;
struct stg_op_table;

/* What is read, and how far. */
struct stg_signature_reader {
  const char *text;
  size_t at;
  struct stg_op_table *ops; /* where user ops are looked up by the hash of their body */
  struct stg_arena *arena;  /* of what is read */
  stg_error *err;
};

/** STG_E_FORMAT: "column N: expected WHAT, found '...'". */
STG_NODISCARD stg_status stg_signature_expected(const struct stg_signature_reader *reader,
                                                const char *what);
/** Go past `word` where it stands here. */
bool stg_signature_skip(struct stg_signature_reader *reader, const char *word);
/** Go past `word`, which must stand here. */
STG_NODISCARD stg_status stg_signature_take(struct stg_signature_reader *reader, const char *word);
/** `word`, then a number of digits alone, at most `max`. */
STG_NODISCARD stg_status stg_signature_take_number(struct stg_signature_reader *reader,
                                                   const char *word, int64_t max,
                                                   int64_t *ret_value);
/** `word`, then one of the words of a NULL-terminated list: the longest that fits. `listed` are
 * they as a message has them. */
STG_NODISCARD stg_status stg_signature_take_choice(struct stg_signature_reader *reader,
                                                   const char *word, const char *const *choices,
                                                   const char *listed, int *ret_index);
/** What stg_graph_shape_print wrote, and the end. */
STG_NODISCARD stg_status stg_signature_take_shape(struct stg_signature_reader *reader,
                                                  struct stg_graph_shape *ret_shape);

#endif
