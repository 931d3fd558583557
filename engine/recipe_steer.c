/*
 * recipe_steer.c: see recipe_steer.h. A test holds the table against struct stg_steer_args.
 */
#include "engine/recipe_steer.h"

#include <stddef.h>

static const struct stg_recipe_param params[] = {{0, 0, sizeof(struct stg_steer_args)}};

#define SLOT(field)                                                                                \
  {                                                                                                \
    .offset = offsetof(struct stg_steer_args, field),                                              \
    .bytes = sizeof(((struct stg_steer_args *)NULL)->field), .name = #field                        \
  }
/* In the order of their offsets. */
static const struct stg_recipe_slot slots[] = {
    SLOT(hidden),  SLOT(out),         SLOT(residual),       SLOT(row_map),     SLOT(table),
    SLOT(records), SLOT(bank),        SLOT(report),         SLOT(weight),      SLOT(row_stride),
    SLOT(rows),    SLOT(slots),       SLOT(layer),          SLOT(chain_words), SLOT(flags),
    SLOT(epsilon), SLOT(stage_words), SLOT(staged_vectors), SLOT(probes),      SLOT(probe_stride),
    SLOT(counts),  SLOT(layers),
};
#undef SLOT

void stg_steer_recipe(const struct stg_steer_graph *graph, struct stg_recipe_node *ret_node,
                      struct stg_recipe *ret_recipe) {
  *ret_node = (struct stg_recipe_node){
      .key = graph->kernel_key,
      .kernel = STG_STEER_KERNEL_NAME,
      .threads = graph->rule.threads,
      .rows_per_block = graph->rule.rows_per_block,
      .stage_bytes = graph->rule.stage_bytes,
      .wide_stage_bytes = graph->rule.wide_stage_bytes,
      .params = params,
      .n_params = sizeof params / sizeof params[0],
  };
  *ret_recipe = (struct stg_recipe){
      .signature = graph->signature,
      .arch = graph->arch,
      .batch = graph->shape.batch,
      .seq = graph->shape.seq,
      .rows = graph->shape.rows,
      .nodes = ret_node,
      .n_nodes = 1,
      .slots = slots,
      .n_slots = sizeof slots / sizeof slots[0],
  };
}
