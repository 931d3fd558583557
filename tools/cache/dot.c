/*
 * cache/dot.c: `steergraph cache dot`: a graph, or one kernel, in the language of Graphviz.
 *
 * Text is quoted and escaped, so that no signature can end a string. Graphviz draws it; nothing of
 * it is needed here.
 */
#include "tools/cache/command.h"
#include "tools/cache/pick.h"
#include "tools/cache/work.h"
#include "tools/command.h"
#include "tools/options.h"

struct dot_options {
  const char *folder; /* NULL: the environment's */
  const char *key;
};

/* Inside a quoted string: a backslash begins an escape there, and a control character nothing. */
static void append_text(struct stg_strbuf *out, const char *text) {
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\') {
      stg_strbuf_char(out, '\\');
    }
    const bool is_control = (unsigned char)*c < 0x20 || *c == 0x7f;
    if (is_control) {
      stg_strbuf_char(out, ' ');
    } else {
      stg_strbuf_char(out, *c);
    }
  }
}

static void append_node(const stg_cache_graph *graph, size_t index, struct stg_strbuf *out) {
  const stg_cache_graph_node *node = &graph->nodes[index];
  stg_strbuf_printf(out, "  n%zu [label=\"", index);
  append_text(out, node->kernel);
  stg_strbuf_printf(out, "\\n%.12s ", node->key);
  append_text(out, graph->arch);
  stg_strbuf_printf(out, "\\nrows/%u blocks of %u\\n%u B staged, %u B in few blocks\"];\n",
                    node->rows_per_block, node->threads, node->stage_bytes, node->wide_stage_bytes);
}

/* What each launch sets of a node, as a note beside it. */
static void append_slots(const stg_cache_graph *graph, size_t index, struct stg_strbuf *out) {
  size_t n_slots = 0;
  for (size_t i = 0; i < graph->n_slots; i++) {
    const stg_cache_graph_slot *slot = &graph->slots[i];
    if (slot->node != index) {
      continue;
    }
    if (n_slots++ == 0) {
      stg_strbuf_printf(out, "  s%zu [shape=note, label=\"set by each launch\\l", index);
    }
    append_text(out, slot->name);
    stg_strbuf_printf(out, ": %u B at %u of parameter %u\\l", slot->size_bytes, slot->offset_bytes,
                      slot->param);
  }
  if (n_slots > 0) {
    stg_strbuf_printf(out, "\"];\n  s%zu -> n%zu [style=dashed, arrowhead=none];\n", index, index);
  }
}

static void append_dot(const stg_cache_graph *graph, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "digraph \"%s\" {\n  label=\"", graph->key);
  append_text(out, graph->signature);
  stg_strbuf_printf(out, "\\n%s\";\n  labelloc=t;\n  node [shape=box, fontname=monospace];\n",
                    graph->key);
  for (size_t i = 0; i < graph->n_nodes; i++) {
    append_node(graph, i, out);
    append_slots(graph, i, out);
  }
  for (size_t i = 0; i < graph->n_edges; i++) {
    stg_strbuf_printf(out, "  n%u -> n%u;\n", graph->edges[i].from, graph->edges[i].to);
  }
  stg_strbuf_str(out, "}\n");
}

/* A kernel alone is a graph of one node. */
static void append_entry(const stg_cache_entry *entry, struct stg_strbuf *out) {
  stg_cache_graph_node node = {.kernel = entry->kernel,
                               .threads = entry->threads,
                               .rows_per_block = entry->rows_per_block,
                               .stage_bytes = entry->stage_bytes,
                               .wide_stage_bytes = entry->wide_stage_bytes};
  stg_cache_graph graph = {
      .signature = entry->signature, .arch = entry->arch, .nodes = &node, .n_nodes = 1};
  for (size_t i = 0; i < sizeof node.key; i++) {
    node.key[i] = graph.key[i] = entry->key[i];
  }
  append_dot(&graph, out);
}

static stg_status dot(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                      stg_error *reterr) {
  const struct dot_options *options = user;
  struct stg_cache_picked picked;
  (void)ret_good;
  stg_status status = stg_cache_pick(cache, options->key, &picked, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (picked.is_graph) {
    append_dot(&picked.graph, ret_text);
  } else {
    append_entry(&picked.entry, ret_text);
  }
  return STG_OK;
}

int stg_cache_cmd_dot(int argc, char **argv) {
  struct dot_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
  };
  const struct stg_grammar grammar = {
      .name = "cache dot",
      .words = "KEY",
      .summary = "Print a graph, or the one kernel of an entry, for Graphviz.",
      .details =
          "KEY is the first digits of a key that 'cache ls' or 'cache ls --graphs' lists, at "
          "least four.",
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
  code = stg_cache_check_key("cache dot", options.key);
  return code == STG_EXIT_DONE ? stg_cache_work(options.folder, dot, &options) : code;
}
