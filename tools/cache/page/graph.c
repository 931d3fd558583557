/*
 * cache/page/graph.c: see graph.h.
 *
 * Graphs of one kernel differ in their sizes more often than in their form: a form is drawn once,
 * with the sizes of all its graphs in a table. Nodes stand in rows, each below those that it waits
 * for.
 */
#include "tools/cache/page/graph.h"

#include <inttypes.h>
#include <string.h>

#include "tools/markup.h"

#define MAX_DRAWN 64 /* nodes; `cache dot` has all */
#define BOX_WIDTH 264
#define BOX_HEIGHT 82
#define GAP_X 24
#define GAP_Y 34

/* Where the nodes of a drawing stand. */
struct layout {
  size_t n_nodes; /* drawn */
  unsigned row[MAX_DRAWN], column[MAX_DRAWN];
  unsigned width[MAX_DRAWN]; /* nodes in a row */
  unsigned n_rows, most;     /* most: nodes of the widest row */
};

static void arrange(const stg_cache_graph *graph, struct layout *layout) {
  *layout = (struct layout){.n_nodes = graph->n_nodes < MAX_DRAWN ? graph->n_nodes : MAX_DRAWN};
  /* edges go from a lower number to a higher one, but come in any order */
  for (size_t node = 0; node < layout->n_nodes; node++) {
    for (size_t i = 0; i < graph->n_edges; i++) {
      const stg_cache_graph_edge *edge = &graph->edges[i];
      if (edge->to == node && layout->row[edge->from] + 1 > layout->row[node]) {
        layout->row[node] = layout->row[edge->from] + 1;
      }
    }
    const unsigned row = layout->row[node];
    layout->column[node] = layout->width[row]++;
    layout->n_rows = row + 1 > layout->n_rows ? row + 1 : layout->n_rows;
    layout->most = layout->width[row] > layout->most ? layout->width[row] : layout->most;
  }
}

/* Left edge of a node; rows are centred. */
static unsigned left_of(const struct layout *layout, size_t node) {
  const unsigned row = layout->row[node];
  const unsigned free = (layout->most - layout->width[row]) * (BOX_WIDTH + GAP_X) / 2;
  return 1 + free + layout->column[node] * (BOX_WIDTH + GAP_X);
}

static unsigned top_of(const struct layout *layout, size_t node) {
  return 1 + layout->row[node] * (BOX_HEIGHT + GAP_Y);
}

static bool is_there(const struct stg_cache_page *page, const char *key) {
  for (size_t i = 0; i < page->n_there; i++) {
    if (page->there[i].ok && strcmp(page->there[i].key, key) == 0) {
      return true;
    }
  }
  return false;
}

static void draw_edge(const struct layout *layout, const stg_cache_graph_edge *edge,
                      struct stg_strbuf *out) {
  const unsigned x1 = left_of(layout, edge->from) + BOX_WIDTH / 2;
  const unsigned y1 = top_of(layout, edge->from) + BOX_HEIGHT;
  const unsigned x2 = left_of(layout, edge->to) + BOX_WIDTH / 2;
  const unsigned y2 = top_of(layout, edge->to);
  stg_strbuf_printf(out, "<path class=\"edge\" d=\"M%u %uC%u %u %u %u %u %u\"/>", x1, y1, x1,
                    y1 + GAP_Y, x2, y2 - GAP_Y, x2, y2 - 7);
  stg_strbuf_printf(out, "<path class=\"tip\" d=\"M%u %ul-4.5 -8h9z\"/>\n", x2, y2);
}

