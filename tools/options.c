/*
 * options.c: parsing, messages and help from one grammar table.
 *
 * Holds no state: values go straight to the variables of the subcommand. Must not know what any
 * option means.
 */
#include "tools/options.h"

#include <string.h>

#include "runtime/base/strbuf.h"
#include "runtime/base/suggest.h"
#include "tools/command.h"
#include "tools/report.h"

static const char *option_name(const void *user, size_t index) {
  return ((const struct stg_option *)user)[index].name;
}

/* The option called `text[0..len)`, or NULL. */
static const struct stg_option *find_option(const struct stg_grammar *grammar, const char *text,
                                            size_t len) {
  for (size_t i = 0; i < grammar->n_options; i++) {
    const struct stg_option *option = &grammar->options[i];
    if (strlen(option->name) == len && memcmp(option->name, text, len) == 0) {
      return option;
    }
  }
  return NULL;
}

/* True when `value` is one of the words of "a|b|c". */
static bool is_choice(const char *choices, const char *value) {
  size_t len = strlen(value);
  for (const char *word = choices; word != NULL;) {
    const char *end = strchr(word, '|');
    size_t word_len = end == NULL ? strlen(word) : (size_t)(end - word);
    if (word_len == len && memcmp(word, value, len) == 0) {
      return true;
    }
    word = end == NULL ? NULL : end + 1;
  }
  return false;
}

static int refuse_unknown(const struct stg_grammar *grammar, const char *text, size_t len) {
  struct stg_strbuf name = {0};
  stg_strbuf_mem(&name, text, len);
  const char *near =
      stg_suggest_find(stg_strbuf_text(&name), option_name, grammar->options, grammar->n_options);
  int code = near != NULL
                 ? stg_report_wrong(grammar->name, "unknown option '%s'; did you mean %s?",
                                    stg_strbuf_text(&name), near)
                 : stg_report_wrong(grammar->name, "unknown option '%s'", stg_strbuf_text(&name));
  stg_strbuf_finish(&name);
  return code;
}

static int set_value(const struct stg_grammar *grammar, const struct stg_option *option,
                     const char *value) {
  if (*option->ret_text != NULL) {
    return stg_report_wrong(grammar->name, "%s is given twice ('%s' and '%s')", option->name,
                            *option->ret_text, value);
  }
  if (value[0] == '\0') {
    return stg_report_wrong(grammar->name, "%s needs a value (%s), not an empty word", option->name,
                            option->value);
  }
  if (strchr(option->value, '|') != NULL && !is_choice(option->value, value)) {
    return stg_report_wrong(grammar->name, "%s '%s': must be one of %s", option->name, value,
                            option->value);
  }
  *option->ret_text = value;
  return STG_EXIT_DONE;
}

static int set_switch(const struct stg_grammar *grammar, const struct stg_option *option) {
  if (*option->ret_set) {
    return stg_report_wrong(grammar->name, "%s is given twice", option->name);
  }
  *option->ret_set = true;
  return STG_EXIT_DONE;
}

/* Take the option at argv[*index], and the word after it when it has a value. */
static int take_option(const struct stg_grammar *grammar, int argc, char **argv, int *index) {
  const char *text = argv[*index];
  const char *equals = strchr(text, '=');
  size_t len = equals == NULL ? strlen(text) : (size_t)(equals - text);
  const struct stg_option *option = find_option(grammar, text, len);
  if (option == NULL) {
    return refuse_unknown(grammar, text, len);
  }
  if (option->ret_set != NULL) {
    return equals == NULL ? set_switch(grammar, option)
                          : stg_report_wrong(grammar->name, "%s takes no value, found '%s'",
                                             option->name, equals + 1);
  }
  if (equals != NULL) {
    return set_value(grammar, option, equals + 1);
  }
  /* "--output --json" is a forgotten value; a value that starts so is written "--output=--json" */
  if (*index + 1 >= argc || strncmp(argv[*index + 1], "--", 2) == 0) {
    return stg_report_wrong(grammar->name, "%s needs a value (%s)", option->name, option->value);
  }
  *index += 1;
  return set_value(grammar, option, argv[*index]);
}

/* "  --backend auto|cpu|cuda  what it does", the help texts in one column. */
static void append_options(const struct stg_grammar *grammar, struct stg_strbuf *text) {
  size_t width = strlen("--help");
  for (size_t i = 0; i < grammar->n_options; i++) {
    const struct stg_option *option = &grammar->options[i];
    size_t len = strlen(option->name) + (option->value ? 1 + strlen(option->value) : 0);
    width = len > width ? len : width;
  }
  stg_strbuf_str(text, "\noptions:\n");
  for (size_t i = 0; i < grammar->n_options; i++) {
    const struct stg_option *option = &grammar->options[i];
    size_t start = text->len;
    stg_strbuf_printf(text, "  %s%s%s", option->name, option->value ? " " : "",
                      option->value ? option->value : "");
    size_t used = text->len - start;
    stg_strbuf_printf(text, "%*s%s\n", (int)(width + 4 - used), "", option->help);
  }
  stg_strbuf_printf(text, "  %-*s  %s\n", (int)width, "--help", "print this text");
}

static int print_help(const struct stg_grammar *grammar) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "usage: steergraph %s [options]%s%s\n\n%s\n", grammar->name,
                    grammar->words[0] != '\0' ? " " : "", grammar->words, grammar->summary);
  if (grammar->details != NULL) {
    stg_strbuf_printf(&text, "\n%s\n", grammar->details);
  }
  append_options(grammar, &text);
  int code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  return code;
}

static int check_count(const struct stg_grammar *grammar, char **argv, size_t n_words) {
  if (n_words < grammar->min_words) {
    return stg_report_wrong(grammar->name, "%s is missing", grammar->words);
  }
  if (n_words > grammar->max_words) {
    return stg_report_wrong(grammar->name, "'%s' is one word too many",
                            argv[1 + grammar->max_words]);
  }
  return STG_EXIT_DONE;
}

/* Help wins over whatever else is wrong with the words. */
static bool asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      return true;
    }
  }
  return false;
}

enum stg_parsed stg_options_parse(const struct stg_grammar *grammar, int argc, char **argv,
                                  size_t *ret_words, int *ret_exit) {
  if (asks_for_help(argc, argv)) {
    *ret_exit = print_help(grammar);
    return STG_PARSED_HELP;
  }
  size_t n_words = 0;
  bool only_words = false;
  int code = STG_EXIT_DONE;
  for (int i = 1; i < argc && code == STG_EXIT_DONE; i++) {
    if (!only_words && strcmp(argv[i], "--") == 0) {
      only_words = true;
    } else if (!only_words && argv[i][0] == '-' && argv[i][1] != '\0') {
      code = take_option(grammar, argc, argv, &i);
    } else {
      argv[1 + n_words++] = argv[i];
    }
  }
  if (code == STG_EXIT_DONE) {
    code = check_count(grammar, argv, n_words);
  }
  if (code != STG_EXIT_DONE) {
    *ret_exit = code;
    return STG_PARSED_WRONG;
  }
  *ret_words = n_words;
  return STG_PARSED_OK;
}
