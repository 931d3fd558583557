/*
 * cache/stats.c: `steergraph cache stats`: what each folder and pack of a list holds, and what all
 * processes did with the last of them.
 *
 * Must not know how statistics are kept.
 */
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/cache/command.h"
#include "tools/cache/left_out.h"
#include "tools/cache/totals.h"
#include "tools/cache/work.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/utc_time.h"

#define N_COLUMNS 7

/* What is said. */
struct facts {
  stg_cache_layer *layers;
  size_t n_layers;
  uint64_t max_bytes, max_entries; /* of the last layer; UINT64_MAX: none */
  bool has_totals;
  stg_cache_totals totals;
  stg_error problem; /* why there are none */
};

static stg_status gather(stg_cache *cache, struct facts *facts, stg_error *reterr) {
  stg_options environment;
  stg_status status = stg_options_for_command(&environment, reterr);
  if (status != STG_OK) {
    return status;
  }
  facts->max_bytes =
      environment.cache_max_bytes != 0 ? environment.cache_max_bytes : STG_CACHE_DEFAULT_BYTES;
  facts->max_entries = environment.cache_max_entries != 0 ? environment.cache_max_entries
                                                          : STG_CACHE_DEFAULT_ENTRIES;
  facts->n_layers = stg_cache_layer_count(cache);
  facts->layers = stg_calloc(facts->n_layers + 1, sizeof *facts->layers);
  if (facts->layers == NULL) {
    return stg_error_memory(reterr, "a list of cache folders", sizeof *facts->layers);
  }
  for (size_t i = 0; i < facts->n_layers && status == STG_OK; i++) {
    facts->layers[i].struct_size = sizeof facts->layers[i];
    status = stg_cache_layer_get(cache, i, &facts->layers[i], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  facts->totals.struct_size = sizeof facts->totals;
  status = stg_cache_read_totals(cache, &facts->totals, &facts->problem);
  facts->has_totals = status == STG_OK;
  return status == STG_E_NO_MEMORY ? stg_error_set(reterr, status, "%s", facts->problem.message)
                                   : STG_OK;
}

/* "read" for what is never written to. */
static const char *use_of(const stg_cache_layer *layer) {
  return layer->is_last && !layer->is_pack ? "write" : "read";
}

static struct stg_cache_left_out_list left_out_of(const stg_cache_layer *layer) {
  return (struct stg_cache_left_out_list){.items = layer->left_out, .count = layer->n_left_out};
}

static void json_layer(struct stg_json_out *json, const struct facts *facts,
                       const stg_cache_layer *layer) {
  char oldest[STG_UTC_TIME_CHARS];
  const bool written = layer->is_last && !layer->is_pack;
  stg_utc_time(layer->oldest_unix, oldest);
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "path", layer->path);
  stg_json_out_text(json, "kind", layer->is_pack ? "pack" : "folder");
  stg_json_out_text(json, "use", use_of(layer));
  stg_json_out_count(json, "entries", layer->entries);
  stg_json_out_count(json, "graphs", layer->graphs);
  stg_json_out_count(json, "temporary", layer->temporary);
  stg_json_out_count(json, "quarantined", layer->quarantined);
  stg_json_out_count(json, "entry_bytes", layer->entry_bytes);
  stg_json_out_count(json, "bytes", layer->bytes);
  stg_json_out_count_if(json, "max_bytes", facts->max_bytes,
                        written && facts->max_bytes != UINT64_MAX);
  stg_json_out_count_if(json, "max_entries", facts->max_entries,
                        written && facts->max_entries != UINT64_MAX);
  stg_json_out_text(json, "unused_since", layer->oldest_unix != 0 ? oldest : NULL);
  const struct stg_cache_left_out_list left_out = left_out_of(layer);
  stg_cache_left_out_json(json, &left_out);
  stg_json_out_close(json, '}');
}

static void json_totals(struct stg_json_out *json, const struct facts *facts) {
  if (facts->has_totals) {
    stg_cache_totals_json(json, &facts->totals);
    stg_json_out_null(json, "problem");
  } else {
    stg_json_out_null(json, "totals");
    stg_json_out_text(json, "problem", facts->problem.message);
  }
}

static void print_json(const struct facts *facts, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_open(&json, "layers", '[');
  for (size_t i = 0; i < facts->n_layers; i++) {
    json_layer(&json, facts, &facts->layers[i]);
  }
  stg_json_out_close(&json, ']');
  json_totals(&json, facts);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void add_layer(struct stg_table *table, const stg_cache_layer *layer) {
  char oldest[STG_UTC_TIME_CHARS];
  stg_utc_time(layer->oldest_unix, oldest);
  stg_table_printf(table, "%s %s", use_of(layer), layer->is_pack ? "pack" : "folder");
  stg_table_printf(table, "%llu", (unsigned long long)layer->entries);
  stg_table_printf(table, "%llu", (unsigned long long)layer->graphs);
  stg_table_printf(table, "%llu", (unsigned long long)layer->quarantined);
  stg_table_bytes(table, layer->bytes);
  stg_table_cell(table, layer->oldest_unix != 0 ? oldest : "-");
  stg_table_cell(table, layer->path);
}

static void print_layers(const struct facts *facts, struct stg_strbuf *out) {
  static const char *const head[N_COLUMNS] = {"use",  "entries",      "graphs", "quarantined",
                                              "size", "unused since", "path"};
  struct stg_table table = {.columns = "lrrrrll"};
  const stg_cache_layer *last = facts->n_layers > 0 ? &facts->layers[facts->n_layers - 1] : NULL;
  for (size_t i = 0; i < N_COLUMNS; i++) {
    stg_table_cell(&table, head[i]);
  }
  for (size_t i = 0; i < facts->n_layers; i++) {
    add_layer(&table, &facts->layers[i]);
  }
  stg_table_print(&table, out);
  for (size_t i = 0; i < facts->n_layers; i++) {
    const struct stg_cache_left_out_list left_out = left_out_of(&facts->layers[i]);
    stg_cache_left_out_text(&left_out, out);
  }
  if (last != NULL && !last->is_pack) {
    stg_strbuf_str(out, "limits of the last folder: ");
    if (facts->max_bytes != UINT64_MAX) {
      stg_strbuf_bytes(out, facts->max_bytes);
    } else {
      stg_strbuf_str(out, "any size");
    }
    if (facts->max_entries != UINT64_MAX) {
      stg_strbuf_printf(out, ", %llu files\n", (unsigned long long)facts->max_entries);
    } else {
      stg_strbuf_str(out, ", any number of files\n");
    }
  }
}

static void print_totals(const struct facts *facts, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "ll", .indent = "  "};
  char since[STG_UTC_TIME_CHARS];
  if (!facts->has_totals) {
    stg_strbuf_str(out, "no totals: ");
    stg_report_clean(out, facts->problem.message);
    stg_strbuf_char(out, '\n');
    return;
  }
  stg_utc_time(facts->totals.since_unix, since);
  stg_strbuf_printf(out, "of all processes since %s:\n", since);
  stg_cache_totals_rows(&table, &facts->totals);
  stg_table_print(&table, out);
}

static stg_status say(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                      stg_error *reterr) {
  const bool *json = user;
  struct facts facts = {.problem = STG_ERROR_INIT};
  stg_status status = gather(cache, &facts, reterr);
  for (size_t i = 0; i < facts.n_layers && status == STG_OK; i++) {
    *ret_good = *ret_good && facts.layers[i].n_left_out == 0;
  }
  if (status == STG_OK && *json) {
    print_json(&facts, ret_text);
  } else if (status == STG_OK) {
    print_layers(&facts, ret_text);
    print_totals(&facts, ret_text);
  }
  stg_free(facts.layers);
  return status;
}

int stg_cache_cmd_stats(int argc, char **argv) {
  const char *folder = NULL;
  bool json = false;
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&folder),
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "cache stats",
      .words = "",
      .summary = "Say what cache folders hold, and what all processes did with the last of them.",
      .details = "A process adds its share when it closes its engine, and while it stores, once a "
                 "minute. Exits 1 when a folder cannot be listed.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  return stg_cache_work(folder, say, &json);
}
