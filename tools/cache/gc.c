/*
 * cache/gc.c: `steergraph cache gc`: bring a cache folder under its limits, or say what would go.
 *
 * The folder is the last of a list, the one that is written to. Must not know how files are chosen.
 */
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tools/cache/command.h"
#include "tools/cache/duration.h"
#include "tools/cache/left_out.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/utc_time.h"

#define N_COLUMNS 5
#define LONG_WORK 1000 /* files; less is done before anybody wonders */

struct gc_options {
  const char *folder; /* NULL: the environment's */
  const char *max_size, *max_entries, *older_than;
  bool json, dry_run;
};

/* What the words say, over what the environment says. Returns an exit status. */
static int read_limits(const struct gc_options *options, stg_cache_limits *ret_limits) {
  stg_options environment;
  stg_error err = STG_ERROR_INIT;
  if (stg_options_for_command(&environment, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  stg_cache_limits limits = {.struct_size = sizeof limits,
                             .max_bytes = environment.cache_max_bytes,
                             .max_entries = environment.cache_max_entries,
                             .by_age = options->older_than != NULL,
                             .dry_run = options->dry_run};
  if (options->max_size != NULL && !stg_limit_parse(options->max_size, true, &limits.max_bytes)) {
    return stg_report_wrong("cache gc",
                            "--max-size %s is no size; write bytes or a number with K, M or G, or "
                            "none (to remove all: --older-than 0s)",
                            options->max_size);
  }
  if (options->max_entries != NULL &&
      !stg_limit_parse(options->max_entries, false, &limits.max_entries)) {
    return stg_report_wrong("cache gc",
                            "--max-entries %s is no number above 0, nor none (to remove all: "
                            "--older-than 0s)",
                            options->max_entries);
  }
  if (options->older_than != NULL &&
      !stg_duration_parse(options->older_than, &limits.older_than_s)) {
    return stg_report_wrong("cache gc",
                            "--older-than %s is no time; write a number with s, m, h or d, as 30d",
                            options->older_than);
  }
  *ret_limits = limits;
  return STG_EXIT_DONE;
}

static void say_progress(void *user, size_t done, size_t total) {
  const struct gc_options *options = user;
  if (total >= LONG_WORK && stg_report_is_live() && !options->dry_run) {
    stg_report_live("%zu of %zu files removed", done, total);
  }
}

static void add_row(struct stg_table *table, const stg_cache_victim *victim) {
  char used[STG_UTC_TIME_CHARS];
  stg_utc_time(victim->used_unix, used);
  if (victim->key[0] != '\0') {
    stg_table_printf(table, "%.12s", victim->key);
  } else {
    stg_table_cell(table, stg_path_name(victim->path));
  }
  stg_table_cell(table, victim->kind);
  stg_table_cell(table, used);
  stg_table_bytes(table, victim->size_bytes);
  stg_table_cell(table, victim->why);
}

/* "812 entries and 3 other files, 96.1 MiB". */
static void append_sum(struct stg_strbuf *out, size_t entries, size_t files, uint64_t bytes) {
  stg_strbuf_printf(out, "%zu %s", entries, entries == 1 ? "entry" : "entries");
  if (files > 0) {
    stg_strbuf_printf(out, " and %zu other %s", files, files == 1 ? "file" : "files");
  }
  stg_strbuf_str(out, ", ");
  stg_strbuf_bytes(out, bytes);
}

static struct stg_cache_left_out_list left_out_of(const stg_cache_gc_result *result) {
  return (struct stg_cache_left_out_list){.items = result->left_out, .count = result->n_left_out};
}

static void print_text(const stg_cache_gc_result *result, bool dry_run, struct stg_strbuf *out) {
  static const char *const head[N_COLUMNS] = {"key", "kind", "used", "size", "why"};
  struct stg_table table = {.columns = "lllrl"};
  for (size_t i = 0; i < result->n_victims; i++) {
    const stg_cache_victim *victim = &result->victims[i];
    if (victim->problem != NULL) {
      continue;
    }
    for (size_t k = 0; k < N_COLUMNS && table.n_cells < N_COLUMNS; k++) {
      stg_table_cell(&table, head[k]);
    }
    add_row(&table, victim);
  }
  stg_table_print(&table, out);
  for (size_t i = 0; i < result->n_victims; i++) {
    if (result->victims[i].problem != NULL) {
      stg_strbuf_str(out, "left: ");
      stg_report_clean(out, result->victims[i].problem);
      stg_strbuf_char(out, '\n');
    }
  }
  const struct stg_cache_left_out_list left_out = left_out_of(result);
  stg_cache_left_out_text(&left_out, out);
  stg_strbuf_str(out, dry_run ? "would remove " : "removed ");
  append_sum(out, result->removed_entries, result->removed_files, result->removed_bytes);
  stg_strbuf_str(out, "; ");
  append_sum(out, result->kept_entries, result->kept_files, result->kept_bytes);
  stg_strbuf_str(out, " stay\n");
}

static void print_json(const stg_cache_gc_result *result, bool dry_run, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "folder", result->folder);
  stg_json_out_bool(&json, "dry_run", dry_run);
  for (int failed = 0; failed < 2; failed++) {
    stg_json_out_open(&json, failed ? "failed" : "removed", '[');
    for (size_t i = 0; i < result->n_victims; i++) {
      const stg_cache_victim *victim = &result->victims[i];
      char used[STG_UTC_TIME_CHARS];
      if ((victim->problem != NULL) != (failed != 0)) {
        continue;
      }
      stg_utc_time(victim->used_unix, used);
      stg_json_out_open(&json, NULL, '{');
      stg_json_out_text(&json, "path", victim->path);
      stg_json_out_text(&json, "key", victim->key[0] != '\0' ? victim->key : NULL);
      stg_json_out_text(&json, "kind", victim->kind);
      stg_json_out_count(&json, "size_bytes", victim->size_bytes);
      stg_json_out_text(&json, "used", used);
      stg_json_out_text(&json, "why", victim->why);
      if (failed) {
        stg_json_out_text(&json, "problem", victim->problem);
      }
      stg_json_out_close(&json, '}');
    }
    stg_json_out_close(&json, ']');
  }
  stg_json_out_count(&json, "removed_entries", result->removed_entries);
  stg_json_out_count(&json, "removed_files", result->removed_files);
  stg_json_out_count(&json, "removed_bytes", result->removed_bytes);
  stg_json_out_count(&json, "kept_entries", result->kept_entries);
  stg_json_out_count(&json, "kept_files", result->kept_files);
  stg_json_out_count(&json, "kept_bytes", result->kept_bytes);
  const struct stg_cache_left_out_list left_out = left_out_of(result);
  stg_cache_left_out_json(&json, &left_out);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static int collect(const struct gc_options *options, const stg_cache_limits *limits) {
  const stg_cache_gc_result *result = NULL;
  const char *path_list = NULL;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_cache_folder_find(options->folder, &path_list, &err);
  if (status == STG_OK && options->folder != NULL) { /* the environment's may not be there yet */
    status = stg_cache_folder_check(options->folder, &err);
  }
  if (status == STG_OK) {
    status = stg_cache_gc(path_list, limits, &result, &err);
  }
  stg_report_live_end();
  if (status != STG_OK) {
    return stg_report_fail(&err);
  }
  if (options->json) {
    print_json(result, options->dry_run, &text);
  } else {
    if (strcmp(path_list, result->folder) != 0 && strchr(path_list, ':') != NULL) {
      stg_strbuf_str(&text, "of the list ");
      stg_report_clean(&text, result->folder);
      stg_strbuf_str(&text, " alone is written to\n");
    }
    print_text(result, options->dry_run, &text);
  }
  int code = stg_report_print(&text);
  const bool all_went = result->failed == 0 && result->n_left_out == 0;
  stg_cache_gc_free(result);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && !all_went ? STG_EXIT_FAILED : code;
}

int stg_cache_cmd_gc(int argc, char **argv) {
  struct gc_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      {"--max-size", "SIZE", "bytes that may stay, with K, M or G; or none", &options.max_size,
       NULL},
      {"--max-entries", "N", "files that may stay; or none", &options.max_entries, NULL},
      {"--older-than", "TIME", "remove what was not used for 30d, 12h, 60m, 0s",
       &options.older_than, NULL},
      {"--dry-run", NULL, "remove nothing, say what would go", NULL, &options.dry_run},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache gc",
      .words = "",
      .summary = "Remove from a cache folder what was unused longest, until it is within limits.",
      .details = "Limits that are not given are those of the environment, else 2G and 32768. Of a "
                 "list of folders the last one is meant. Exits 1 when a file cannot be removed, or "
                 "a folder of them not be listed.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  stg_cache_limits limits;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  code = read_limits(&options, &limits);
  if (code != STG_EXIT_DONE) {
    return code;
  }
  limits.progress = say_progress;
  limits.user = &options;
  return collect(&options, &limits);
}
