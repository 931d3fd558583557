/*
 * cache_ls.c: `steergraph cache ls`: the entries of a cache folder or pack, in an order.
 *
 * Every entry is verified as it is read, so nothing is listed that is not what was stored.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/cache_command.h"
#include "tools/cache_report.h"
#include "tools/cache_work.h"
#include "tools/options.h"

struct ls_options {
  const char *folder; /* NULL: the environment's */
  const char *sort;
  bool json;
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

static int by_compile(const void *a, const void *b) {
  double x = ((const stg_cache_entry *)a)->compile_ms;
  double y = ((const stg_cache_entry *)b)->compile_ms;
  return x < y ? 1 : x > y ? -1 : by_path(a, b);
}

static int by_arch(const void *a, const void *b) {
  const char *x = ((const stg_cache_entry *)a)->arch;
  const char *y = ((const stg_cache_entry *)b)->arch;
  int order = strcmp(x != NULL ? x : "", y != NULL ? y : "");
  return order != 0 ? order : by_path(a, b);
}

static void sort_entries(stg_cache_entry *entries, size_t count, const char *by) {
  static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
  } orders[] = {
      {"path", by_path},       {"size", by_size}, {"age", by_age},
      {"compile", by_compile}, {"arch", by_arch},
  };
  for (size_t i = 0; i < sizeof orders / sizeof orders[0] && count > 0; i++) {
    if (strcmp(by, orders[i].name) == 0) {
      qsort(entries, count, sizeof *entries, orders[i].compare);
    }
  }
}

static stg_status list(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                       stg_error *reterr) {
  const struct ls_options *options = user;
  stg_cache_entry *entries = NULL;
  size_t count = 0;
  (void)ret_good;
  stg_status status = stg_cache_read_all(cache, &entries, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  sort_entries(entries, count, options->sort != NULL ? options->sort : "path");
  if (options->json) {
    stg_cache_list_json(entries, count, ret_text);
  } else {
    stg_cache_list_text(entries, count, ret_text);
  }
  stg_free(entries);
  return STG_OK;
}

int stg_cache_cmd_ls(int argc, char **argv) {
  struct ls_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      {"--sort", "path|size|age|arch|compile", "order (default path)", &options.sort, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache ls",
      .words = "",
      .summary = "List the entries of a cache folder or pack.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  return stg_cache_work(options.folder, list, &options);
}
