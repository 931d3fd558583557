/*
 * cache/import.c: `steergraph cache import`: the entries of packs into a cache folder.
 *
 * All packs are opened before the first entry is imported. Verifying and storing is the library's.
 */
#include <stdio.h>
#include <string.h>

#include <steergraph/engine.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "tools/cache/command.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"

#define MAX_PACKS 4096

/* An entry that was not taken. */
struct bad {
  const char *path, *problem;
  struct bad *next;
};

struct import {
  const char *folder; /* NULL: the environment's */
  bool json, dry_run;
  struct stg_cache_progress progress;
  char what[96]; /* its words */
  stg_cache_import_result total;
  struct stg_arena arena; /* of the bad ones */
  struct bad *bad;        /* in the order in which they were met */
  struct bad **end;
};

static void note_bad(void *user, const char *path, const char *problem) {
  struct import *import = user;
  struct bad *bad = stg_arena_alloc(&import->arena, 1, sizeof *bad);
  if (bad != NULL) { /* else the arena says so in the end */
    *bad = (struct bad){.path = stg_arena_strdup(&import->arena, path),
                        .problem = stg_arena_strdup(&import->arena, problem)};
    *import->end = bad;
    import->end = &bad->next;
  }
}

static void say_progress(void *user, size_t done, size_t total) {
  struct import *import = user;
  stg_cache_progress_say(&import->progress, done, total);
}

static stg_status import_all(struct import *import, char **packs, size_t n_packs,
                             const char *folders, stg_error *reterr) {
  stg_options environment;
  stg_status status = stg_options_for_command(&environment, reterr);
  if (status != STG_OK) {
    return status;
  }
  const stg_cache_import_options options = {.struct_size = sizeof options,
                                            .dry_run = import->dry_run,
                                            .max_bytes = environment.cache_max_bytes,
                                            .max_entries = environment.cache_max_entries,
                                            .on_bad = note_bad,
                                            .progress = say_progress,
                                            .user = import};
  for (size_t i = 0; i < n_packs && status == STG_OK; i++) {
    status = stg_offline_pack_check(packs[i], reterr);
  }
  snprintf(import->what, sizeof import->what, "entries read");
  stg_cache_progress_begin(&import->progress, import->what);
  for (size_t i = 0; i < n_packs && status == STG_OK; i++) {
    stg_cache_import_result one = {.struct_size = sizeof one};
    if (n_packs > 1) {
      snprintf(import->what, sizeof import->what, "entries of pack %zu of %zu read", i + 1,
               n_packs);
    }
    status = stg_cache_import(folders, packs[i], &options, &one, reterr);
    if (status != STG_OK && n_packs > 1) {
      stg_error_prefix(reterr, "%s: ", packs[i]);
    }
    import->total.imported += one.imported;
    import->total.there += one.there;
    import->total.bad += one.bad;
    import->total.bytes += one.bytes;
  }
  stg_report_live_end();
  return status == STG_OK ? stg_arena_status(&import->arena, reterr) : status;
}

static void report_json(const struct import *import, const char *folders, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "folders", folders);
  stg_json_out_count(&json, "imported", import->total.imported);
  stg_json_out_count(&json, "imported_bytes", import->total.bytes);
  stg_json_out_count(&json, "already_there", import->total.there);
  stg_json_out_open(&json, "bad", '[');
  for (const struct bad *bad = import->bad; bad != NULL; bad = bad->next) {
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "path", bad->path);
    stg_json_out_text(&json, "problem", bad->problem);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_bool(&json, "dry_run", import->dry_run);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void report_text(const struct import *import, struct stg_strbuf *out) {
  for (const struct bad *bad = import->bad; bad != NULL; bad = bad->next) {
    stg_strbuf_str(out, "bad: ");
    stg_report_clean(out, bad->path);
    stg_strbuf_printf(out, ": ");
    stg_report_clean(out, bad->problem);
    stg_strbuf_str(out, "\n");
  }
  stg_strbuf_printf(out, "%s %zu, %zu already there, %zu bad\n",
                    import->dry_run ? "would import" : "imported", import->total.imported,
                    import->total.there, import->total.bad);
}

static int import_packs(struct import *import, char **packs, size_t n_packs) {
  const char *folders = NULL;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  import->end = &import->bad;
  stg_status status = stg_cache_folder_find(import->folder, &folders, &err);
  if (status == STG_OK) {
    status = import_all(import, packs, n_packs, folders, &err);
  }
  if (status == STG_OK && import->json) {
    report_json(import, folders, &text);
  } else if (status == STG_OK) {
    report_text(import, &text);
  }
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  stg_arena_finish(&import->arena);
  return code == STG_EXIT_DONE && import->total.bad > 0 ? STG_EXIT_FAILED : code;
}

int stg_cache_cmd_import(int argc, char **argv) {
  struct import import = {0};
  const struct stg_option table[] = {
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &import.folder, NULL},
      {"--dry-run", NULL, "say what would be imported, and write nothing", NULL, &import.dry_run},
      {"--json", NULL, "print one JSON object", NULL, &import.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache import",
      .words = "FILE.sgp...",
      .summary = "Copy the entries of packs into a cache folder.",
      .details = "Each entry is verified; what the folder has already stays as it is. Exits 1 when "
                 "an entry is bad, which is passed over.",
      .min_words = 1,
      .max_words = MAX_PACKS,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  return import_packs(&import, argv + 1, n_words);
}
