/*
 * cache/ls.c: `steergraph cache ls`: the entries of a cache folder or pack, those asked for, in an
 * order.
 *
 * Lists what entries say of themselves, by their heads alone: a list of ten thousand reads a few
 * megabytes. Whether the rest of them is good is `verify`'s to say.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/cache/command.h"
#include "tools/cache/filter.h"
#include "tools/cache/graph_report.h"
#include "tools/cache/list_report.h"
#include "tools/cache/sort.h"
#include "tools/cache/work.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/terminal.h"

#define MAX_LIMIT_DIGITS 9

struct ls_options {
  const char *folder; /* NULL: the environment's */
  const char *sort;
  const char *limit_word;
  size_t limit; /* entries; SIZE_MAX: all */
  struct stg_cache_filter filter;
  bool json, reverse, wide, graphs;
};

/* Fill `list` with the entries asked for; room for all of them. */
static stg_status choose(stg_cache *cache, const struct stg_cache_filter *filter,
                         stg_cache_entry *entries, struct stg_cache_list *list, stg_error *reterr) {
  for (size_t i = 0; i < stg_cache_count(cache); i++) {
    stg_cache_entry *entry = &entries[list->count];
    stg_status status = stg_cache_peek(cache, i, entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!stg_cache_is_gone(entry)) {
      list->n_there++;
      list->count += stg_cache_filter_takes(filter, entry);
    }
  }
  return STG_OK;
}

/* Whether the choice or the order is by the time of use, which rows then show. */
static bool is_by_use(const struct ls_options *options) {
  return options->filter.older_than != NULL ||
         (options->sort != NULL && strcmp(options->sort, "used") == 0);
}

static stg_status list(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                       stg_error *reterr) {
  const struct ls_options *options = user;
  const size_t room = stg_cache_count(cache);
  stg_cache_entry *entries = stg_calloc(room, sizeof *entries);
  struct stg_cache_list list = {.entries = entries,
                                .n_graphs = stg_cache_graph_count(cache),
                                .by_use = is_by_use(options),
                                .left_out = stg_cache_left_out_of(cache, false)};
  if (entries == NULL) {
    return stg_error_memory(reterr, "the list of entries", room * sizeof *entries);
  }
  stg_status status = choose(cache, &options->filter, entries, &list, reterr);
  if (status == STG_OK) {
    stg_cache_sort(entries, list.count, sizeof *entries,
                   options->sort != NULL ? options->sort : "path", options->reverse);
    list.count = list.count < options->limit ? list.count : options->limit;
    if (options->json) {
      stg_cache_list_json(&list, ret_text);
    } else {
      stg_cache_list_text(&list, options->wide ? 0 : stg_terminal_width(), ret_text);
    }
  }
  *ret_good = !stg_cache_left_out_any(&list.left_out);
  stg_free(entries);
  return status;
}

/* What a graph says of itself that entries say too. */
static stg_cache_entry entry_of(const stg_cache_graph *graph) {
  return (stg_cache_entry){.path = graph->path,
                           .ok = graph->ok,
                           .signature = graph->signature,
                           .arch = graph->arch,
                           .size_bytes = graph->size_bytes,
                           .created_unix = graph->created_unix,
                           .used_unix = graph->used_unix};
}

/* As `choose`, of graphs. */
static stg_status choose_graphs(stg_cache *cache, const struct stg_cache_filter *filter,
                                struct stg_cache_graph_row *rows, struct stg_cache_graph_list *list,
                                stg_error *reterr) {
  for (size_t i = 0; i < stg_cache_graph_count(cache); i++) {
    struct stg_cache_graph_row *row = &rows[list->count];
    stg_status status = stg_cache_graph_get(cache, i, &row->graph, reterr);
    if (status != STG_OK) {
      return status;
    }
    row->entry = entry_of(&row->graph);
    if (!stg_cache_is_gone(&row->entry)) {
      list->n_there++;
      list->count += stg_cache_filter_takes(filter, &row->entry);
    }
  }
  return STG_OK;
}

static stg_status list_graphs(stg_cache *cache, void *user, bool *ret_good,
                              struct stg_strbuf *ret_text, stg_error *reterr) {
  const struct ls_options *options = user;
  const size_t room = stg_cache_graph_count(cache) + 1;
  struct stg_cache_graph_row *rows = stg_calloc(room, sizeof *rows);
  struct stg_cache_graph_list list = {
      .rows = rows, .by_use = is_by_use(options), .left_out = stg_cache_left_out_of(cache, false)};
  if (rows == NULL) {
    return stg_error_memory(reterr, "the list of graphs", room * sizeof *rows);
  }
  stg_status status = choose_graphs(cache, &options->filter, rows, &list, reterr);
  if (status == STG_OK) {
    stg_cache_sort(rows, list.count, sizeof *rows, options->sort != NULL ? options->sort : "path",
                   options->reverse);
    list.count = list.count < options->limit ? list.count : options->limit;
    if (options->json) {
      stg_cache_graphs_json(&list, ret_text);
    } else {
      stg_cache_graphs_text(&list, options->wide ? 0 : stg_terminal_width(), ret_text);
    }
  }
  *ret_good = !stg_cache_left_out_any(&list.left_out);
  stg_free(rows);
  return status;
}

/* What graphs do not say of themselves. */
static int check_graph_words(const struct ls_options *options) {
  const bool by_entry = options->sort != NULL && (strcmp(options->sort, "family") == 0 ||
                                                  strcmp(options->sort, "compile") == 0);
  if (!options->graphs ||
      (options->filter.compiler == NULL && options->filter.family == NULL && !by_entry)) {
    return STG_EXIT_DONE;
  }
  return stg_report_wrong("cache ls",
                          "--compiler, --family, --sort family and --sort compile are of entries, "
                          "and not of --graphs");
}

static int read_limit(struct ls_options *options) {
  const char *word = options->limit_word;
  options->limit = SIZE_MAX;
  if (word == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t digits = strspn(word, "0123456789");
  if (digits == 0 || digits > MAX_LIMIT_DIGITS || word[digits] != '\0') {
    return stg_report_wrong("cache ls", "--limit '%s': expected a number of entries", word);
  }
  options->limit = strtoul(word, NULL, 10);
  return STG_EXIT_DONE;
}

int stg_cache_cmd_ls(int argc, char **argv) {
  struct ls_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      {"--sort", STG_CACHE_SORT_WORDS, "order (default path)", &options.sort, NULL},
      {"--reverse", NULL, "the other way round", NULL, &options.reverse},
      STG_CACHE_FILTER_OPTIONS(&options.filter),
      {"--limit", "N", "the first N of them", &options.limit_word, NULL},
      {"--graphs", NULL, "list the graphs that were made, not the entries", NULL, &options.graphs},
      {"--wide", NULL, "shorten nothing for the terminal", NULL, &options.wide},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache ls",
      .words = "",
      .summary = "List the entries of a cache folder or pack.",
      .details = "Entries are listed by what they say of themselves; 'cache verify' checks them. "
                 "Exits 1 when a folder of them cannot be listed.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  code = stg_cache_filter_prepare("cache ls", &options.filter);
  if (code == STG_EXIT_DONE) {
    code = read_limit(&options);
  }
  if (code == STG_EXIT_DONE) {
    code = check_graph_words(&options);
  }
  return code == STG_EXIT_DONE
             ? stg_cache_work(options.folder, options.graphs ? list_graphs : list, &options)
             : code;
}
