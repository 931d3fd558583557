/*
 * kb_scan.c: names, signs and lines of a knowledge base's text.
 *
 * A name is letters, digits, '_', '-' but not at its front, and whatever is no ASCII; or anything
 * that fits on a line between two quotes, ' or ". A comment goes from '%' or '#' to the end of its
 * line. Knows no atoms' meaning: what is a variable is the reader's to say.
 */
#include "specs/kb_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/utf8.h"
#include "specs/kb_names.h"

#define FOUND_BYTES 32
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define MAX_SHARE_CHARS 18

struct stg_kb_scan stg_kb_scan_begin(const char *file, const char *text, size_t len,
                                     stg_error *reterr) {
  return (struct stg_kb_scan){
      .file = file, .at = text, .end = text + len, .line_begin = text, .line = 1, .err = reterr};
}

stg_status stg_kb_scan_fail(const struct stg_kb_scan *scan, const char *at, const char *fmt, ...) {
  char message[STG_ERROR_MESSAGE_BYTES];
  size_t column = 1;
  for (const char *p = scan->line_begin; p < at; p++) {
    column += ((unsigned char)*p & 0xc0u) != 0x80u;
  }
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return stg_error_set(scan->err, STG_E_FORMAT, "%s:%zu:%zu: %s", scan->file, scan->line, column,
                       message);
}

/* What stands at a place, in words. */
static const char *found(const struct stg_kb_scan *scan, char ret_text[FOUND_BYTES]) {
  if (scan->at == scan->end) {
    return scan->is_word ? "its end" : "the end of the file";
  }
  if (*scan->at == '\n' || *scan->at == '%' || *scan->at == '#') {
    return "the end of the line";
  }
  const size_t bytes = stg_utf8_length(scan->at, scan->end);
  if (bytes > 0 && stg_utf8_is_shown(stg_utf8_code(scan->at, bytes))) {
    snprintf(ret_text, FOUND_BYTES, "'%.*s'", (int)bytes, scan->at);
  } else {
    snprintf(ret_text, FOUND_BYTES, "the byte 0x%02x", (unsigned char)*scan->at);
  }
  return ret_text;
}

static void skip_blanks(struct stg_kb_scan *scan) {
  while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r')) {
    scan->at++;
  }
}

static void skip_comment(struct stg_kb_scan *scan) {
  if (scan->at < scan->end && (*scan->at == '%' || *scan->at == '#')) {
    const char *newline = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));
    scan->at = newline != NULL ? newline : scan->end;
  }
}

bool stg_kb_scan_line(struct stg_kb_scan *scan) {
  for (;;) {
    skip_blanks(scan);
    skip_comment(scan);
    if (scan->at == scan->end) {
      return false;
    }
    if (*scan->at != '\n') {
      return true;
    }
    scan->line_begin = ++scan->at;
    scan->line++;
  }
}

bool stg_kb_scan_try(struct stg_kb_scan *scan, const char *sign) {
  const size_t len = strlen(sign);
  skip_blanks(scan);
  if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, sign, len) != 0) {
    return false;
  }
  scan->at += len;
  return true;
}

stg_status stg_kb_scan_sign(struct stg_kb_scan *scan, const char *sign, const char *expected) {
  char text[FOUND_BYTES];
  return stg_kb_scan_try(scan, sign) ? STG_OK
                                     : stg_kb_scan_fail(scan, scan->at, "expected %s, found %s",
                                                        expected, found(scan, text));
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-' ||
         ((unsigned char)c & 0x80u) != 0;
}

/* As some editors begin a file. It is no ASCII, so that it would be of the first name, unseen. */
static bool is_marked(const struct stg_kb_scan *scan) {
  const size_t len = strlen(BYTE_ORDER_MARK);
  return scan->line == 1 && scan->at == scan->line_begin && (size_t)(scan->end - scan->at) >= len &&
         memcmp(scan->at, BYTE_ORDER_MARK, len) == 0;
}

/* Between two quotes of one kind. */
static stg_status take_quoted(struct stg_kb_scan *scan, struct stg_kb_word *word) {
  const char quote = *scan->at++;
  word->quoted = true;
  word->text = scan->at;
  while (scan->at < scan->end && *scan->at != quote && *scan->at != '\n') {
    scan->at++;
  }
  if (scan->at == scan->end || *scan->at != quote) {
    return stg_kb_scan_fail(scan, word->at, "the quote %c is not closed on its line", quote);
  }
  word->len = (size_t)(scan->at++ - word->text);
  return STG_OK;
}

