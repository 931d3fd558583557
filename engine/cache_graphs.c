/*
 * cache_graphs.c: recipes of graphs as the inspector of a cache sees them: listed when the cache is
 * opened, read and verified when they are asked for. Must not know how a recipe is laid out.
 */
#include "engine/cache_graphs.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/intmath.h"
#include "runtime/disk_recipe.h"

#define MIN_PREFIX_CHARS 4

/* A recipe. `graph` is filled when it was read, whether it is good or not. */
struct item {
  const char *path;
  uint64_t size_bytes;
  int64_t mtime_unix;
  bool is_read;
  stg_cache_graph graph;
  struct stg_arena arena; /* what the graph borrows */
};

struct stg_cache_graphs {
  struct stg_arena arena; /* paths */
  struct item *items;
  size_t count, capacity;
};

/* A listing on its way. */
struct listing {
  struct stg_cache_graphs *graphs;
  struct stg_left_outs *left_out;
  struct stg_arena *arena;
};

static stg_status add_item(void *user, const struct stg_disk_item *found, stg_error *reterr) {
  const struct listing *listing = user;
  struct stg_cache_graphs *graphs = listing->graphs;
  if (found->problem != NULL) {
    return stg_left_outs_add(listing->left_out, listing->arena, found, reterr);
  }
  if (graphs->count == graphs->capacity) {
    const size_t capacity = graphs->capacity == 0 ? 64 : 2 * graphs->capacity;
    size_t bytes = 0;
    struct item *items =
        stg_mul_size(capacity, sizeof *items, &bytes) ? stg_realloc(graphs->items, bytes) : NULL;
    if (items == NULL) {
      return stg_error_memory(reterr, "a list of recipes", bytes);
    }
    graphs->items = items;
    graphs->capacity = capacity;
  }
  graphs->items[graphs->count++] =
      (struct item){.path = stg_arena_strdup(&graphs->arena, found->path),
                    .size_bytes = found->size_bytes,
                    .mtime_unix = found->mtime_unix};
  return stg_arena_status(&graphs->arena, reterr);
}

stg_status stg_cache_graphs_open(const struct stg_disk_cache *disk, struct stg_left_outs *left_out,
                                 struct stg_arena *arena, struct stg_cache_graphs **ret_graphs,
                                 stg_error *reterr) {
  struct stg_cache_graphs *graphs = stg_calloc(1, sizeof *graphs);
  if (graphs == NULL) {
    return stg_error_memory(reterr, "a list of recipes", sizeof *graphs);
  }
  struct listing listing = {graphs, left_out, arena};
  stg_status status = stg_disk_recipe_walk(disk, add_item, &listing, reterr);
  if (status != STG_OK) {
    stg_cache_graphs_close(graphs);
    return status;
  }
  *ret_graphs = graphs;
  return STG_OK;
}

static void drop(struct item *item) {
  stg_arena_finish(&item->arena);
  item->is_read = false;
}

void stg_cache_graphs_close(struct stg_cache_graphs *graphs) {
  if (graphs == NULL) {
    return;
  }
  for (size_t i = 0; i < graphs->count; i++) {
    drop(&graphs->items[i]);
  }
  stg_free(graphs->items);
  stg_arena_finish(&graphs->arena);
  stg_free(graphs);
}

static const stg_cache_param *copy_params(const struct stg_recipe_node *node,
                                          struct stg_arena *arena) {
  stg_cache_param *params = stg_arena_alloc(arena, node->n_params + 1, sizeof *params);
  for (size_t i = 0; i < node->n_params && params != NULL; i++) {
    params[i] = (stg_cache_param){.ordinal = node->params[i].ordinal,
                                  .offset_bytes = node->params[i].offset,
                                  .size_bytes = node->params[i].bytes};
  }
  return params;
}

/* The recipe's lists as the public header has them; false when out of memory. */
static bool copy_lists(const struct stg_recipe *recipe, struct stg_arena *arena,
                       stg_cache_graph *graph) {
  stg_cache_graph_node *nodes = stg_arena_alloc(arena, recipe->n_nodes + 1, sizeof *nodes);
  stg_cache_graph_edge *edges = stg_arena_alloc(arena, recipe->n_edges + 1, sizeof *edges);
  stg_cache_graph_slot *slots = stg_arena_alloc(arena, recipe->n_slots + 1, sizeof *slots);
  if (nodes == NULL || edges == NULL || slots == NULL) {
    return false;
  }
  for (size_t i = 0; i < recipe->n_nodes; i++) {
    const struct stg_recipe_node *node = &recipe->nodes[i];
    nodes[i] = (stg_cache_graph_node){.kernel = node->kernel,
                                      .threads = node->threads,
                                      .rows_per_block = node->rows_per_block,
                                      .stage_bytes = node->stage_bytes,
                                      .wide_stage_bytes = node->wide_stage_bytes,
                                      .params = copy_params(node, arena),
                                      .n_params = node->n_params};
    stg_key_hex(node->key, nodes[i].key);
  }
  for (size_t i = 0; i < recipe->n_edges; i++) {
    edges[i] = (stg_cache_graph_edge){recipe->edges[i].from, recipe->edges[i].to};
  }
  for (size_t i = 0; i < recipe->n_slots; i++) {
    const struct stg_recipe_slot *slot = &recipe->slots[i];
    slots[i] = (stg_cache_graph_slot){.name = slot->name,
                                      .node = slot->node,
                                      .param = slot->param,
                                      .offset_bytes = slot->offset,
                                      .size_bytes = slot->bytes};
  }
  graph->nodes = nodes;
  graph->n_nodes = recipe->n_nodes;
  graph->edges = edges;
  graph->n_edges = recipe->n_edges;
  graph->slots = slots;
  graph->n_slots = recipe->n_slots;
  return true;
}

