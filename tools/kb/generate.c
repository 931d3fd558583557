/*
 * kb/generate.c: `steergraph kb generate KIND -o FOLDER`: facts, rules and queries from a seed.
 *
 * What was made up is read back from its text before it is written, and counted.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "specs/kb_generate.h"
#include "tools/command.h"
#include "tools/kb/command.h"
#include "tools/kb/facts.h"
#include "tools/options.h"
#include "tools/report.h"

#define FILE_MODE 0644
#define FOLDER_MODE 0755
#define MAX_DIGITS 18

struct generate_options {
  const char *kind_name;
  enum stg_kb_kind kind;
  const char *folder;
  uint64_t seed;
  int64_t size; /* 0: as many as the public one */
  bool json;
};

static const char *const kind_names[] = {
#define KIND_NAME(NAME, name, size, least, what) #name,
    STG_KB_KIND_LIST(KIND_NAME)
#undef KIND_NAME
};

static const char *kind_at(const void *user, size_t index) {
  return ((const char *const *)user)[index];
}

static int read_kind(const char *command, const char *word, enum stg_kb_kind *ret_kind) {
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    if (strcmp(word, kind_names[kind]) == 0) {
      *ret_kind = (enum stg_kb_kind)kind;
      return STG_EXIT_DONE;
    }
  }
  const char *near = stg_suggest_find(word, kind_at, kind_names, STG_KB_KINDS);
  return near != NULL
             ? stg_report_wrong(command, "unknown kind '%s'; did you mean '%s'?", word, near)
             : stg_report_wrong(command, "unknown kind '%s': countries or family", word);
}

/* NULL leaves the number as it is. */
static int read_number(const char *command, const char *option, const char *word,
                       int64_t *ret_number) {
  if (word == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t digits = strspn(word, "0123456789");
  if (digits == 0 || digits > MAX_DIGITS || word[digits] != '\0') {
    return stg_report_wrong(command, "%s '%s': expected a number of at most %d digits", option,
                            word, MAX_DIGITS);
  }
  *ret_number = strtoll(word, NULL, 10);
  return STG_EXIT_DONE;
}

static stg_status parse_text(const struct stg_kb_text *text, struct stg_kb *kb, stg_error *reterr) {
  stg_status status = stg_kb_parse_facts(kb, STG_KB_FACTS_FILE, stg_strbuf_text(&text->facts),
                                         text->facts.len, reterr);
  if (status == STG_OK) {
    status = stg_kb_parse_rules(kb, STG_KB_RULES_FILE, stg_strbuf_text(&text->rules),
                                text->rules.len, reterr);
  }
  if (status == STG_OK) {
    status = stg_kb_parse_queries(kb, STG_KB_QUERIES_FILE, stg_strbuf_text(&text->queries),
                                  text->queries.len, reterr);
  }
  return status;
}

/* All three or none: rules of one base beside facts of another say nothing. */
static stg_status write_files(const char *folder, const struct stg_kb_text *text,
                              stg_error *reterr) {
  const struct {
    const char *name;
    const struct stg_strbuf *text;
  } rows[] = {{STG_KB_FACTS_FILE, &text->facts},
              {STG_KB_RULES_FILE, &text->rules},
              {STG_KB_QUERIES_FILE, &text->queries}};
  enum { FILES = sizeof rows / sizeof rows[0] };
  struct stg_file_whole files[FILES];
  char *paths[FILES] = {NULL};
  stg_status status = stg_mkdir_all(folder, FOLDER_MODE, reterr);
  for (size_t i = 0; i < FILES && status == STG_OK; i++) {
    paths[i] = stg_path_join(folder, rows[i].name);
    if (paths[i] == NULL) {
      status = stg_error_memory(reterr, "a path", strlen(rows[i].name));
    }
    files[i] = (struct stg_file_whole){paths[i], stg_strbuf_text(rows[i].text), rows[i].text->len};
  }
  if (status == STG_OK) {
    status = stg_file_write_set(files, FILES, FILE_MODE, reterr);
  }
  for (size_t i = 0; i < FILES; i++) {
    stg_free(paths[i]);
  }
  return status;
}

static void report(const struct generate_options *options, const struct stg_kb *kb,
                   const struct stg_kb_stats *stats, struct stg_strbuf *out) {
  if (!options->json) {
    stg_report_clean(out, options->folder);
    stg_strbuf_printf(out, ": %s, seed %llu\n", options->kind_name,
                      (unsigned long long)options->seed);
    stg_kb_text_stats(kb, stats, out);
    return;
  }
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "folder", options->folder);
  stg_json_out_text(&json, "kind", options->kind_name);
  stg_json_out_count(&json, "seed", options->seed);
  stg_kb_json_stats(kb, stats, &json);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static int generate(const struct generate_options *options) {
  struct stg_kb_text text = {0};
  struct stg_kb kb = {0};
  struct stg_kb_stats stats;
  struct stg_strbuf said = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_kb_generate(options->kind, options->seed, options->size, &text, &err);
  if (status == STG_OK) {
    status = parse_text(&text, &kb, &err);
  }
  if (status == STG_OK) {
    status = stg_kb_count(&kb, &stats, &err);
  }
  if (status == STG_OK) {
    status = write_files(options->folder, &text, &err);
  }
  if (status == STG_OK) {
    report(options, &kb, &stats, &said);
  }
  stg_kb_finish(&kb);
  stg_kb_text_finish(&text);
  int code = status == STG_OK ? stg_report_print(&said) : stg_report_fail(&err);
  stg_strbuf_finish(&said);
  return code;
}

int stg_kb_cmd_generate(int argc, char **argv) {
  struct generate_options options = {0};
  const char *seed_word = NULL;
  const char *size_word = NULL;
  const struct stg_option table[] = {
      {"-o", "FOLDER", "where to write facts.txt, rules.txt and queries.txt", &options.folder,
       NULL},
      {"--seed", "N", "what is made up; 0 unless told", &seed_word, NULL},
      {"--size", "N", "so many entities; else as many as the public set", &size_word, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "kb generate",
      .words = "countries|family",
      .summary = "Make a knowledge base up, with the statistics of a public one.",
      .details = "The same kind, seed and size give the same bytes everywhere. Queries are true, "
                 "and no\nfacts. Files of these names are replaced.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  int64_t seed = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.kind_name = argv[1];
  code = read_kind(grammar.name, argv[1], &options.kind);
  if (code == STG_EXIT_DONE && options.folder == NULL) {
    code = stg_report_wrong(grammar.name, "-o is missing: the folder to write to");
  }
  if (code == STG_EXIT_DONE) {
    code = read_number(grammar.name, "--seed", seed_word, &seed);
  }
  if (code == STG_EXIT_DONE) {
    code = read_number(grammar.name, "--size", size_word, &options.size);
  }
  if (code == STG_EXIT_DONE && size_word != NULL && options.size == 0) {
    code = stg_report_wrong(grammar.name, "--size '%s': expected at least 1", size_word);
  }
  options.seed = (uint64_t)seed;
  return code == STG_EXIT_DONE ? generate(&options) : code;
}
