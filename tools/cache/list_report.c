/*
 * cache/list_report.c: the reports of `cache ls` and `cache verify` as JSON and as text.
 *
 * Must not read anything but the entries given.
 */
#include "tools/cache/list_report.h"

#include <inttypes.h>
#include <string.h>

#include "tools/report.h"
#include "tools/table.h"
#include "tools/utc_time.h"

static void json_facts(struct stg_json_out *json, const stg_cache_entry *entry) {
  char created[STG_UTC_TIME_CHARS];
  char used[STG_UTC_TIME_CHARS];
  stg_utc_time(entry->created_unix, created);
  stg_utc_time(entry->used_unix, used);
  stg_json_out_text(json, "signature", entry->signature);
  stg_json_out_text(json, "family", entry->family);
  stg_json_out_text(json, "kernel", entry->kernel);
  stg_json_out_text(json, "arch", entry->arch);
  stg_json_out_text(json, "compiler", entry->compiler);
  stg_json_out_text(json, "creator", entry->creator);
  stg_json_out_number(json, "compile_ms", entry->compile_ms);
  stg_json_out_text(json, "created", created);
  stg_json_out_text(json, "used", used);
  stg_json_out_count(json, "source_bytes", entry->source_bytes);
  stg_json_out_count(json, "cubin_bytes", entry->cubin_bytes);
  stg_json_out_count(json, "threads", entry->threads);
  stg_json_out_count(json, "rows_per_block", entry->rows_per_block);
  stg_json_out_count(json, "registers", entry->registers);
  stg_json_out_count(json, "shared_bytes", entry->shared_bytes);
  stg_json_out_count(json, "local_bytes", entry->local_bytes);
  stg_json_out_count(json, "param_bytes", entry->param_bytes);
  stg_json_out_count(json, "code_bytes", entry->code_bytes);
  stg_json_out_count(json, "max_threads", entry->max_threads);
  stg_json_out_count(json, "stage_bytes", entry->stage_bytes);
  stg_json_out_count(json, "wide_stage_bytes", entry->wide_stage_bytes);
}

void stg_cache_entry_json(struct stg_json_out *json, const stg_cache_entry *entry) {
  stg_json_out_text(json, "path", entry->path);
  stg_json_out_bool(json, "ok", entry->ok);
  stg_json_out_count(json, "size_bytes", entry->size_bytes);
  if (entry->ok) {
    stg_json_out_text(json, "key", entry->key);
    json_facts(json, entry);
  } else {
    stg_json_out_bool(json, "other_format", entry->other_format);
    stg_json_out_text(json, "problem", entry->problem);
  }
}

