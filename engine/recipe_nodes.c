/*
 * recipe_nodes.c: see recipe_nodes.h. What a launch sets of a kernel's arguments, its family lists.
 */
#include "engine/recipe_nodes.h"

#include <assert.h>

static void add_slots(const struct stg_args_form *form, uint32_t node, struct stg_graph_recipe *ret,
                      size_t *count) {
  assert(form->bytes <= STG_MAX_ARGS_BYTES && form->n_slots <= STG_MAX_ARGS_SLOTS);
  for (size_t i = 0; i < form->n_slots; i++) {
    struct stg_recipe_slot *slot = &ret->slots[(*count)++];
    *slot = form->slots[i];
    slot->node = node;
  }
}

void stg_graph_recipe_init(const struct stg_graph_nodes *graph, struct stg_graph_recipe *ret) {
  size_t n_slots = 0;
  for (unsigned i = 0; i < graph->count; i++) {
    const struct stg_graph_node *node = &graph->nodes[i];
    const struct stg_args_form form = node->family->args_of(node->kernel);
    ret->params[i] = (struct stg_recipe_param){0, 0, (uint32_t)form.bytes};
    ret->nodes[i] = (struct stg_recipe_node){
        .key = node->key,
        .kernel = node->kernel,
        .threads = node->rule.threads,
        .rows_per_block = node->rule.rows_per_block,
        .stage_bytes = node->rule.stage_bytes,
        .wide_stage_bytes = node->rule.wide_stage_bytes,
        .params = &ret->params[i],
        .n_params = 1,
    };
    ret->edges[i] = (struct stg_recipe_edge){i, i + 1};
    add_slots(&form, i, ret, &n_slots);
  }
  ret->recipe = (struct stg_recipe){
      .signature = graph->signature,
      .arch = graph->arch,
      .batch = graph->shape.batch,
      .seq = graph->shape.seq,
      .rows = graph->shape.rows,
      .nodes = ret->nodes,
      .n_nodes = graph->count,
      .edges = ret->edges,
      .n_edges = graph->count - 1,
      .slots = ret->slots,
      .n_slots = n_slots,
  };
}
