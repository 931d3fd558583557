/*
 * recipe_steer.h: the recipe of a graph of the steer family: one kernel, one parameter, and the
 * arguments in it that each launch sets.
 */
#ifndef STG_ENGINE_RECIPE_STEER_H
#define STG_ENGINE_RECIPE_STEER_H

#include "codegen/steer.h"
#include "engine/signature.h"
#include "runtime/recipe.h"

/* What a graph is made of; text is borrowed. */
struct stg_steer_graph {
  struct stg_key kernel_key;
  struct stg_launch_rule rule;
  struct stg_graph_shape shape;
  const char *signature; /* kernel text | architecture | graph shape */
  const char *arch;
};

/** Fill `*ret_recipe`, whose one node is `*ret_node`. Borrows both and the graph's text. */
void stg_steer_recipe(const struct stg_steer_graph *graph, struct stg_recipe_node *ret_node,
                      struct stg_recipe *ret_recipe);

#endif