static void draw_node(const struct stg_cache_page *page, const stg_cache_graph *graph,
                      const struct layout *layout, size_t index, struct stg_strbuf *out) {
  const stg_cache_graph_node *node = &graph->nodes[index];
  const unsigned x = left_of(layout, index);
  const unsigned y = top_of(layout, index);
  const bool there = is_there(page, node->key);
  stg_strbuf_printf(out, "<g class=\"node%s\"><title>", there ? "" : " absent");
  stg_strbuf_printf(out, "node %zu: kernel %s, %s</title>", index, node->key,
                    there ? "in this cache" : "not in this cache");
  stg_strbuf_printf(out, "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" rx=\"8\"/>", x, y,
                    BOX_WIDTH, BOX_HEIGHT);
  stg_strbuf_printf(out, "<text class=\"name\" x=\"%u\" y=\"%u\">", x + 14, y + 24);
  stg_markup_line(out, node->kernel);
  stg_strbuf_printf(out, "</text><text class=\"mono\" x=\"%u\" y=\"%u\">%.12s", x + 14, y + 42,
                    node->key);
  stg_strbuf_str(out, there ? "</text>" : " \xc2\xb7 not in this cache</text>");
  stg_strbuf_printf(out, "<text x=\"%u\" y=\"%u\">rows/%u blocks \xc3\x97 %u threads</text>",
                    x + 14, y + 58, node->rows_per_block, node->threads);
  stg_strbuf_printf(out, "<text x=\"%u\" y=\"%u\">", x + 14, y + 73);
  stg_strbuf_bytes(out, node->stage_bytes);
  stg_strbuf_str(out, " staged, ");
  stg_strbuf_bytes(out, node->wide_stage_bytes);
  stg_strbuf_str(out, " in few blocks</text></g>\n");
}

static void draw(const struct stg_cache_page *page, const stg_cache_graph *graph,
                 struct stg_strbuf *out) {
  struct layout layout;
  arrange(graph, &layout);
  const unsigned width = 2 + layout.most * (BOX_WIDTH + GAP_X) - GAP_X;
  const unsigned height = 2 + layout.n_rows * (BOX_HEIGHT + GAP_Y) - GAP_Y;
  stg_strbuf_printf(out,
                    "<div class=\"wide\"><svg class=\"graph\" role=\"img\" width=\"%u\" "
                    "height=\"%u\" viewBox=\"0 0 %u %u\">",
                    width, height, width, height);
  stg_strbuf_printf(out, "<title>a graph of %zu %s</title>\n", graph->n_nodes,
                    graph->n_nodes == 1 ? "launch" : "launches");
  for (size_t i = 0; i < graph->n_edges; i++) {
    if (graph->edges[i].to < layout.n_nodes) {
      draw_edge(&layout, &graph->edges[i], out);
    }
  }
  for (size_t i = 0; i < layout.n_nodes; i++) {
    draw_node(page, graph, &layout, i, out);
  }
  stg_strbuf_str(out, "</svg></div>\n");
  if (layout.n_nodes < graph->n_nodes) {
    stg_strbuf_printf(out,
                      "<p class=\"note\">The first %d of %zu nodes; <code>steergraph cache dot "
                      "%s</code> draws them all.</p>\n",
                      MAX_DRAWN, graph->n_nodes, graph->key);
  }
}

static void print_slots(const stg_cache_graph *graph, struct stg_strbuf *out) {
  if (graph->n_slots == 0) {
    return;
  }
  stg_strbuf_str(out, "<div class=\"wide\"><table class=\"small\"><caption>Set by each launch"
                      "</caption><thead><tr><th>argument</th><th class=\"n\">node</th>"
                      "<th class=\"n\">parameter</th><th class=\"n\">offset</th>"
                      "<th class=\"n\">bytes</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < graph->n_slots; i++) {
    const stg_cache_graph_slot *slot = &graph->slots[i];
    stg_strbuf_str(out, "<tr><td>");
    stg_markup_line(out, slot->name);
    stg_strbuf_printf(out, "</td><td class=\"n\">%u</td><td class=\"n\">%u</td>", slot->node,
                      slot->param);
    stg_strbuf_printf(out, "<td class=\"n\">%u</td><td class=\"n\">%u</td></tr>\n",
                      slot->offset_bytes, slot->size_bytes);
  }
  stg_strbuf_str(out, "</tbody></table></div>\n");
}

static bool has_node(const stg_cache_graph *graph, const char *key) {
  for (size_t i = 0; i < graph->n_nodes; i++) {
    if (strcmp(graph->nodes[i].key, key) == 0) {
      return true;
    }
  }
  return false;
}

