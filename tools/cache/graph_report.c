/*
 * cache/graph_report.c: recipes of graphs as JSON and as text, many in a list or one in full.
 *
 * Must not read anything but what it is given.
 */
#include "tools/cache/graph_report.h"

#include <inttypes.h>

#include "tools/cache/list_report.h"
#include "tools/table.h"
#include "tools/utc_time.h"

static void json_head(struct stg_json_out *json, const stg_cache_graph *graph) {
  char created[STG_UTC_TIME_CHARS];
  char used[STG_UTC_TIME_CHARS];
  stg_utc_time(graph->created_unix, created);
  stg_utc_time(graph->used_unix, used);
  stg_json_out_text(json, "path", graph->path);
  stg_json_out_bool(json, "ok", graph->ok);
  stg_json_out_count(json, "size_bytes", graph->size_bytes);
  if (!graph->ok) {
    stg_json_out_bool(json, "other_format", graph->other_format);
    stg_json_out_text(json, "problem", graph->problem);
    return;
  }
  stg_json_out_text(json, "key", graph->key);
  stg_json_out_text(json, "signature", graph->signature);
  stg_json_out_text(json, "arch", graph->arch);
  stg_json_out_text(json, "creator", graph->creator);
  stg_json_out_text(json, "created", created);
  stg_json_out_text(json, "used", used);
  stg_json_out_int(json, "batch", graph->batch);
  stg_json_out_int(json, "seq", graph->seq);
  stg_json_out_int(json, "rows", graph->rows);
}

