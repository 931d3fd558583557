/*
 * suggest.c: edit distance over words and names.
 *
 * Words longer than WORD_MAX_CHARS are never suggested: a subcommand, an option or an op is short,
 * and whoever typed a long word did not mistype a short one. Knows no option, no subcommand and no
 * op.
 */
#include "runtime/base/suggest.h"

#include <string.h>

#define WORD_MAX_CHARS 40

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

_Static_assert(WORD_MAX_CHARS <= STG_SUGGEST_DISTANCE_BYTES, "a word fits the table");

/* Optimal string alignment: insert, delete, replace, swap neighbours. Both lengths fit the table.
 */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
  size_t rows[3][STG_SUGGEST_DISTANCE_BYTES + 1];
  size_t *before = rows[0];
  size_t *above = rows[1];
  size_t *row = rows[2];
  for (size_t j = 0; j <= b_len; j++) {
    before[j] = 0;
    above[j] = j;
  }
  for (size_t i = 1; i <= a_len; i++) {
    row[0] = i;
    for (size_t j = 1; j <= b_len; j++) {
      size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = smaller(smaller(above[j], row[j - 1]) + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = smaller(row[j], before[j - 2] + 1);
      }
    }
    size_t *oldest = before;
    before = above;
    above = row;
    row = oldest;
  }
  return above[b_len];
}

size_t stg_suggest_distance(const char *a, const char *b) {
  return edit_distance(a, smaller(strlen(a), STG_SUGGEST_DISTANCE_BYTES), b,
                       smaller(strlen(b), STG_SUGGEST_DISTANCE_BYTES));
}

const char *stg_suggest_find(const char *text, const char *(*get)(const void *user, size_t index),
                             const void *user, size_t count) {
  size_t len = strlen(text);
  if (len > WORD_MAX_CHARS) {
    return NULL;
  }
  const char *best = NULL;
  size_t best_distance = 1 + len / 3; /* more edits than that make another word */
  for (size_t i = 0; i < count; i++) {
    const char *word = get(user, i);
    size_t word_len = strlen(word);
    if (word_len > WORD_MAX_CHARS) {
      continue;
    }
    size_t distance = edit_distance(text, len, word, word_len);
    if (distance < best_distance || (distance == best_distance && best == NULL)) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}
