/*
 * signature_reader.c: see signature_reader.h.
 */
#include "engine/signature_reader.h"

#include <stdio.h>
#include <string.h>

#include "engine/signature.h"

/* Longer than any number that is printed. */
#define MAX_DIGITS 18
#define MAX_SHAPE ((int64_t)1 << 32)
#define SHOWN_CHARS 40

stg_status stg_signature_expected(const struct stg_signature_reader *reader, const char *what) {
  const char *found = reader->text + reader->at;
  const size_t len = strlen(found);
  return len == 0 ? stg_error_set(reader->err, STG_E_FORMAT,
                                  "column %zu: expected %s, found the end", reader->at + 1, what)
                  : stg_error_set(reader->err, STG_E_FORMAT,
                                  "column %zu: expected %s, found '%.*s%s'", reader->at + 1, what,
                                  SHOWN_CHARS, found, len > SHOWN_CHARS ? "..." : "");
}

bool stg_signature_skip(struct stg_signature_reader *reader, const char *word) {
  const size_t len = strlen(word);
  const bool there = strncmp(reader->text + reader->at, word, len) == 0;
  reader->at += there ? len : 0;
  return there;
}

stg_status stg_signature_take(struct stg_signature_reader *reader, const char *word) {
  if (stg_signature_skip(reader, word)) {
    return STG_OK;
  }
  char what[64];
  snprintf(what, sizeof what, "'%s'", word);
  return stg_signature_expected(reader, what);
}

stg_status stg_signature_take_number(struct stg_signature_reader *reader, const char *word,
                                     int64_t max, int64_t *ret_value) {
  stg_status status = stg_signature_take(reader, word);
  if (status != STG_OK) {
    return status;
  }
  const char *digits = reader->text + reader->at;
  const size_t len = strspn(digits, "0123456789");
  int64_t value = 0;
  if (len == 0) {
    return stg_signature_expected(reader, "a number");
  }
  for (size_t i = 0; i < len && len <= MAX_DIGITS; i++) {
    value = 10 * value + (digits[i] - '0');
  }
  if (len > MAX_DIGITS || value > max) {
    return stg_error_set(reader->err, STG_E_FORMAT, "column %zu: %.*s is more than %lld",
                         reader->at + 1, (int)(len > SHOWN_CHARS ? SHOWN_CHARS : len), digits,
                         (long long)max);
  }
  reader->at += len;
  *ret_value = value;
  return STG_OK;
}

stg_status stg_signature_take_choice(struct stg_signature_reader *reader, const char *word,
                                     const char *const *choices, const char *listed,
                                     int *ret_index) {
  stg_status status = stg_signature_take(reader, word);
  if (status != STG_OK) {
    return status;
  }
  size_t longest = 0;
  for (int i = 0; choices[i] != NULL; i++) {
    const size_t len = strlen(choices[i]);
    if (len > longest && strncmp(reader->text + reader->at, choices[i], len) == 0) {
      longest = len;
      *ret_index = i;
    }
  }
  reader->at += longest;
  return longest > 0 ? STG_OK : stg_signature_expected(reader, listed);
}

stg_status stg_signature_take_shape(struct stg_signature_reader *reader,
                                    struct stg_graph_shape *ret_shape) {
  struct stg_graph_shape shape;
  stg_status status = stg_signature_take_number(reader, " | batch<=", MAX_SHAPE, &shape.batch);
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " seq<=", MAX_SHAPE, &shape.seq);
  }
  if (status == STG_OK) {
    status = stg_signature_take_number(reader, " rows<=", MAX_SHAPE, &shape.rows);
  }
  if (status == STG_OK && reader->text[reader->at] != '\0') {
    status = stg_signature_expected(reader, "the end");
  }
  if (status != STG_OK) {
    return status;
  }
  if (shape.batch == 0 || shape.seq == 0 || shape.rows == 0) {
    return stg_error_set(reader->err, STG_E_FORMAT,
                         "batch<=%lld seq<=%lld rows<=%lld: no bucket is 0", (long long)shape.batch,
                         (long long)shape.seq, (long long)shape.rows);
  }
  *ret_shape = shape;
  return STG_OK;
}
