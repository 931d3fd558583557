/*
 * npy_header.c: see npy_header.h.
 *
 * A recursive format (Python literals) of which files hold one fixed form: this reads that form
 * alone, so nothing recurses. Only ASCII is taken, whatever the version's encoding, because a name
 * with other characters belongs to a structured array, which is not read.
 */
#include "specs/npy_header.h"

#include <string.h>

/* Keys of the dict; bits of `seen`. */
enum key { KEY_DESCR, KEY_FORTRAN_ORDER, KEY_SHAPE, N_KEYS };
static const char *const key_names[N_KEYS] = {"descr", "fortran_order", "shape"};

struct cursor {
  const char *path;
  const unsigned char *text;
  size_t size;
  size_t at;
  stg_error *err;
};

static int peek(const struct cursor *cursor) {
  return cursor->at < cursor->size ? cursor->text[cursor->at] : -1;
}

static void skip_space(struct cursor *cursor) {
  int c = peek(cursor);
  while (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
    cursor->at++;
    c = peek(cursor);
  }
}

/* "P: header, byte 12: expected ..., found 'x'" */
static stg_status fail_expected(const struct cursor *cursor, const char *expected) {
  int c = peek(cursor);
  if (c < 0) {
    return stg_error_set(cursor->err, STG_E_FORMAT,
                         "%s: header, byte %zu: expected %s, found its end", cursor->path,
                         cursor->at, expected);
  }
  if (c < ' ' || c > '~') {
    return stg_error_set(cursor->err, STG_E_FORMAT,
                         "%s: header, byte %zu: expected %s, found a byte 0x%02x", cursor->path,
                         cursor->at, expected, (unsigned)c);
  }
  return stg_error_set(cursor->err, STG_E_FORMAT, "%s: header, byte %zu: expected %s, found '%c'",
                       cursor->path, cursor->at, expected, c);
}

/* Pass over `wanted` and the white space before it. */
static bool take(struct cursor *cursor, char wanted) {
  skip_space(cursor);
  if (peek(cursor) != wanted) {
    return false;
  }
  cursor->at++;
  return true;
}

static stg_status expect(struct cursor *cursor, char wanted, const char *what) {
  return take(cursor, wanted) ? STG_OK : fail_expected(cursor, what);
}

/* A text in ' or ", without escapes: those that files have need none. Cut to `size`. */
static stg_status read_text(struct cursor *cursor, const char *what, char *ret_text, size_t size) {
  skip_space(cursor);
  int quote = peek(cursor);
  if (quote != '\'' && quote != '"') {
    return fail_expected(cursor, what);
  }
  cursor->at++;
  size_t len = 0;
  for (int c = peek(cursor); c != quote; c = peek(cursor)) {
    if (c < ' ' || c > '~' || c == '\\') {
      return fail_expected(cursor, "the end of a text");
    }
    if (len + 1 < size) {
      ret_text[len++] = (char)c;
    }
    cursor->at++;
  }
  ret_text[len] = '\0';
  cursor->at++;
  return STG_OK;
}

static stg_status read_key(struct cursor *cursor, unsigned *seen, enum key *ret_key) {
  static const char expected[] = "'descr', 'fortran_order' or 'shape'";
  char text[sizeof "fortran_order" + 1]; /* a longer key is cut, and none of ours */
  skip_space(cursor);
  struct cursor begin = *cursor;
  stg_status status = read_text(cursor, expected, text, sizeof text);
  if (status != STG_OK) {
    return status;
  }
  for (unsigned key = 0; key < N_KEYS; key++) {
    if (strcmp(text, key_names[key]) != 0) {
      continue;
    }
    if ((*seen & 1u << key) != 0) {
      return stg_error_set(cursor->err, STG_E_FORMAT, "%s: header, byte %zu: '%s' is given twice",
                           cursor->path, begin.at, text);
    }
    *seen |= 1u << key;
    *ret_key = (enum key)key;
    return STG_OK;
  }
  return stg_error_set(cursor->err, STG_E_FORMAT, "%s: header, byte %zu: expected %s, found '%s'",
                       cursor->path, begin.at, expected, text);
}

static stg_status read_descr(struct cursor *cursor, struct stg_npy_header *header) {
  skip_space(cursor);
  if (peek(cursor) == '[') {
    return stg_error_set(cursor->err, STG_E_UNSUPPORTED,
                         "%s: descr is a list of fields, a structured array; save one field",
                         cursor->path);
  }
  return read_text(cursor, "a text", header->descr, sizeof header->descr);
}

