/*
 * cache/verify.c: `steergraph cache verify`: check every entry and every graph, and move bad ones
 * away on request.
 *
 * A bad one that stays in its place makes the command fail.
 */
#include <errno.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "tools/cache/command.h"
#include "tools/cache/list_report.h"
#include "tools/cache/work.h"
#include "tools/options.h"
#include "tools/report.h"

struct verify_options {
  const char *folder; /* NULL: the environment's */
  bool json, repair, dry_run;
};

/* Whether a path leads through a file: it names an entry of a pack. */
static bool is_in_pack(const char *path) {
  struct stat facts;
  return stat(path, &facts) != 0 && errno == ENOTDIR;
}

/* Move a bad entry away, or see whether it could be. One in a pack is left there: its pack has to
 * be made again. So is what has an entry's name and is no file: nobody stored it here, and it may
 * hold anything. */
static stg_status repair(stg_cache *cache, const char *path, struct stg_cache_repair *repair,
                         stg_error *reterr) {
  struct stat facts;
  if (is_in_pack(path)) {
    repair->n_in_packs++;
    return STG_OK;
  }
  if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
    repair->n_no_files++;
    return STG_OK;
  }
  stg_error err = STG_ERROR_INIT;
  stg_status status = repair->dry_run ? STG_OK : stg_cache_quarantine(cache, path, &err);
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", err.message);
  }
  repair->n_moved++;
  return STG_OK;
}

/* Note what is not good; room for it was made. */
static void note(const stg_cache_entry *entry, struct stg_cache_verified *verified) {
  if (entry->ok) {
    verified->n_good++;
  } else if (!stg_cache_is_gone(entry)) {
    verified->not_ok[verified->n_not_ok++] = *entry;
    verified->n_other_format += entry->other_format;
  }
}

/* One entry after the other, so that no more than one is in memory. */
static stg_status walk(stg_cache *cache, struct stg_cache_repair *repaired,
                       struct stg_cache_verified *verified, stg_error *reterr) {
  struct stg_cache_progress progress;
  stg_status status = STG_OK;
  stg_cache_progress_begin(&progress, "entries verified");
  for (size_t i = 0; i < stg_cache_count(cache) && status == STG_OK; i++) {
    stg_cache_entry entry;
    const size_t n_before = verified->n_not_ok;
    status = stg_cache_get(cache, i, &entry, reterr);
    if (status == STG_OK) {
      note(&entry, verified);
    }
    if (verified->n_not_ok > n_before && !entry.other_format && repaired != NULL) {
      status = repair(cache, entry.path, repaired, reterr);
    }
    stg_cache_forget(cache, i);
    stg_cache_progress_say(&progress, i + 1, stg_cache_count(cache));
  }
  stg_report_live_end();
  return status;
}

/* The same of graphs, which are small. */
static stg_status walk_graphs(stg_cache *cache, struct stg_cache_repair *repaired,
                              struct stg_cache_verified *verified, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < stg_cache_graph_count(cache) && status == STG_OK; i++) {
    stg_cache_graph graph;
    status = stg_cache_graph_get(cache, i, &graph, reterr);
    if (status != STG_OK) {
      return status;
    }
    const stg_cache_entry entry = {.path = graph.path,
                                   .ok = graph.ok,
                                   .other_format = graph.other_format,
                                   .problem = graph.problem};
    if (graph.ok || stg_cache_is_gone(&entry)) {
      verified->n_graphs += graph.ok;
      stg_cache_graph_forget(cache, i);
      continue;
    }
    verified->n_graphs++;
    verified->n_graphs_not_ok++;
    verified->n_graphs_other_format += entry.other_format;
    verified->n_other_format += entry.other_format;
    verified->not_ok[verified->n_not_ok++] = entry;
    if (!entry.other_format && repaired != NULL) {
      status = repair(cache, entry.path, repaired, reterr);
    }
  }
  return status;
}

static stg_status verify(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                         stg_error *reterr) {
  const struct verify_options *options = user;
  struct stg_cache_repair repaired = {.dry_run = options->dry_run};
  struct stg_cache_repair *asked = options->repair ? &repaired : NULL;
  const size_t room = stg_cache_count(cache) + stg_cache_graph_count(cache);
  struct stg_cache_verified verified = {.not_ok = stg_calloc(room, sizeof *verified.not_ok),
                                        .left_out = stg_cache_left_out_of(cache, true)};
  if (verified.not_ok == NULL) {
    return stg_error_memory(reterr, "a list of cache entries", room * sizeof *verified.not_ok);
  }
  stg_status status = walk(cache, asked, &verified, reterr);
  if (status == STG_OK) {
    status = walk_graphs(cache, asked, &verified, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_verify_json(&verified, asked, ret_text);
  } else if (status == STG_OK) {
    stg_cache_verify_text(&verified, asked, ret_text);
  }
  const size_t n_bad = verified.n_not_ok - verified.n_other_format;
  *ret_good = (n_bad == 0 || (n_bad == repaired.n_moved && !options->dry_run)) &&
              !stg_cache_left_out_any(&verified.left_out);
  stg_free(verified.not_ok);
  return status;
}

int stg_cache_cmd_verify(int argc, char **argv) {
  struct verify_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      {"--repair", NULL, "move bad entries of folders to the quarantine folder", NULL,
       &options.repair},
      {"--dry-run", NULL, "with --repair: move nothing, say what would be moved", NULL,
       &options.dry_run},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache verify",
      .words = "",
      .summary = "Check every entry and every graph against its own checksum and key.",
      .details = "Exits 1 when one is bad and stays where it is, or is left out: a link, or in a "
                 "folder that cannot be listed.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (options.dry_run && !options.repair) {
    return stg_report_wrong("cache verify", "--dry-run is of --repair, which is not given");
  }
  return stg_cache_work(options.folder, verify, &options);
}
