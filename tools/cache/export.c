/*
 * cache/export.c: `steergraph cache export`: entries of cache folders into one file, a pack.
 *
 * Says which entries; verifying and writing them is the library's.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/cache/command.h"
#include "tools/cache/filter.h"
#include "tools/cache/left_out.h"
#include "tools/cache/pick.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"

#define MAX_KEYS 4096
#define PACK_SUFFIX ".sgp"

struct export_options {
  const char *folder; /* NULL: the environment's */
  const char *pack;   /* to be written */
  char **keys;        /* first digits; none: any key */
  size_t n_keys;
  struct stg_cache_filter filter;
  bool json;
};

/* The entries asked for, by their numbers in the cache. */
struct choice {
  size_t *indices;
  size_t count;
  size_t n_other_format; /* that were asked for by no key, and are left out */
};

/* Every key must be there, and be one. */
static stg_status check_keys(stg_cache *cache, const struct export_options *options,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < options->n_keys && status == STG_OK; i++) {
    stg_cache_entry entry;
    status = stg_cache_find(cache, options->keys[i], &entry, reterr);
  }
  return status;
}

/* By the name, since an entry that is bad has no key. */
static bool is_named(const struct export_options *options, const stg_cache_entry *entry) {
  const char *name = stg_path_name(entry->path);
  for (size_t i = 0; i < options->n_keys; i++) {
    if (strncmp(name, options->keys[i], strlen(options->keys[i])) == 0) {
      return true;
    }
  }
  return options->n_keys == 0;
}

/* A pack of what could be listed would pass for one of all entries. */
static stg_status check_all_listed(const stg_cache *cache, stg_error *reterr) {
  const char *problem = stg_cache_folder_left_out(cache);
  return problem == NULL ? STG_OK
                         : stg_error_set(reterr, STG_E_IO, "no pack is written: %s", problem);
}

/* Into room for all entries. */
static stg_status choose(stg_cache *cache, const struct export_options *options,
                         struct choice *choice, stg_error *reterr) {
  for (size_t i = 0; i < stg_cache_count(cache); i++) {
    stg_cache_entry entry;
    stg_status status = stg_cache_peek(cache, i, &entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!is_named(options, &entry) || !stg_cache_filter_takes(&options->filter, &entry)) {
      continue;
    }
    if (entry.other_format && options->n_keys == 0) {
      choice->n_other_format++;
    } else {
      choice->indices[choice->count++] = i;
    }
  }
  return STG_OK;
}

static void report(const struct export_options *options, const struct choice *choice,
                   const stg_cache_export_result *result, struct stg_strbuf *out) {
  if (options->json) {
    struct stg_json_out json = {0};
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "pack", options->pack);
    stg_json_out_count(&json, "entries", result->entries);
    stg_json_out_count(&json, "pack_bytes", result->bytes);
    stg_json_out_count(&json, "other_format", choice->n_other_format);
    stg_json_out_close(&json, '}');
    *out = json.text;
    return;
  }
  stg_report_clean(out, options->pack);
  stg_strbuf_printf(out, ": %zu entries, ", result->entries);
  stg_strbuf_bytes(out, result->bytes);
  if (choice->n_other_format > 0) {
    stg_strbuf_printf(out, "; %zu of another format left out", choice->n_other_format);
  }
  stg_strbuf_str(out, "\n");
}

static stg_status export(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                         stg_error *reterr) {
  const struct export_options *options = user;
  const size_t n_there = stg_cache_count(cache);
  struct choice choice = {.indices = stg_calloc(n_there, sizeof *choice.indices)};
  struct stg_cache_progress progress;
  const stg_cache_export_options how = {
      .struct_size = sizeof how, .progress = stg_cache_progress_say, .user = &progress};
  stg_cache_export_result result = {.struct_size = sizeof result};
  (void)ret_good;
  if (choice.indices == NULL) {
    return stg_error_memory(reterr, "the list of entries", n_there * sizeof *choice.indices);
  }
  stg_status status =
      stg_cache_folder_check_output(options->folder, "the pack", options->pack, reterr);
  if (status == STG_OK) {
    status = check_keys(cache, options, reterr);
  }
  if (status == STG_OK && options->n_keys == 0) {
    status = check_all_listed(cache, reterr);
  }
  if (status == STG_OK) {
    status = choose(cache, options, &choice, reterr);
  }
  if (status == STG_OK) {
    stg_cache_progress_begin(&progress, "entries read");
    status =
        stg_cache_export(cache, choice.indices, choice.count, options->pack, &how, &result, reterr);
    stg_report_live_end();
  }
  if (status == STG_OK) {
    report(options, &choice, &result, ret_text);
  }
  stg_free(choice.indices);
  return status;
}

static int check_words(const struct export_options *options) {
  const size_t len = strlen(options->pack);
  const size_t suffix = sizeof PACK_SUFFIX - 1;
  if (len <= suffix || strcmp(options->pack + len - suffix, PACK_SUFFIX) != 0) {
    return stg_report_wrong("cache export",
                            "'%s' is no name of a pack: the first word is the file to write, which "
                            "ends in " PACK_SUFFIX,
                            options->pack);
  }
  for (size_t i = 0; i < options->n_keys; i++) {
    const int code = stg_cache_check_key("cache export", options->keys[i]);
    if (code != STG_EXIT_DONE) {
      return code;
    }
  }
  return STG_EXIT_DONE;
}

int stg_cache_cmd_export(int argc, char **argv) {
  struct export_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      STG_CACHE_FILTER_OPTIONS(&options.filter),
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache export",
      .words = "FILE.sgp [KEY...]",
      .summary = "Write entries of a cache folder into one file, a pack, to ship.",
      .details = "KEY is the first digits of a key, at least four; without any, all entries are "
                 "meant. Options leave out what does not fit them. An entry that is bad fails the "
                 "export, and no file is written.",
      .min_words = 1,
      .max_words = 1 + MAX_KEYS,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.pack = argv[1];
  options.keys = argv + 2;
  options.n_keys = n_words - 1;
  code = check_words(&options);
  if (code == STG_EXIT_DONE) {
    code = stg_cache_filter_prepare("cache export", &options.filter);
  }
  return code == STG_EXIT_DONE ? stg_cache_work(options.folder, export, &options) : code;
}
