/*
 * lexer.c: statement text -> tokens. Knows spelling only: no grammar, no names in scope.
 */
#include "codegen/lang/lexer.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/lang/ast.h"

#define MAX_NUMBER_CHARS 63

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Not isalpha: that one asks the locale. */
static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static size_t skip_digits(const char *text, size_t at) {
  while (is_digit(text[at])) {
    at++;
  }
  return at;
}

/* The end of a number that begins at `start`; whatever follows is the caller's to refuse. */
static size_t scan_number(const char *text, size_t start) {
  size_t at = skip_digits(text, start);
  if (text[at] == '.') {
    at = skip_digits(text, at + 1);
  }
  if (text[at] == 'e' || text[at] == 'E') {
    size_t digits = at + 1;
    if (text[digits] == '+' || text[digits] == '-') {
      digits++;
    }
    if (is_digit(text[digits])) {
      at = skip_digits(text, digits);
    }
  }
  return at;
}

/* strtof under the "C" locale of this thread alone. */
static stg_status read_float(const char *text, float *ret_value, stg_error *reterr) {
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0) {
    return stg_error_set(reterr, STG_E_NO_MEMORY, "cannot open the C locale to read '%s'", text);
  }
  locale_t before = uselocale(c_locale);
  *ret_value = strtof(text, NULL);
  uselocale(before);
  freelocale(c_locale);
  return STG_OK;
}

static bool has_nonzero_digit(const char *text) {
  for (; is_digit(*text) || *text == '.'; text++) {
    if (*text >= '1' && *text <= '9') {
      return true;
    }
  }
  return false;
}

static stg_status lex_number(struct stg_token *token, const char *text, size_t start,
                             stg_error *reterr) {
  size_t end = scan_number(text, start);
  size_t len = end - start;
  if (is_name_char(text[end])) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: unexpected '%c' after the number '%.*s'; put an operator "
                         "between them",
                         end + 1, text[end], len < 20 ? (int)len : 20, text + start);
  }
  if (len > MAX_NUMBER_CHARS) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: a number of %zu characters; at most %d are read", start + 1,
                         len, MAX_NUMBER_CHARS);
  }
  char copy[MAX_NUMBER_CHARS + 1] = {0};
  memcpy(copy, text + start, len);
  const char *point = strchr(copy, '.');
  if (point != NULL && (point == copy || !is_digit(point[1]))) {
    return stg_error_set(
        reterr, STG_E_FORMAT,
        "column %zu: '%s' is not a number; write a digit on each side of the point", start + 1,
        copy);
  }
  stg_status status = read_float(copy, &token->number, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (isinf(token->number)) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: '%s' is beyond float32 (at most 3.4028235e38); infinity is "
                         "written inf",
                         start + 1, copy);
  }
  if (token->number == 0 && has_nonzero_digit(copy)) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: '%s' is zero in float32 (at least 1e-45); write 0", start + 1,
                         copy);
  }
  token->kind = STG_TOKEN_NUMBER;
  token->len = (uint16_t)len;
  return STG_OK;
}

static stg_status lex_fixed(struct stg_token *token, const char *text, size_t start,
                            stg_error *reterr) {
  static const struct {
    enum stg_token_kind kind;
    const char *text;
  } fixed[] = {
#define STG_TOKEN_ROW(name, text) {STG_TOKEN_##name, text},
      STG_TOKEN_LIST(STG_TOKEN_ROW)
#undef STG_TOKEN_ROW
  };
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
    size_t len = strlen(fixed[i].text);
    if (strncmp(text + start, fixed[i].text, len) == 0) {
      token->kind = fixed[i].kind;
      token->len = (uint16_t)len;
      return STG_OK;
    }
  }
  unsigned char byte = (unsigned char)text[start];
  if (byte < 0x20 || byte > 0x7e) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: unexpected byte 0x%02x; the language is plain ASCII",
                         start + 1, byte);
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "column %zu: unexpected '%c'; operators are + - * / < <= > >= == != && || "
                       "! ? : = +=",
                       start + 1, byte);
}

static stg_status lex_name(struct stg_token *token, const char *text, size_t start,
                           stg_error *reterr) {
  size_t end = start;
  while (is_name_char(text[end])) {
    end++;
  }
  if (end - start > STG_OP_MAX_NAME_CHARS) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %zu: a name of %zu characters; at most %d are allowed", start + 1,
                         end - start, STG_OP_MAX_NAME_CHARS);
  }
  token->kind = STG_TOKEN_NAME;
  token->len = (uint16_t)(end - start);
  return STG_OK;
}

stg_status stg_lexer_next(struct stg_lexer *lexer, struct stg_token *ret_token, stg_error *reterr) {
  const char *text = lexer->text;
  size_t start = lexer->at;
  while (text[start] == ' ' || text[start] == '\t') {
    start++;
  }
  struct stg_token token = {.column = (uint16_t)(start + 1), .text = text + start};
  stg_status status = STG_OK;
  if (text[start] == '\0') {
    token.kind = STG_TOKEN_END;
  } else if (is_digit(text[start]) || text[start] == '.') {
    status = lex_number(&token, text, start, reterr);
  } else if (is_name_char(text[start])) {
    status = lex_name(&token, text, start, reterr);
  } else {
    status = lex_fixed(&token, text, start, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  lexer->at = start + token.len;
  *ret_token = token;
  return STG_OK;
}
