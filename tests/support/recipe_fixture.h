/*
 * recipe_fixture.h: the recipe of a graph of two kernels, for tests of recipes and of folders.
 */
#ifndef STG_TESTS_SUPPORT_RECIPE_FIXTURE_H
#define STG_TESTS_SUPPORT_RECIPE_FIXTURE_H

#include "runtime/recipe.h"

static const struct stg_recipe_param fixture_recipe_params[] = {{0, 0, 16}, {1, 16, 8}};

static const struct stg_recipe_node fixture_recipe_nodes[] = {
    {.key = {0x455acebd18ab0001, 0x0123456789abcdef},
     .kernel = "stg_steer",
     .threads = 128,
     .rows_per_block = 8,
     .stage_bytes = 2048,
     .wide_stage_bytes = 8192,
     .params = fixture_recipe_params,
     .n_params = 2},
    {.key = {0xfedcba9876543210, 0xfedcba9876543210},
     .kernel = "after",
     .threads = 1024,
     .rows_per_block = 1},
};

static const struct stg_recipe_edge fixture_recipe_edges[] = {{0, 1}};

static const struct stg_recipe_slot fixture_recipe_slots[] = {
    {.node = 0, .param = 0, .offset = 0, .bytes = 8, .name = "hidden"},
    {.node = 0, .param = 1, .offset = 4, .bytes = 4, .name = "rows"},
};

/** Made at a fixed time; change what the test is about. */
static inline struct stg_recipe fixture_recipe(void) {
  return (struct stg_recipe){
      .signature = "steer v1 | ops=add chain<=16 | \"h\" | sm_90 | batch<=32 seq<=64 rows<=2048",
      .arch = "sm_90",
      .created_unix = 1700000000,
      .batch = 32,
      .seq = 64,
      .rows = 2048,
      .nodes = fixture_recipe_nodes,
      .n_nodes = 2,
      .edges = fixture_recipe_edges,
      .n_edges = 1,
      .slots = fixture_recipe_slots,
      .n_slots = 2,
  };
}

#endif