static bool same_node(const stg_cache_graph_node *a, const stg_cache_graph_node *b) {
  return strcmp(a->key, b->key) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
         a->threads == b->threads && a->rows_per_block == b->rows_per_block &&
         a->stage_bytes == b->stage_bytes && a->wide_stage_bytes == b->wide_stage_bytes;
}

static bool same_slot(const stg_cache_graph_slot *a, const stg_cache_graph_slot *b) {
  return strcmp(a->name, b->name) == 0 && a->node == b->node && a->param == b->param &&
         a->offset_bytes == b->offset_bytes && a->size_bytes == b->size_bytes;
}

static bool same_form(const stg_cache_graph *a, const stg_cache_graph *b) {
  bool same = a->n_nodes == b->n_nodes && a->n_edges == b->n_edges && a->n_slots == b->n_slots;
  for (size_t i = 0; i < a->n_nodes && same; i++) {
    same = same_node(&a->nodes[i], &b->nodes[i]);
  }
  for (size_t i = 0; i < a->n_edges && same; i++) {
    same = a->edges[i].from == b->edges[i].from && a->edges[i].to == b->edges[i].to;
  }
  for (size_t i = 0; i < a->n_slots && same; i++) {
    same = same_slot(&a->slots[i], &b->slots[i]);
  }
  return same;
}

/* The sizes of all graphs of the form of number `first`. */
static void print_sizes(const struct stg_cache_page *page, size_t first, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<div class=\"wide\"><table class=\"small\"><caption>At most</caption>"
                      "<thead><tr><th>graph</th><th class=\"n\">rows</th>"
                      "<th class=\"n\">requests</th><th class=\"n\">rows of one</th></tr></thead>"
                      "<tbody>\n");
  for (size_t i = first; i < page->n_graphs; i++) {
    const stg_cache_graph *graph = &page->graphs[i];
    if (same_form(&page->graphs[first], graph)) {
      stg_strbuf_printf(out, "<tr><td><code>%.12s</code></td><td class=\"n\">%" PRId64 "</td>",
                        graph->key, graph->rows);
      stg_strbuf_printf(out,
                        "<td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td></tr>",
                        graph->batch, graph->seq);
      stg_strbuf_char(out, '\n');
    }
  }
  stg_strbuf_str(out, "</tbody></table></div>\n");
}

/* Whether a graph before it has the form of number `index`: then it is drawn there. */
static bool is_drawn(const struct stg_cache_page *page, size_t index) {
  for (size_t i = 0; i < index; i++) {
    if (same_form(&page->graphs[i], &page->graphs[index])) {
      return true;
    }
  }
  return false;
}

/* A kernel alone is a graph of one node. */
static void draw_alone(const struct stg_cache_page *page, const stg_cache_entry *entry,
                       struct stg_strbuf *out) {
  stg_cache_graph_node node = {.kernel = entry->kernel,
                               .threads = entry->threads,
                               .rows_per_block = entry->rows_per_block,
                               .stage_bytes = entry->stage_bytes,
                               .wide_stage_bytes = entry->wide_stage_bytes};
  stg_cache_graph graph = {.nodes = &node, .n_nodes = 1};
  memcpy(node.key, entry->key, sizeof node.key);
  stg_strbuf_str(out, "<div class=\"form\">");
  draw(page, &graph, out);
  stg_strbuf_str(out, "</div><p class=\"note\">No recipe of a graph with it is in this cache; this "
                      "is a launch of it alone.</p>\n");
}

void stg_page_graphs(const struct stg_cache_page *page, const stg_cache_entry *entry,
                     struct stg_strbuf *out) {
  bool any = false;
  for (size_t i = 0; i < page->n_graphs; i++) {
    const stg_cache_graph *graph = &page->graphs[i];
    if (!has_node(graph, entry->key)) {
      continue;
    }
    any = true;
    if (!is_drawn(page, i)) {
      stg_strbuf_str(out, "<div class=\"form\">");
      draw(page, graph, out);
      print_sizes(page, i, out);
      print_slots(graph, out);
      stg_strbuf_str(out, "</div>\n");
    }
  }
  if (!any) {
    draw_alone(page, entry, out);
  }
}
