/*
 * cache/show_report.c: one entry as JSON and as text.
 *
 * Must not read anything but what it is given; occupancy is worked out from that.
 */
#include "tools/cache/show_report.h"

#include <inttypes.h>

#include "engine/offline.h"
#include "runtime/base/key.h"
#include "tools/arch.h"
#include "tools/cache/list_report.h"
#include "tools/cache/occupancy.h"
#include "tools/json_out.h"
#include "tools/table.h"
#include "tools/utc_time.h"

bool stg_cache_occupancy(const stg_cache_entry *entry, struct stg_occupancy *ret) {
  const struct stg_occupancy_ask ask = {.sm = stg_arch_sm(entry->arch),
                                        .threads = entry->threads,
                                        .registers = entry->registers,
                                        .static_bytes = entry->shared_bytes,
                                        .dynamic_bytes = entry->stage_bytes};
  return stg_occupancy_of(&ask, ret);
}

static void json_factors(struct stg_json_out *json, const stg_cache_entry *entry) {
  size_t cursor = 0;
  struct stg_material_view field;
  stg_json_out_open(json, "factors", '[');
  while (stg_material_next(entry->material, entry->material_bytes, &cursor, &field)) {
    struct stg_strbuf value = {0};
    stg_factor_describe(field.value, field.len, 0, &value);
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "factor", field.name);
    stg_json_out_text(json, "value", stg_strbuf_text(&value));
    stg_json_out_close(json, '}');
    stg_strbuf_finish(&value);
  }
  stg_json_out_close(json, ']');
}

static void json_graphs(struct stg_json_out *json, const struct stg_cache_shown *shown) {
  stg_json_out_open(json, "graphs", '[');
  for (size_t i = 0; i < shown->n_graphs; i++) {
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "key", shown->graphs[i].key);
    stg_json_out_int(json, "batch", shown->graphs[i].batch);
    stg_json_out_int(json, "seq", shown->graphs[i].seq);
    stg_json_out_int(json, "rows", shown->graphs[i].rows);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void json_limits(struct stg_json_out *json, unsigned limits) {
  stg_json_out_open(json, "limited_by", '[');
  for (unsigned bit = 1; bit <= STG_LIMIT_BLOCKS; bit <<= 1) {
    struct stg_strbuf name = {0};
    if ((limits & bit) != 0) {
      stg_occupancy_print_limits(bit, &name);
      stg_json_out_text(json, NULL, stg_strbuf_text(&name));
    }
    stg_strbuf_finish(&name);
  }
  stg_json_out_close(json, ']');
}

static void json_occupancy(struct stg_json_out *json, const stg_cache_entry *entry) {
  struct stg_occupancy occupancy;
  if (!stg_cache_occupancy(entry, &occupancy)) {
    stg_json_out_null(json, "occupancy");
    return;
  }
  stg_json_out_open(json, "occupancy", '{');
  stg_json_out_count(json, "dynamic_bytes", entry->stage_bytes);
  stg_json_out_count(json, "blocks", occupancy.blocks);
  stg_json_out_count(json, "warps", occupancy.warps);
  stg_json_out_count(json, "max_warps", occupancy.max_warps);
  stg_json_out_number(json, "percent", stg_occupancy_percent(&occupancy));
  json_limits(json, occupancy.limits);
  stg_json_out_close(json, '}');
}

void stg_cache_show_json(const struct stg_cache_shown *shown, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_cache_entry_json(&json, shown->entry);
  json_occupancy(&json, shown->entry);
  stg_cache_params_json(&json, shown->params, shown->n_params);
  json_graphs(&json, shown);
  json_factors(&json, shown->entry);
  if (shown->with_source) {
    stg_json_out_text(&json, "source", shown->entry->source);
  }
  if (shown->sass != NULL) {
    stg_json_out_text(&json, "sass", shown->sass);
  }
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void append_factors(const stg_cache_entry *entry, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "ll", .indent = "  "};
  size_t cursor = 0;
  struct stg_material_view field;
  while (stg_material_next(entry->material, entry->material_bytes, &cursor, &field)) {
    struct stg_strbuf value = {0};
    stg_factor_describe(field.value, field.len, 0, &value);
    stg_table_cell(&table, field.name);
    stg_table_cell(&table, stg_strbuf_text(&value));
    stg_strbuf_finish(&value);
  }
  stg_strbuf_str(out, "key factors\n");
  stg_table_print(&table, out);
}

static void append_params(const struct stg_cache_shown *shown, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "rrr", .indent = "  "};
  if (shown->n_params == 0) {
    return;
  }
  stg_table_cell(&table, "ordinal");
  stg_table_cell(&table, "offset");
  stg_table_cell(&table, "bytes");
  for (size_t i = 0; i < shown->n_params; i++) {
    stg_table_printf(&table, "%u", shown->params[i].ordinal);
    stg_table_printf(&table, "%u", shown->params[i].offset_bytes);
    stg_table_printf(&table, "%u", shown->params[i].size_bytes);
  }
  stg_strbuf_str(out, "parameters\n");
  stg_table_print(&table, out);
}