/* `in_cache` is NULL where it is not known. */
static void json_nodes(struct stg_json_out *json, const stg_cache_graph *graph,
                       const bool *in_cache) {
  stg_json_out_open(json, "nodes", '[');
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const stg_cache_graph_node *node = &graph->nodes[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "key", node->key);
    stg_json_out_text(json, "kernel", node->kernel);
    stg_json_out_count(json, "threads", node->threads);
    stg_json_out_count(json, "rows_per_block", node->rows_per_block);
    stg_json_out_count(json, "stage_bytes", node->stage_bytes);
    stg_json_out_count(json, "wide_stage_bytes", node->wide_stage_bytes);
    if (in_cache != NULL) {
      stg_json_out_bool(json, "in_cache", in_cache[i]);
      stg_cache_params_json(json, node->params, node->n_params);
    }
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void json_edges(struct stg_json_out *json, const stg_cache_graph *graph) {
  stg_json_out_open(json, "edges", '[');
  for (size_t i = 0; i < graph->n_edges; i++) {
    stg_json_out_open(json, NULL, '[');
    stg_json_out_count(json, NULL, graph->edges[i].from);
    stg_json_out_count(json, NULL, graph->edges[i].to);
    stg_json_out_close(json, ']');
  }
  stg_json_out_close(json, ']');
}

static void json_slots(struct stg_json_out *json, const stg_cache_graph *graph) {
  stg_json_out_open(json, "slots", '[');
  for (size_t i = 0; i < graph->n_slots; i++) {
    const stg_cache_graph_slot *slot = &graph->slots[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "name", slot->name);
    stg_json_out_count(json, "node", slot->node);
    stg_json_out_count(json, "parameter", slot->param);
    stg_json_out_count(json, "offset_bytes", slot->offset_bytes);
    stg_json_out_count(json, "size_bytes", slot->size_bytes);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

void stg_cache_graphs_json(const struct stg_cache_graph_list *list, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  uint64_t bytes = 0;
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_open(&json, "graphs", '[');
  for (size_t i = 0; i < list->count; i++) {
    const stg_cache_graph *graph = &list->rows[i].graph;
    stg_json_out_open(&json, NULL, '{');
    json_head(&json, graph);
    if (graph->ok) {
      json_nodes(&json, graph, NULL);
    }
    stg_json_out_close(&json, '}');
    bytes += graph->size_bytes;
  }
  stg_json_out_close(&json, ']');
  stg_json_out_count(&json, "count", list->count);
  stg_json_out_count(&json, "in_cache", list->n_there);
  stg_json_out_count(&json, "size_bytes", bytes);
  stg_cache_left_out_json(&json, &list->left_out);
  stg_json_out_bool(&json, "verified", true);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void add_row(struct stg_table *table, const stg_cache_graph *graph, bool by_use) {
  char when[STG_UTC_TIME_CHARS];
  stg_utc_time(by_use ? graph->used_unix : graph->created_unix, when);
  stg_table_printf(table, "%.12s", graph->key);
  stg_table_printf(table, "%" PRId64, graph->rows);
  stg_table_printf(table, "%" PRId64, graph->batch);
  stg_table_printf(table, "%" PRId64, graph->seq);
  stg_table_printf(table, "%.12s%s", graph->nodes[0].key, graph->n_nodes > 1 ? ", ..." : "");
  stg_table_cell(table, when);
  stg_table_cell(table, graph->signature);
}

void stg_cache_graphs_text(const struct stg_cache_graph_list *list, size_t max_width,
                           struct stg_strbuf *out) {
  const char *const head[] = {
      "key", "rows", "batch", "seq", "kernel", list->by_use ? "used" : "created", "signature"};
  struct stg_table table = {.columns = "lrrrlll", .yields = "...321s", .max_width = max_width};
  uint64_t bytes = 0;
  for (size_t i = 0; i < list->count; i++) {
    bytes += list->rows[i].graph.size_bytes;
    for (size_t k = 0; list->rows[i].graph.ok && table.n_cells < sizeof head / sizeof head[0];
         k++) {
      stg_table_cell(&table, head[k]);
    }
    if (list->rows[i].graph.ok) {
      add_row(&table, &list->rows[i].graph, list->by_use);
    }
  }
  stg_table_print(&table, out);
  for (size_t i = 0; i < list->count; i++) {
    const stg_cache_graph *graph = &list->rows[i].graph;
    if (!graph->ok) {
      stg_cache_problem_text(graph->path, graph->problem, graph->other_format, out);
    }
  }
  stg_cache_left_out_text(&list->left_out, out);
  if (list->count < list->n_there) {
    stg_strbuf_printf(out, "%zu of %zu graphs, ", list->count, list->n_there);
  } else {
    stg_strbuf_printf(out, "%zu %s, ", list->count, list->count == 1 ? "graph" : "graphs");
  }
  stg_strbuf_bytes(out, bytes);
  stg_strbuf_char(out, '\n');
}

void stg_cache_graph_show_json(const stg_cache_graph *graph, const bool *in_cache,
                               struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  json_head(&json, graph);
  json_nodes(&json, graph, in_cache);
  json_edges(&json, graph);
  json_slots(&json, graph);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void text_nodes(const stg_cache_graph *graph, const bool *in_cache, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "rllll", .indent = "  "};
  static const char *const head[] = {"node", "key", "kernel", "launch", "in this cache"};
  for (size_t k = 0; k < sizeof head / sizeof head[0]; k++) {
    stg_table_cell(&table, head[k]);
  }
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const stg_cache_graph_node *node = &graph->nodes[i];
    stg_table_printf(&table, "%zu", i);
    stg_table_printf(&table, "%.12s", node->key);
    stg_table_cell(&table, node->kernel);
    stg_table_printf(&table, "rows/%u blocks of %u threads, %u B staged, %u B in few blocks",
                     node->rows_per_block, node->threads, node->stage_bytes,
                     node->wide_stage_bytes);
    stg_table_cell(&table, in_cache[i] ? "yes" : "no");
  }
  stg_strbuf_str(out, "nodes\n");
  stg_table_print(&table, out);
}

static void text_slots(const stg_cache_graph *graph, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "lrrrr", .indent = "  "};
  static const char *const head[] = {"set by each launch", "node", "parameter", "offset", "bytes"};
  if (graph->n_slots == 0) {
    return;
  }
  for (size_t k = 0; k < sizeof head / sizeof head[0]; k++) {
    stg_table_cell(&table, head[k]);
  }
  for (size_t i = 0; i < graph->n_slots; i++) {
    stg_table_cell(&table, graph->slots[i].name);
    stg_table_printf(&table, "%u", graph->slots[i].node);
    stg_table_printf(&table, "%u", graph->slots[i].param);
    stg_table_printf(&table, "%u", graph->slots[i].offset_bytes);
    stg_table_printf(&table, "%u", graph->slots[i].size_bytes);
  }
  stg_strbuf_str(out, "arguments\n");
  stg_table_print(&table, out);
}

void stg_cache_graph_show_text(const stg_cache_graph *graph, const bool *in_cache,
                               struct stg_strbuf *out) {
  char created[STG_UTC_TIME_CHARS];
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_utc_time(graph->created_unix, created);
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, graph->signature);
  stg_table_cell(&table, "path");
  stg_table_cell(&table, graph->path);
  stg_table_cell(&table, "first made");
  stg_table_printf(&table, "%s (steergraph %s)", created, graph->creator);
  stg_table_cell(&table, "takes");
  stg_table_printf(&table,
                   "at most %" PRId64 " rows, %" PRId64 " requests, %" PRId64 " rows of one",
                   graph->rows, graph->batch, graph->seq);
  stg_strbuf_printf(out, "graph %s\n", graph->key);
  stg_table_print(&table, out);
  text_nodes(graph, in_cache, out);
  for (size_t i = 0; i < graph->n_edges; i++) {
    stg_strbuf_printf(out, "%s%u before %u", i == 0 ? "edges\n  " : ", ", graph->edges[i].from,
                      graph->edges[i].to);
  }
  stg_strbuf_str(out, graph->n_edges > 0 ? "\n" : "");
  text_slots(graph, out);
}