static stg_status read_bool(struct cursor *cursor, bool *ret_value) {
  static const char *const words[] = {"False", "True"};
  skip_space(cursor);
  for (size_t i = 0; i < 2; i++) {
    size_t len = strlen(words[i]);
    if (cursor->size - cursor->at >= len && memcmp(cursor->text + cursor->at, words[i], len) == 0) {
      cursor->at += len;
      *ret_value = i == 1;
      return STG_OK;
    }
  }
  return fail_expected(cursor, "True or False");
}

/* Python 2 wrote 4096L. */
static stg_status read_extent(struct cursor *cursor, int64_t *ret_value) {
  skip_space(cursor);
  size_t begin = cursor->at;
  int64_t value = 0;
  for (int c = peek(cursor); c >= '0' && c <= '9'; c = peek(cursor)) {
    int64_t digit = c - '0';
    if (value > (INT64_MAX - digit) / 10) {
      return stg_error_set(cursor->err, STG_E_FORMAT, "%s: header, byte %zu: a number beyond %lld",
                           cursor->path, begin, (long long)INT64_MAX);
    }
    value = value * 10 + digit;
    cursor->at++;
  }
  if (cursor->at == begin) {
    return fail_expected(cursor, "a number, 0 or more");
  }
  if (cursor->text[begin] == '0' && cursor->at > begin + 1) {
    cursor->at = begin + 1;
    return fail_expected(cursor, "no digit behind a leading 0");
  }
  if (peek(cursor) == 'L') {
    cursor->at++;
  }
  *ret_value = value;
  return STG_OK;
}

/* (), (4,), (4, 256), (4, 256, ) - but (4) is a number, not a tuple. */
static stg_status read_shape(struct cursor *cursor, struct stg_npy_header *header) {
  stg_status status = expect(cursor, '(', "'('");
  bool comma = true;
  while (status == STG_OK && !take(cursor, ')')) {
    int64_t extent = 0;
    if (!comma) {
      return fail_expected(cursor, "',' or ')'");
    }
    status = read_extent(cursor, &extent);
    if (status == STG_OK && header->n_dims == STG_TENSOR_MAX_DIMS) {
      return stg_error_set(cursor->err, STG_E_UNSUPPORTED,
                           "%s: shape has more than %d dimensions, at most %d are read",
                           cursor->path, STG_TENSOR_MAX_DIMS, STG_TENSOR_MAX_DIMS);
    }
    if (status == STG_OK) {
      header->shape[header->n_dims++] = extent;
      comma = take(cursor, ',');
    }
  }
  if (status == STG_OK && header->n_dims == 1 && !comma) {
    cursor->at--;
    return fail_expected(cursor, "',', as in (4096,)");
  }
  return status;
}

static stg_status read_value(struct cursor *cursor, enum key key, struct stg_npy_header *header) {
  stg_status status = expect(cursor, ':', "':'");
  if (status != STG_OK) {
    return status;
  }
  switch (key) {
  case KEY_DESCR:
    return read_descr(cursor, header);
  case KEY_FORTRAN_ORDER:
    return read_bool(cursor, &header->fortran_order);
  case KEY_SHAPE:
    return read_shape(cursor, header);
  case N_KEYS:
    break;
  }
  return STG_OK;
}

static stg_status check_end(struct cursor *cursor, unsigned seen) {
  for (unsigned key = 0; key < N_KEYS; key++) {
    if ((seen & 1u << key) == 0) {
      return stg_error_set(cursor->err, STG_E_FORMAT, "%s: header: '%s' is missing", cursor->path,
                           key_names[key]);
    }
  }
  skip_space(cursor);
  return cursor->at == cursor->size ? STG_OK : fail_expected(cursor, "its end");
}

stg_status stg_npy_header_parse(const char *path, const unsigned char *text, size_t size,
                                struct stg_npy_header *ret_header, stg_error *reterr) {
  struct cursor cursor = {.path = path, .text = text, .size = size, .err = reterr};
  struct stg_npy_header header = {0};
  unsigned seen = 0;
  bool comma = true;
  stg_status status = expect(&cursor, '{', "'{'");
  while (status == STG_OK && !take(&cursor, '}')) {
    enum key key = KEY_DESCR;
    if (!comma) {
      return fail_expected(&cursor, "',' or '}'");
    }
    status = read_key(&cursor, &seen, &key);
    if (status == STG_OK) {
      status = read_value(&cursor, key, &header);
    }
    if (status == STG_OK) {
      comma = take(&cursor, ',');
    }
  }
  if (status == STG_OK) {
    status = check_end(&cursor, seen);
  }
  if (status == STG_OK) {
    *ret_header = header;
  }
  return status;
}
