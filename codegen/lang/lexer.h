/*
 * lexer.h: one statement's text as tokens with columns.
 *
 * ASCII only. Numbers are read independently of the locale and rounded once to float32, the type
 * of every scalar of the language.
 */
#ifndef STG_CODEGEN_LANG_LEXER_H
#define STG_CODEGEN_LANG_LEXER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* One row per fixed token: name, spelling. Where one is a prefix of another, the longer comes
 * first. */
#define STG_TOKEN_LIST(X)                                                                          \
  X(ADD_ASSIGN, "+=")                                                                              \
  X(LE, "<=")                                                                                      \
  X(GE, ">=")                                                                                      \
  X(EQ, "==")                                                                                      \
  X(NE, "!=")                                                                                      \
  X(AND, "&&")                                                                                     \
  X(OR, "||")                                                                                      \
  X(ASSIGN, "=")                                                                                   \
  X(ADD, "+")                                                                                      \
  X(SUB, "-")                                                                                      \
  X(MUL, "*")                                                                                      \
  X(DIV, "/")                                                                                      \
  X(LT, "<")                                                                                       \
  X(GT, ">")                                                                                       \
  X(NOT, "!")                                                                                      \
  X(QUESTION, "?")                                                                                 \
  X(COLON, ":")                                                                                    \
  X(OPEN, "(")                                                                                     \
  X(CLOSE, ")")                                                                                    \
  X(COMMA, ",")

enum stg_token_kind {
  STG_TOKEN_END,
  STG_TOKEN_NUMBER,
  STG_TOKEN_NAME,
#define STG_TOKEN_ENUM(name, text) STG_TOKEN_##name,
  STG_TOKEN_LIST(STG_TOKEN_ENUM)
#undef STG_TOKEN_ENUM
};

/* Borrows its spelling from the text. */
struct stg_token {
  enum stg_token_kind kind;
  uint16_t column; /* 1-based */
  uint16_t len;
  const char *text;
  float number; /* NUMBER */
};

/* `text` is NUL-terminated and at most STG_OP_MAX_TEXT_BYTES long. {text} is a valid lexer. */
struct stg_lexer {
  const char *text;
  size_t at;
};

/** Read the next token; at the end END, again and again. STG_E_FORMAT begins with "column N: ". */
STG_NODISCARD stg_status stg_lexer_next(struct stg_lexer *lexer, struct stg_token *ret_token,
                                        stg_error *reterr);

#endif