static void append_graphs(const struct stg_cache_shown *shown, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "lrrr", .indent = "  "};
  if (shown->n_graphs == 0) {
    return;
  }
  stg_table_cell(&table, "key");
  stg_table_cell(&table, "rows");
  stg_table_cell(&table, "batch");
  stg_table_cell(&table, "seq");
  for (size_t i = 0; i < shown->n_graphs; i++) {
    stg_table_printf(&table, "%.12s", shown->graphs[i].key);
    stg_table_printf(&table, "%" PRId64, shown->graphs[i].rows);
    stg_table_printf(&table, "%" PRId64, shown->graphs[i].batch);
    stg_table_printf(&table, "%" PRId64, shown->graphs[i].seq);
  }
  stg_strbuf_str(out, "graphs that launch it\n");
  stg_table_print(&table, out);
}

static void occupancy_cell(struct stg_table *table, const stg_cache_entry *entry) {
  struct stg_occupancy occupancy;
  struct stg_strbuf limits = {0};
  if (!stg_cache_occupancy(entry, &occupancy)) {
    stg_table_printf(table, "unknown for %s", entry->arch);
    return;
  }
  stg_occupancy_print_limits(occupancy.limits, &limits);
  stg_table_printf(table,
                   "%u %s of %u threads on a multiprocessor of %s, %u of %u warps (%.0f %%), "
                   "limited by %s; with %u B staged",
                   occupancy.blocks, occupancy.blocks == 1 ? "block" : "blocks", entry->threads,
                   entry->arch, occupancy.warps, occupancy.max_warps,
                   stg_occupancy_percent(&occupancy), stg_strbuf_text(&limits), entry->stage_bytes);
  stg_strbuf_finish(&limits);
}

void stg_cache_show_text(const struct stg_cache_shown *shown, struct stg_strbuf *out) {
  const stg_cache_entry *entry = shown->entry;
  char created[STG_UTC_TIME_CHARS];
  stg_utc_time(entry->created_unix, created);
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, entry->signature);
  stg_table_cell(&table, "path");
  stg_table_cell(&table, entry->path);
  stg_table_cell(&table, "compiled");
  stg_table_printf(&table, "%s by %s in %.0f ms (steergraph %s)", created, entry->compiler,
                   entry->compile_ms, entry->creator);
  stg_table_cell(&table, "launch");
  stg_table_printf(
      &table, "%s, %u threads a block, %u row%s at a time, %u B staged, %u B in few blocks",
      entry->kernel, entry->threads, entry->rows_per_block, entry->rows_per_block == 1 ? "" : "s",
      entry->stage_bytes, entry->wide_stage_bytes);
  stg_table_cell(&table, "uses");
  stg_table_printf(&table,
                   "%u registers and %u B local (frame and spills) a thread, %u B shared, %u B of "
                   "parameters",
                   entry->registers, entry->local_bytes, entry->shared_bytes, entry->param_bytes);
  if (entry->max_threads > 0) {
    stg_table_cell(&table, "bounds");
    stg_table_printf(&table, "compiled for at most %u threads a block", entry->max_threads);
  }
  stg_table_cell(&table, "occupancy");
  occupancy_cell(&table, entry);
  stg_table_cell(&table, "sizes");
  stg_table_printf(&table, "source %zu B, cubin %zu B (code %u B), entry %" PRIu64 " B",
                   entry->source_bytes, entry->cubin_bytes, entry->code_bytes, entry->size_bytes);
  stg_strbuf_printf(out, "%s\n", entry->key);
  stg_table_print(&table, out);
  append_params(shown, out);
  append_graphs(shown, out);
  append_factors(entry, out);
  if (shown->with_source) {
    stg_strbuf_printf(out, "\n%s", entry->source);
  }
  if (shown->sass != NULL) {
    stg_strbuf_printf(out, "\n%s", shown->sass);
  }
}
