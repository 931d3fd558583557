/*
 * cmd_cache.c: `steergraph cache ls|show|verify`: look into a cache folder, offline.
 *
 * Works where there is neither CUDA nor a GPU. Every entry is verified as it is read, so nothing is
 * shown that is not what was stored.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/cache_folder.h"
#include "tools/cache_report.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"
#include "tools/subcommands.h"

struct cache_options {
  const char *folder; /* NULL: the environment's */
  const char *sort;
  const char *key;
  const char *cubin; /* file to write, or NULL */
  bool json, source, repair;
};

static stg_status read_all(stg_cache *cache, stg_cache_entry **ret_entries, size_t *ret_count,
                           stg_error *reterr) {
  size_t count = stg_cache_count(cache);
  stg_cache_entry *entries = stg_calloc(count, sizeof *entries);
  if (entries == NULL) {
    return stg_error_memory(reterr, "the list of entries", count * sizeof *entries);
  }
  for (size_t i = 0; i < count; i++) {
    stg_status status = stg_cache_get(cache, i, &entries[i], reterr);
    if (status != STG_OK) {
      stg_free(entries);
      return status;
    }
  }
  *ret_entries = entries;
  *ret_count = count;
  return STG_OK;
}

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

static stg_status list(stg_cache *cache, const struct cache_options *options,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  stg_cache_entry *entries = NULL;
  size_t count = 0;
  stg_status status = read_all(cache, &entries, &count, reterr);
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

static stg_status write_cubin(const stg_cache_entry *entry, const char *path, stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_status status = stg_run_output_check_name("--cubin", path, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_interrupt_hold(&hold);
  status = stg_file_write_atomic(path, entry->cubin, entry->cubin_bytes, 0644, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status show(stg_cache *cache, const struct cache_options *options,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  stg_cache_entry entry;
  stg_status status = stg_cache_find(cache, options->key, &entry, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (!entry.ok) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s", entry.path, entry.problem);
  }
  if (options->cubin != NULL) {
    status = write_cubin(&entry, options->cubin, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_show_json(&entry, options->source, ret_text);
  } else if (status == STG_OK) {
    stg_cache_show_text(&entry, options->source, ret_text);
  }
  return status;
}

/* Move a bad entry away. One in a pack is left there: its pack has to be made again. So is what has
 * an entry's name and is no file: nobody stored it here, and it may hold anything. */
static stg_status repair(stg_cache *cache, const char *path, struct stg_cache_repair *repair,
                         stg_error *reterr) {
  struct stat facts;
  if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
    repair->n_no_files++;
    return STG_OK;
  }
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_cache_quarantine(cache, path, &err);
  if (status == STG_OK) {
    repair->n_moved++;
    return STG_OK;
  }
  if (status == STG_E_UNSUPPORTED) {
    repair->n_in_packs++;
    return STG_OK;
  }
  return stg_error_set(reterr, status, "%s", err.message);
}

static stg_status verify(stg_cache *cache, const struct cache_options *options, bool *ret_good,
                         struct stg_strbuf *ret_text, stg_error *reterr) {
  stg_cache_entry *entries = NULL;
  size_t count = 0;
  size_t n_bad = 0;
  struct stg_cache_repair repaired = {0};
  stg_status status = read_all(cache, &entries, &count, reterr);
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    if (!entries[i].ok) {
      status = options->repair ? repair(cache, entries[i].path, &repaired, reterr) : STG_OK;
      n_bad++;
    }
  }
  const struct stg_cache_repair *done = options->repair ? &repaired : NULL;
  if (status == STG_OK && options->json) {
    stg_cache_verify_json(entries, count, done, ret_text);
  } else if (status == STG_OK) {
    stg_cache_verify_text(entries, count, done, ret_text);
  }
  stg_free(entries);
  *ret_good = n_bad == repaired.n_moved;
  return status;
}

enum cache_job { CACHE_LIST, CACHE_SHOW, CACHE_VERIFY };

static int work_on_cache(enum cache_job job, const struct cache_options *options) {
  stg_cache *cache = NULL;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  bool good = true;
  /* the environment's folder is made on the first store; one that is named is meant to be there */
  stg_status status =
      options->folder != NULL ? stg_cache_folder_check(options->folder, &err) : STG_OK;
  if (status == STG_OK) {
    status = stg_cache_folder_open(options->folder, &cache, &err);
  }
  if (status == STG_OK) {
    switch (job) {
    case CACHE_LIST:
      status = list(cache, options, &text, &err);
      break;
    case CACHE_SHOW:
      status = show(cache, options, &text, &err);
      break;
    case CACHE_VERIFY:
      status = verify(cache, options, &good, &text, &err);
      break;
    }
  }
  stg_cache_close(cache);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && !good ? STG_EXIT_FAILED : code;
}

static int cache_ls(int argc, char **argv) {
  struct cache_options options = {0};
  const struct stg_option table[] = {
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.folder, NULL},
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
  return work_on_cache(CACHE_LIST, &options);
}

static int cache_show(int argc, char **argv) {
  struct cache_options options = {0};
  const struct stg_option table[] = {
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.folder, NULL},
      {"--source", NULL, "print the CUDA source too", NULL, &options.source},
      {"--cubin", "FILE", "write the compiled kernel to a file", &options.cubin, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache show",
      .words = "KEY",
      .summary = "Show one entry; KEY is the first digits of its key, at least four.",
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
  options.key = argv[1];
  size_t n_digits = strspn(options.key, "0123456789abcdef");
  if (n_digits < 4 || n_digits > 32 || options.key[n_digits] != '\0') {
    return stg_report_wrong("cache show", "'%s' is no key: expected 4 to 32 digits 0-9a-f",
                            options.key);
  }
  return work_on_cache(CACHE_SHOW, &options);
}

static int cache_verify(int argc, char **argv) {
  struct cache_options options = {0};
  const struct stg_option table[] = {
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.folder, NULL},
      {"--repair", NULL, "move bad entries of folders to the quarantine folder", NULL,
       &options.repair},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache verify",
      .words = "",
      .summary = "Check every entry against its own checksum and key.",
      .details = "Exits 1 when an entry is bad and stays where it is.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  return work_on_cache(CACHE_VERIFY, &options);
}

int stg_cmd_cache(int argc, char **argv) {
  static const struct stg_subcommand subcommands[] = {
      {"ls", "list the entries", cache_ls},
      {"show", "show one entry", cache_show},
      {"verify", "check every entry", cache_verify},
  };
  return stg_subcommands_run("cache", subcommands, sizeof subcommands / sizeof subcommands[0], argc,
                             argv);
}
