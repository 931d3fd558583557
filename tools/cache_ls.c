/*
 * cache_ls.c: `steergraph cache ls`: the entries of a cache folder or pack, those asked for, in an
 * order.
 *
 * Lists what entries say of themselves, by their heads alone: a list of ten thousand reads a few
 * megabytes. Whether the rest of them is good is `verify`'s to say.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/cache_command.h"
#include "tools/cache_filter.h"
#include "tools/cache_report.h"
#include "tools/cache_work.h"
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
  bool json, reverse, wide;
};

static int by_path(const void *a, const void *b) {
  return strcmp(((const stg_cache_entry *)a)->path, ((const stg_cache_entry *)b)->path);
}

/* Largest, newest and slowest first; equals in path order, so that the list is stable. */
static int by_size(const void *a, const void *b) {
  uint64_t x = ((const stg_cache_entry *)a)->size_bytes;
  uint64_t y = ((const stg_cache_entry *)b)->size_bytes;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_age(const void *a, const void *b) {
  int64_t x = ((const stg_cache_entry *)a)->created_unix;
  int64_t y = ((const stg_cache_entry *)b)->created_unix;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_used(const void *a, const void *b) {
  int64_t x = ((const stg_cache_entry *)a)->used_unix;
  int64_t y = ((const stg_cache_entry *)b)->used_unix;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_compile(const void *a, const void *b) {
  double x = ((const stg_cache_entry *)a)->compile_ms;
  double y = ((const stg_cache_entry *)b)->compile_ms;
  return x < y ? 1 : x > y ? -1 : by_path(a, b);
}

/* What is not ok has no text, and comes first. */
static int by_text(const char *x, const char *y, const void *a, const void *b) {
  int order = strcmp(x != NULL ? x : "", y != NULL ? y : "");
  return order != 0 ? order : by_path(a, b);
}

static int by_family(const void *a, const void *b) {
  return by_text(((const stg_cache_entry *)a)->family, ((const stg_cache_entry *)b)->family, a, b);
}

static int by_arch(const void *a, const void *b) {
  return by_text(((const stg_cache_entry *)a)->arch, ((const stg_cache_entry *)b)->arch, a, b);
}

static void sort_entries(stg_cache_entry *entries, size_t count, const char *by, bool reverse) {
  static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
  } orders[] = {
      {"path", by_path},     {"size", by_size}, {"age", by_age},         {"used", by_used},
      {"family", by_family}, {"arch", by_arch}, {"compile", by_compile},
  };
  for (size_t i = 0; i < sizeof orders / sizeof orders[0] && count > 0; i++) {
    if (strcmp(by, orders[i].name) == 0) {
      qsort(entries, count, sizeof *entries, orders[i].compare);
    }
  }
  for (size_t i = 0; reverse && i < count / 2; i++) {
    stg_cache_entry entry = entries[i];
    entries[i] = entries[count - 1 - i];
    entries[count - 1 - i] = entry;
  }
}

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

static stg_status list(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                       stg_error *reterr) {
  const struct ls_options *options = user;
  const size_t room = stg_cache_count(cache);
  stg_cache_entry *entries = stg_calloc(room, sizeof *entries);
  struct stg_cache_list list = {.entries = entries};
  (void)ret_good;
  if (entries == NULL) {
    return stg_error_memory(reterr, "the list of entries", room * sizeof *entries);
  }
  stg_status status = choose(cache, &options->filter, entries, &list, reterr);
  if (status == STG_OK) {
    sort_entries(entries, list.count, options->sort != NULL ? options->sort : "path",
                 options->reverse);
    list.count = list.count < options->limit ? list.count : options->limit;
    if (options->json) {
      stg_cache_list_json(&list, ret_text);
    } else {
      stg_cache_list_text(&list, options->wide ? 0 : stg_terminal_width(), ret_text);
    }
  }
  stg_free(entries);
  return status;
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
      {"--sort", "path|size|age|used|family|arch|compile", "order (default path)", &options.sort,
       NULL},
      {"--reverse", NULL, "the other way round", NULL, &options.reverse},
      STG_CACHE_FILTER_OPTIONS(&options.filter),
      {"--limit", "N", "the first N of them", &options.limit_word, NULL},
      {"--wide", NULL, "shorten nothing for the terminal", NULL, &options.wide},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache ls",
      .words = "",
      .summary = "List the entries of a cache folder or pack.",
      .details = "Entries are listed by what they say of themselves; 'cache verify' checks them.",
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
  return code == STG_EXIT_DONE ? stg_cache_work(options.folder, list, &options) : code;
}