/* It begins with no '-', which may be that of an arrow. */
static void take_plain(struct stg_kb_scan *scan, struct stg_kb_word *word) {
  word->text = scan->at;
  while (scan->at < scan->end && is_plain(*scan->at) &&
         (scan->at > word->text || *scan->at != '-')) {
    scan->at++;
  }
  word->len = (size_t)(scan->at - word->text);
}

stg_status stg_kb_scan_name(struct stg_kb_scan *scan, const char *what,
                            struct stg_kb_word *ret_word) {
  char text[FOUND_BYTES];
  skip_blanks(scan);
  struct stg_kb_word word = {.at = scan->at};
  if (is_marked(scan)) {
    return stg_kb_scan_fail(scan, word.at, "a byte order mark; save the file as UTF-8 without it");
  }
  if (scan->at < scan->end && (*scan->at == '\'' || *scan->at == '"')) {
    stg_status status = take_quoted(scan, &word);
    if (status != STG_OK) {
      return status;
    }
  } else {
    take_plain(scan, &word);
  }
  if (word.len == 0) {
    return word.quoted
               ? stg_kb_scan_fail(scan, word.at, "%s is empty", what)
               : stg_kb_scan_fail(scan, word.at, "expected %s, found %s", what, found(scan, text));
  }
  if (word.len > STG_KB_MAX_NAME_BYTES) {
    return stg_kb_scan_fail(scan, word.at, "%s of %zu bytes, at most %d", what, word.len,
                            STG_KB_MAX_NAME_BYTES);
  }
  if (!stg_utf8_is_name(word.text, word.len)) {
    return stg_kb_scan_fail(scan, word.at, "%s has a control character, or is no UTF-8", what);
  }
  *ret_word = word;
  return STG_OK;
}

/* Digits alone, so that no locale has a say in it. */
static bool read_share(const char *text, size_t len, double *ret_number) {
  double digits = 0;
  double scale = 1;
  size_t n_digits = 0;
  bool behind = false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '.' && !behind) {
      behind = true;
    } else if (is_digit(text[i])) {
      digits = digits * 10 + (text[i] - '0');
      scale *= behind ? 10 : 1;
      n_digits++;
    } else {
      return false;
    }
  }
  *ret_number = digits / scale;
  return n_digits > 0 && *ret_number <= 1;
}

stg_status stg_kb_scan_share(struct stg_kb_scan *scan, const char *what, double *ret_number) {
  char text[FOUND_BYTES];
  skip_blanks(scan);
  const char *begin = scan->at;
  while (scan->at < scan->end && (is_plain(*scan->at) || *scan->at == '.')) {
    scan->at++;
  }
  const size_t len = (size_t)(scan->at - begin);
  if (len == 0) {
    return stg_kb_scan_fail(scan, begin, "expected %s, found %s", what, found(scan, text));
  }
  if (len > MAX_SHARE_CHARS || !stg_utf8_is_name(begin, len)) {
    return stg_kb_scan_fail(scan, begin, "expected %s, a number from 0 to 1 of at most %d digits",
                            what, MAX_SHARE_CHARS - 1);
  }
  return read_share(begin, len, ret_number)
             ? STG_OK
             : stg_kb_scan_fail(scan, begin, "expected %s, a number from 0 to 1, found '%.*s'",
                                what, (int)len, begin);
}

stg_status stg_kb_scan_atom(struct stg_kb_scan *scan, struct stg_kb_atom_words *ret_words) {
  stg_status status = stg_kb_scan_name(scan, "a predicate", &ret_words->pred);
  if (status == STG_OK) {
    status = stg_kb_scan_sign(scan, "(", "'(' behind the predicate");
  }
  if (status == STG_OK) {
    status = stg_kb_scan_name(scan, "an argument", &ret_words->args[0]);
  }
  if (status == STG_OK) {
    status = stg_kb_scan_sign(scan, ",", "',' and a second argument");
  }
  if (status == STG_OK) {
    status = stg_kb_scan_name(scan, "an argument", &ret_words->args[1]);
  }
  if (status == STG_OK) {
    status = stg_kb_scan_sign(scan, ")", "')' behind two arguments");
  }
  return status;
}

stg_status stg_kb_scan_end(struct stg_kb_scan *scan) {
  char text[FOUND_BYTES];
  skip_blanks(scan);
  skip_comment(scan);
  return scan->at == scan->end || *scan->at == '\n'
             ? STG_OK
             : stg_kb_scan_fail(scan, scan->at, "expected the end of the line, found %s",
                                found(scan, text));
}