void stg_cache_params_json(struct stg_json_out *json, const stg_cache_param *params,
                           size_t n_params) {
  stg_json_out_open(json, "parameters", '[');
  for (size_t i = 0; i < n_params; i++) {
    stg_json_out_open(json, NULL, '{');
    stg_json_out_count(json, "ordinal", params[i].ordinal);
    stg_json_out_count(json, "offset_bytes", params[i].offset_bytes);
    stg_json_out_count(json, "size_bytes", params[i].size_bytes);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

void stg_cache_list_json(const struct stg_cache_list *list, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  uint64_t bytes = 0;
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_open(&json, "entries", '[');
  for (size_t i = 0; i < list->count; i++) {
    stg_json_out_open(&json, NULL, '{');
    stg_cache_entry_json(&json, &list->entries[i]);
    stg_json_out_close(&json, '}');
    bytes += list->entries[i].size_bytes;
  }
  stg_json_out_close(&json, ']');
  stg_json_out_count(&json, "count", list->count);
  stg_json_out_count(&json, "in_cache", list->n_there);
  stg_json_out_count(&json, "graphs", list->n_graphs);
  stg_json_out_count(&json, "size_bytes", bytes);
  stg_cache_left_out_json(&json, &list->left_out);
  stg_json_out_bool(&json, "verified", false);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

void stg_cache_problem_text(const char *path, const char *problem, bool other_format,
                            struct stg_strbuf *out) {
  stg_strbuf_str(out, other_format ? "other format: " : "bad: ");
  stg_report_clean(out, path);
  stg_strbuf_str(out, ": ");
  stg_report_clean(out, problem);
  stg_strbuf_char(out, '\n');
}

static void append_problem(const stg_cache_entry *entry, struct stg_strbuf *out) {
  stg_cache_problem_text(entry->path, entry->problem, entry->other_format, out);
}

static void append_sum(const struct stg_cache_list *list, uint64_t bytes, struct stg_strbuf *out) {
  if (list->count < list->n_there) {
    stg_strbuf_printf(out, "%zu of %zu entries, ", list->count, list->n_there);
  } else {
    stg_strbuf_printf(out, "%zu %s, ", list->count, list->count == 1 ? "entry" : "entries");
  }
  stg_strbuf_bytes(out, bytes);
  if (list->n_graphs > 0) {
    stg_strbuf_printf(out, "; %zu %s", list->n_graphs, list->n_graphs == 1 ? "graph" : "graphs");
  }
  stg_strbuf_char(out, '\n');
}

void stg_cache_list_text(const struct stg_cache_list *list, size_t max_width,
                         struct stg_strbuf *out) {
  const char *const head[] = {
      "key", "arch", "compiler", "compile", list->by_use ? "used" : "created", "size", "signature"};
  struct stg_table table = {.columns = "lllrlrl", .yields = "..1324s", .max_width = max_width};
  uint64_t bytes = 0;
  for (size_t i = 0; i < list->count; i++) {
    const stg_cache_entry *entry = &list->entries[i];
    bytes += entry->size_bytes;
    if (!entry->ok) {
      continue;
    }
    char when[STG_UTC_TIME_CHARS];
    stg_utc_time(list->by_use ? entry->used_unix : entry->created_unix, when);
    for (size_t k = 0; table.n_cells < sizeof head / sizeof head[0]; k++) {
      stg_table_cell(&table, head[k]);
    }
    stg_table_printf(&table, "%.12s", entry->key);
    stg_table_cell(&table, entry->arch);
    stg_table_cell(&table, entry->compiler);
    stg_table_printf(&table, "%.0f ms", entry->compile_ms);
    stg_table_cell(&table, when);
    stg_table_bytes(&table, entry->size_bytes);
    stg_table_cell(&table, entry->signature);
  }
  stg_table_print(&table, out);
  for (size_t i = 0; i < list->count; i++) {
    if (!list->entries[i].ok) {
      append_problem(&list->entries[i], out);
    }
  }
  stg_cache_left_out_text(&list->left_out, out);
  append_sum(list, bytes, out);
}

void stg_cache_verify_json(const struct stg_cache_verified *verified,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  const size_t n_bad = verified->n_not_ok - verified->n_other_format;
  const size_t n_entries = verified->n_good + verified->n_not_ok - verified->n_graphs_not_ok;
  const bool dry_run = repair != NULL && repair->dry_run;
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_count(&json, "entries", n_entries);
  stg_json_out_count(&json, "good", verified->n_good);
  stg_json_out_count(&json, "graphs", verified->n_graphs);
  stg_json_out_count(&json, "good_graphs", verified->n_graphs - verified->n_graphs_not_ok);
  stg_json_out_count(&json, "other_format", verified->n_other_format);
  stg_json_out_open(&json, "bad", '[');
  for (size_t i = 0; i < verified->n_not_ok; i++) {
    const stg_cache_entry *entry = &verified->not_ok[i];
    if (!entry->other_format) {
      stg_json_out_open(&json, NULL, '{');
      stg_json_out_text(&json, "path", entry->path);
      stg_json_out_text(&json, "problem", entry->problem);
      stg_json_out_close(&json, '}');
    }
  }
  stg_json_out_close(&json, ']');
  stg_cache_left_out_json(&json, &verified->left_out);
  stg_json_out_bool(&json, "dry_run", dry_run);
  stg_json_out_count(&json, dry_run ? "would_move" : "moved", repair != NULL ? repair->n_moved : 0);
  stg_json_out_bool(&json, "repaired", repair != NULL && !dry_run && repair->n_moved == n_bad);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void append_repair(const struct stg_cache_repair *repair, size_t n_bad,
                          struct stg_strbuf *out) {
  stg_strbuf_str(out, ", ");
  if (repair->n_moved < n_bad) {
    stg_strbuf_printf(out, "%zu ", repair->n_moved);
  }
  stg_strbuf_str(out, repair->dry_run ? "would be moved to quarantine" : "moved to quarantine");
  if (repair->n_in_packs > 0) {
    stg_strbuf_printf(out, ", %zu left in packs: make those again", repair->n_in_packs);
  }
  if (repair->n_no_files > 0) {
    stg_strbuf_printf(out, ", %zu left that are no files: move those away", repair->n_no_files);
  }
}

void stg_cache_verify_text(const struct stg_cache_verified *verified,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out) {
  const size_t n_bad = verified->n_not_ok - verified->n_other_format;
  for (size_t i = 0; i < verified->n_not_ok; i++) {
    append_problem(&verified->not_ok[i], out);
  }
  stg_cache_left_out_text(&verified->left_out, out);
  const size_t n_bad_graphs = verified->n_graphs_not_ok - verified->n_graphs_other_format;
  stg_strbuf_printf(out, "%zu entries: %zu good, %zu bad",
                    verified->n_good + verified->n_not_ok - verified->n_graphs_not_ok,
                    verified->n_good, n_bad - n_bad_graphs);
  if (verified->n_graphs > 0) {
    stg_strbuf_printf(out, "; %zu graphs: %zu good, %zu bad", verified->n_graphs,
                      verified->n_graphs - verified->n_graphs_not_ok, n_bad_graphs);
  }
  if (repair != NULL && n_bad > 0) {
    append_repair(repair, n_bad, out);
  }
  if (verified->n_other_format > 0) {
    stg_strbuf_printf(out, ", %zu of another format: left as they are", verified->n_other_format);
  }
  stg_strbuf_str(out, "\n");
}