/* A bad recipe is a fact about it, not a failure. */
static stg_status read_item(struct item *item, stg_error *reterr) {
  struct stg_recipe recipe = {0};
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_disk_recipe_read(item->path, &item->arena, &recipe, &error);
  item->graph = (stg_cache_graph){.path = item->path,
                                  .ok = status == STG_OK,
                                  .other_format = status == STG_E_UNSUPPORTED,
                                  .size_bytes = item->size_bytes,
                                  .used_unix = item->mtime_unix};
  if (status == STG_OK) {
    stg_key_hex(recipe.key, item->graph.key);
    item->graph.signature = recipe.signature;
    item->graph.arch = recipe.arch;
    item->graph.creator = recipe.creator;
    item->graph.created_unix = recipe.created_unix;
    item->graph.batch = recipe.batch;
    item->graph.seq = recipe.seq;
    item->graph.rows = recipe.rows;
    (void)copy_lists(&recipe, &item->arena, &item->graph);
  } else {
    item->graph.problem = stg_arena_strdup(&item->arena, error.message);
  }
  status = status == STG_E_NO_MEMORY ? stg_error_set(reterr, status, "%s", error.message)
                                     : stg_arena_status(&item->arena, reterr);
  item->is_read = status == STG_OK;
  if (status != STG_OK) {
    drop(item);
  }
  return status;
}

size_t stg_cache_graph_count(const stg_cache *cache) {
  return cache == NULL ? 0 : stg_cache_graphs_of(cache)->count;
}

stg_status stg_cache_graph_get(stg_cache *cache, size_t index, stg_cache_graph *ret_graph,
                               stg_error *reterr) {
  if (cache == NULL || ret_graph == NULL || index >= stg_cache_graph_count(cache)) {
    return stg_error_set(reterr, STG_E_INVALID, "no graph %zu, the cache has %zu", index,
                         stg_cache_graph_count(cache));
  }
  struct item *item = &stg_cache_graphs_of(cache)->items[index];
  stg_status status = item->is_read ? STG_OK : read_item(item, reterr);
  if (status == STG_OK) {
    *ret_graph = item->graph;
  }
  return status;
}

void stg_cache_graph_forget(stg_cache *cache, size_t index) {
  if (index < stg_cache_graph_count(cache)) {
    drop(&stg_cache_graphs_of(cache)->items[index]);
  }
}

stg_status stg_cache_graph_find(stg_cache *cache, const char *key_prefix,
                                stg_cache_graph *ret_graph, stg_error *reterr) {
  if (cache == NULL || key_prefix == NULL || ret_graph == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache or no key is given");
  }
  const struct stg_cache_graphs *graphs = stg_cache_graphs_of(cache);
  const size_t len = strlen(key_prefix);
  if (len < MIN_PREFIX_CHARS || strspn(key_prefix, "0123456789abcdef") != len) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "key '%.64s' is not %d lower-case hex digits or more", key_prefix,
                         MIN_PREFIX_CHARS);
  }
  size_t best = graphs->count;
  for (size_t i = 0; i < graphs->count; i++) {
    const char *name = stg_path_name(graphs->items[i].path);
    if (strncmp(name, key_prefix, len) != 0) {
      continue;
    }
    const char *other = best < graphs->count ? stg_path_name(graphs->items[best].path) : name;
    if (strncmp(name, other, STG_KEY_HEX_CHARS) != 0) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "key '%.64s' is ambiguous: '%.*s' and '%.*s' begin so, give more digits",
                           key_prefix, STG_KEY_HEX_CHARS, other, STG_KEY_HEX_CHARS, name);
    }
    best = i; /* one of two layers: the later path, they say the same */
  }
  if (best == graphs->count) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "no graph of %zu has a key that begins '%.64s'",
                         graphs->count, key_prefix);
  }
  return stg_cache_graph_get(cache, best, ret_graph, reterr);
}
