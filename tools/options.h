/*
 * options.h: a small strict parser for the words of one subcommand.
 *
 * A subcommand describes its words and options in a table; the same table gives the parsing, the
 * messages and the help text. Options may stand before, between and after the words, as "--name
 * value" or "--name=value"; "--" ends them.
 */
#ifndef STG_TOOLS_OPTIONS_H
#define STG_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* One option. Exactly one of ret_text and ret_set is given, and points at an unset variable. */
struct stg_option {
  const char *name;      /* "--backend" */
  const char *value;     /* what follows it: "FILE", or the words allowed: "auto|cpu|cuda" */
  const char *help;      /* one line */
  const char **ret_text; /* NULL until the option is seen */
  bool *ret_set;         /* a switch: `value` is NULL */
};

/* The grammar of one subcommand. */
struct stg_grammar {
  const char *name;    /* "run", "cache ls" */
  const char *words;   /* "SPEC..."; "" when there are none */
  const char *summary; /* one line */
  const char *details; /* paragraphs of the help text, or NULL */
  size_t min_words;
  size_t max_words;
  const struct stg_option *options;
  size_t n_options;
};

enum stg_parsed {
  STG_PARSED_OK,
  STG_PARSED_HELP, /* help was asked for and printed: *ret_exit is what to return */
  STG_PARSED_WRONG /* a message was printed: *ret_exit is what to return */
};

/**
 * Parse argv[1..argc). The words, in order, are moved to argv[1..*ret_words]. Unknown, repeated and
 * incomplete options, values outside a list, and too few or too many words are refused with one
 * line on stderr that names the word and what is allowed.
 */
enum stg_parsed stg_options_parse(const struct stg_grammar *grammar, int argc, char **argv,
                                  size_t *ret_words, int *ret_exit);

#endif
