/*
 * kb/stats.c: `steergraph kb stats PATH`: what a knowledge base is like.
 */
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/command.h"
#include "tools/kb/command.h"
#include "tools/kb/facts.h"
#include "tools/options.h"
#include "tools/report.h"

struct stats_options {
  const char *path;    /* a folder, or the file of facts */
  const char *rules;   /* NULL: the folder's, where it has some */
  const char *queries; /* NULL: the same */
  bool json;
};

/* The paths that are joined here are `ret`'s to free. */
struct found_paths {
  struct stg_kb_paths paths;
  char *facts;
  char *rules;
  char *queries;
};

static void free_paths(struct found_paths *found) {
  stg_free(found->facts);
  stg_free(found->rules);
  stg_free(found->queries);
}

static bool is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static stg_status find_paths(const struct stats_options *options, struct found_paths *found,
                             stg_error *reterr) {
  struct stat info;
  found->paths = (struct stg_kb_paths){options->path, options->rules, options->queries};
  if (stat(options->path, &info) != 0 || !S_ISDIR(info.st_mode)) {
    return STG_OK;
  }
  found->facts = stg_path_join(options->path, STG_KB_FACTS_FILE);
  found->rules = stg_path_join(options->path, STG_KB_RULES_FILE);
  found->queries = stg_path_join(options->path, STG_KB_QUERIES_FILE);
  if (found->facts == NULL || found->rules == NULL || found->queries == NULL) {
    return stg_error_memory(reterr, "the paths of a knowledge base", sizeof *found);
  }
  found->paths.facts = found->facts;
  if (options->rules == NULL && is_there(found->rules)) {
    found->paths.rules = found->rules;
  }
  if (options->queries == NULL && is_there(found->queries)) {
    found->paths.queries = found->queries;
  }
  return STG_OK;
}

static void report(const struct stats_options *options, const struct stg_kb *kb,
                   const struct stg_kb_stats *stats, struct stg_strbuf *out) {
  if (!options->json) {
    stg_report_clean(out, options->path);
    stg_strbuf_char(out, '\n');
    stg_kb_text_stats(kb, stats, out);
    return;
  }
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "path", options->path);
  stg_kb_json_stats(kb, stats, &json);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static int count(const struct stats_options *options) {
  struct found_paths found = {0};
  struct stg_kb kb = {0};
  struct stg_kb_stats stats;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = find_paths(options, &found, &err);
  if (status == STG_OK) {
    status = stg_kb_load(&found.paths, &kb, &err);
  }
  if (status == STG_OK) {
    status = stg_kb_count(&kb, &stats, &err);
  }
  if (status == STG_OK) {
    report(options, &kb, &stats, &text);
  }
  stg_kb_finish(&kb);
  free_paths(&found);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

int stg_kb_cmd_stats(int argc, char **argv) {
  struct stats_options options = {0};
  const struct stg_option table[] = {
      {"--rules", "FILE", "the rules, which else are the folder's", &options.rules, NULL},
      {"--queries", "FILE", "the queries, which else are the folder's", &options.queries, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "kb stats",
      .words = "FOLDER|FACTS",
      .summary = "Count what is in a knowledge base.",
      .details = "A folder has facts.txt, and may have rules.txt and queries.txt. A bucket is the "
                 "facts with\none predicate and one argument: what a goal with that argument has "
                 "to look at.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.path = argv[1];
  return count(&options);
}
