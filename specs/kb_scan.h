/*
 * kb_scan.h: the text of a knowledge base as names, signs and lines, and what is wrong with it.
 */
#ifndef STG_SPECS_KB_SCAN_H
#define STG_SPECS_KB_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

struct stg_kb_scan {
  const char *file;
  const char *at;
  const char *end;
  const char *line_begin;
  size_t line;  /* from 1 on */
  bool is_word; /* the text is a word of a command, no file */
  stg_error *err;
};

/* A name where it stands in the text. */
struct stg_kb_word {
  const char *text;
  size_t len;
  const char *at; /* with its quote */
  bool quoted;
};

struct stg_kb_atom_words {
  struct stg_kb_word pred;
  struct stg_kb_word args[2];
};

struct stg_kb_scan stg_kb_scan_begin(const char *file, const char *text, size_t len,
                                     stg_error *reterr);
/** Fail with "file:line:column: ", of a place in the line that is being read. */
STG_PRINTF(3, 4)
stg_status stg_kb_scan_fail(const struct stg_kb_scan *scan, const char *at, const char *fmt, ...);
/** Go to the next line that has something on it; false: there is none. */
bool stg_kb_scan_line(struct stg_kb_scan *scan);
/** Take a sign, with blanks before it; else "expected `expected`, found ...". */
STG_NODISCARD stg_status stg_kb_scan_sign(struct stg_kb_scan *scan, const char *sign,
                                          const char *expected);
/** The same without a failure: false, and nothing is taken. */
bool stg_kb_scan_try(struct stg_kb_scan *scan, const char *sign);
/** Take a name, `what` it is as messages call it: "a predicate". */
STG_NODISCARD stg_status stg_kb_scan_name(struct stg_kb_scan *scan, const char *what,
                                          struct stg_kb_word *ret_word);
/** Take a number from 0 to 1, written as digits with at most one point. */
STG_NODISCARD stg_status stg_kb_scan_share(struct stg_kb_scan *scan, const char *what,
                                           double *ret_number);
/** Take pred(arg, arg). */
STG_NODISCARD stg_status stg_kb_scan_atom(struct stg_kb_scan *scan,
                                          struct stg_kb_atom_words *ret_words);
/** There is nothing more on the line but blanks and a comment. */
STG_NODISCARD stg_status stg_kb_scan_end(struct stg_kb_scan *scan);

#endif
