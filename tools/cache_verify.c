/*
 * cache_verify.c: `steergraph cache verify`: check every entry, and move bad ones away on request.
 *
 * A bad entry that stays in its place makes the command fail.
 */
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "tools/cache_command.h"
#include "tools/cache_report.h"
#include "tools/cache_work.h"
#include "tools/options.h"

struct verify_options {
  const char *folder; /* NULL: the environment's */
  bool json, repair;
};

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

static stg_status verify(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                         stg_error *reterr) {
  const struct verify_options *options = user;
  stg_cache_entry *entries = NULL;
  size_t count = 0;
  size_t n_bad = 0;
  struct stg_cache_repair repaired = {0};
  stg_status status = stg_cache_read_all(cache, &entries, &count, reterr);
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    if (!entries[i].ok && !entries[i].other_format) {
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

int stg_cache_cmd_verify(int argc, char **argv) {
  struct verify_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
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
  return stg_cache_work(options.folder, verify, &options);
}
