/*
 * recipe_nodes.h: the recipe of a graph: its kernels one after the other, each of whichever family,
 * and the arguments that each launch sets.
 */
#ifndef STG_ENGINE_RECIPE_NODES_H
#define STG_ENGINE_RECIPE_NODES_H

#include "engine/family.h"

/* One kernel of a graph. */
struct stg_graph_node {
  const struct stg_family *family;
  const char *kernel; /* name of the entry point */
  struct stg_key key;
  struct stg_launch_rule rule;
};

/* What a graph is made of; text is borrowed. */
struct stg_graph_nodes {
  struct stg_graph_node nodes[STG_PLAN_MAX_PARTS];
  unsigned count;
  struct stg_graph_shape shape;
  const char *signature; /* kernel text | architecture | graph shape */
  const char *arch;
};

#define STG_MAX_ARGS_SLOTS (STG_MAX_ARGS_BYTES / 4)

/* A recipe with its lists, into which it points. */
struct stg_graph_recipe {
  struct stg_recipe recipe;
  struct stg_recipe_node nodes[STG_PLAN_MAX_PARTS];
  struct stg_recipe_param params[STG_PLAN_MAX_PARTS];
  struct stg_recipe_edge edges[STG_PLAN_MAX_PARTS];
  struct stg_recipe_slot slots[STG_PLAN_MAX_PARTS * STG_MAX_ARGS_SLOTS];
};

/** Fill in a recipe; borrows the graph's text, and is not to be moved. */
void stg_graph_recipe_init(const struct stg_graph_nodes *graph, struct stg_graph_recipe *ret);

#endif
