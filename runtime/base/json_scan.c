/*
 * json_scan.c: one pass over the text with a stack of open containers; no recursion, no heap.
 *
 * cJSON is lenient (it takes "01", control characters, broken UTF-8) and gives no place, so the
 * grammar is settled here and cJSON only builds the tree. Knows nothing of what values mean.
 */
#include "runtime/base/json_scan.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/utf8.h"

/* cJSON copies a number into 64 bytes and silently splits a longer one. */
#define MAX_NUMBER_CHARS 63

struct scanner {
  const char *file;
  const char *begin;
  const char *at;
  const char *end;
  size_t n_values;
  struct stg_json_limit limit;
  size_t depth;
  char open[STG_JSON_MAX_DEPTH]; /* '{' or '[' */
  stg_error *err;
};

static STG_PRINTF(3, 4) stg_status
    fail(const struct scanner *s, const char *at, const char *fmt, ...) {
  size_t line = 1;
  size_t column = 1;
  for (const char *p = s->begin; p < at; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if (((unsigned char)*p & 0xc0u) != 0x80u) {
      column++;
    }
  }
  char message[STG_ERROR_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return stg_error_set(s->err, STG_E_FORMAT, "%s:%zu:%zu: %s", s->file, line, column, message);
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

/* Fail with what was expected and the character or the word that stands there. */
static stg_status fail_expected(const struct scanner *s, const char *expected) {
  size_t word = 0;
  while (word < 24 && s->at + word < s->end && is_word(s->at[word])) {
    word++;
  }
  if (s->at == s->end) {
    return fail(s, s->at, "expected %s, found the end of the text", expected);
  }
  if (word > 0) {
    return fail(s, s->at, "expected %s, found '%.*s'", expected, (int)word, s->at);
  }
  unsigned char c = (unsigned char)*s->at;
  if (c > 0x20 && c < 0x7f) {
    return fail(s, s->at, "expected %s, found '%c'", expected, c);
  }
  return fail(s, s->at, "expected %s, found byte 0x%02x", expected, c);
}

/* The next character; a NUL, which no grammar rule takes, at the end. */
static char peek(const struct scanner *s) {
  if (s->at == s->end) {
    return '\0';
  }
  return *s->at;
}

static bool take(struct scanner *s, char c) {
  if (s->at < s->end && *s->at == c) {
    s->at++;
    return true;
  }
  return false;
}

static void skip_space(struct scanner *s) {
  while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\n' || peek(s) == '\r') {
    s->at++;
  }
}

/* The four hex digits after "\u"; false when they are not there. */
static bool scan_hex4(struct scanner *s, uint32_t *ret) {
  uint32_t value = 0;
  if (s->end - s->at < 4) {
    return false;
  }
  for (int i = 0; i < 4; i++) {
    char c = s->at[i];
    char lower = (char)(c | 0x20);
    if (is_digit(c)) {
      value = value * 16 + (uint32_t)(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (uint32_t)(lower - 'a' + 10);
    } else {
      return false;
    }
  }
  s->at += 4;
  *ret = value;
  return true;
}

static stg_status scan_unicode_escape(struct scanner *s, const char *escape) {
  uint32_t first = 0;
  if (!scan_hex4(s, &first)) {
    return fail(s, escape, "expected four hex digits after '\\u'");
  }
  if (first == 0) {
    return fail(s, escape, "'\\u0000' is not allowed in a string");
  }
  if (first < 0xd800 || first > 0xdfff) {
    return STG_OK;
  }
  uint32_t second = 0;
  bool paired = first < 0xdc00 && take(s, '\\') && take(s, 'u') && scan_hex4(s, &second) &&
                second >= 0xdc00 && second <= 0xdfff;
  return paired ? STG_OK : fail(s, escape, "'\\u%04x' is half a surrogate pair", first);
}

/* One escape, or one character; `s->at` is before the closing quote. */
static stg_status scan_character(struct scanner *s) {
  const char *start = s->at;
  unsigned char c = (unsigned char)*start;
  if (c == '\\') {
    s->at++;
    if (take(s, 'u')) {
      return scan_unicode_escape(s, start);
    }
    if (s->at == s->end || *s->at == '\0' || strchr("\"\\/bfnrt", *s->at) == NULL) {
      return fail(s, start, "unknown escape in a string; write '\\\\' for a backslash");
    }
    s->at++;
    return STG_OK;
  }
  if (c < 0x20) {
    return fail(s, start, "control byte 0x%02x in a string; write it as '\\u%04x'", c, c);
  }
  size_t n = stg_utf8_length(start, s->end);
  if (n == 0) {
    return fail(s, start, "byte 0x%02x is not valid UTF-8; save the file as UTF-8", c);
  }
  s->at += n;
  return STG_OK;
}

static stg_status scan_string(struct scanner *s, const char *expected) {
  const char *start = s->at;
  if (!take(s, '"')) {
    return fail_expected(s, expected);
  }
  while (!take(s, '"')) {
    if (s->at == s->end) {
      return fail(s, start, "this string has no closing quote");
    }
    stg_status status = scan_character(s);
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}

static bool skip_digits(struct scanner *s) {
  const char *start = s->at;
  while (is_digit(peek(s))) {
    s->at++;
  }
  return s->at > start;
}

static stg_status scan_number(struct scanner *s) {
  const char *start = s->at;
  take(s, '-');
  if (!take(s, '0') && !skip_digits(s)) {
    return fail_expected(s, "a digit after '-' (a bound may be \"-inf\")");
  }
  if (is_digit(peek(s))) {
    return fail(s, start, "a number may not start with 0");
  }
  if (take(s, '.') && !skip_digits(s)) {
    return fail_expected(s, "a digit after '.'");
  }
  if (take(s, 'e') || take(s, 'E')) {
    if (!take(s, '-')) {
      take(s, '+');
    }
    if (!skip_digits(s)) {
      return fail_expected(s, "a digit in the exponent");
    }
  }
  if (s->at - start > MAX_NUMBER_CHARS) {
    return fail(s, start, "a number of %zu characters; at most %d", (size_t)(s->at - start),
                MAX_NUMBER_CHARS);
  }
  return STG_OK;
}

static stg_status scan_word(struct scanner *s) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    bool ends =
        (size_t)(s->end - s->at) == n || ((size_t)(s->end - s->at) > n && !is_word(s->at[n]));
    if (ends && memcmp(s->at, words[i], n) == 0) {
      s->at += n;
      return STG_OK;
    }
  }
  /* nan, inf, Infinity */
  if (peek(s) != '\0' && strchr("nNiI", peek(s)) != NULL) {
    return fail_expected(s, "a value (numbers are finite; a bound may be \"inf\" or \"-inf\")");
  }
  return fail_expected(s, "a value");
}

static stg_status scan_member_name(struct scanner *s) {
  skip_space(s);
  stg_status status = scan_string(s, "a member name in quotes");
  if (status != STG_OK) {
    return status;
  }
  skip_space(s);
  return take(s, ':') ? STG_OK : fail_expected(s, "':' after the member name");
}

static stg_status scan_scalar(struct scanner *s) {
  char c = peek(s);
  if (c == '"') {
    return scan_string(s, "a string");
  }
  return c == '-' || is_digit(c) ? scan_number(s) : scan_word(s);
}

static char closing(char kind) {
  if (kind == '{') {
    return '}';
  }
  return ']';
}

/* Open a container and stand before its first value, or close it when it is empty. */
static stg_status open_container(struct scanner *s, bool *ret_inside) {
  char kind = *s->at;
  if (s->depth == STG_JSON_MAX_DEPTH) {
    return fail(s, s->at, "nested deeper than %d levels", STG_JSON_MAX_DEPTH);
  }
  s->at++;
  skip_space(s);
  *ret_inside = !take(s, closing(kind));
  if (!*ret_inside) {
    return STG_OK;
  }
  s->open[s->depth++] = kind;
  return kind == '{' ? scan_member_name(s) : STG_OK;
}

/* A scalar, or the opening of containers down to the first scalar or empty container. */
static stg_status scan_value(struct scanner *s) {
  bool inside = true;
  while (inside) {
    skip_space(s);
    if (++s->n_values > s->limit.max_values) {
      return fail(s, s->at, "more than %zu values; %s", s->limit.max_values, s->limit.remedy);
    }
    if (peek(s) != '{' && peek(s) != '[') {
      return scan_scalar(s);
    }
    stg_status status = open_container(s, &inside);
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}

/* What follows a value: any number of closings, then a comma (`*ret_more`) or the end. */
static stg_status scan_after_value(struct scanner *s, bool *ret_more) {
  while (s->depth > 0) {
    bool object = s->open[s->depth - 1] == '{';
    skip_space(s);
    if (take(s, ',')) {
      *ret_more = true;
      return object ? scan_member_name(s) : STG_OK;
    }
    if (!take(s, closing(s->open[s->depth - 1]))) {
      return fail_expected(s, object ? "',' or '}'" : "',' or ']'");
    }
    s->depth--;
  }
  *ret_more = false;
  return STG_OK;
}

stg_status stg_json_scan_within(const char *file, const char *text, size_t len,
                                struct stg_json_limit limit, stg_error *reterr) {
  struct scanner s = {
      .file = file, .begin = text, .at = text, .end = text + len, .limit = limit, .err = reterr};
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    return fail(&s, text, "starts with a byte order mark; save the file as UTF-8 without it");
  }
  bool more = true;
  while (more) {
    stg_status status = scan_value(&s);
    if (status == STG_OK) {
      status = scan_after_value(&s, &more);
    }
    if (status != STG_OK) {
      return status;
    }
  }
  skip_space(&s);
  return s.at == s.end ? STG_OK : fail_expected(&s, "the end of the text after the value");
}

stg_status stg_json_scan(const char *file, const char *text, size_t len, stg_error *reterr) {
  return stg_json_scan_within(file, text, len, STG_JSON_LIMIT, reterr);
}
