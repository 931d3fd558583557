/*
 * recipe_body.c: the body of a graph's recipe, written and read.
 *
 * The reader takes what it needs by name and then writes it again: whatever is missing, repeated,
 * unknown, in another order or written in another way gives other bytes. Must not know files.
 */
#include "runtime/recipe_body.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/json_scan.h"

static void write_node(const struct stg_recipe_node *node, struct stg_strbuf *json) {
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(node->key, hex);
  stg_strbuf_printf(json, "{\"kind\":\"kernel\",\"key\":\"%s\",\"kernel\":", hex);
  stg_strbuf_json(json, node->kernel);
  stg_strbuf_printf(json,
                    ",\"threads\":%u,\"rows_per_block\":%u,\"stage_bytes\":%u,"
                    "\"wide_stage_bytes\":%u,\"params\":[",
                    node->threads, node->rows_per_block, node->stage_bytes, node->wide_stage_bytes);
  for (size_t i = 0; i < node->n_params; i++) {
    stg_strbuf_printf(json, "%s{\"ordinal\":%u,\"offset\":%u,\"bytes\":%u}", i > 0 ? "," : "",
                      node->params[i].ordinal, node->params[i].offset, node->params[i].bytes);
  }
  stg_strbuf_str(json, "]}");
}

static void write_slot(const struct stg_recipe_slot *slot, struct stg_strbuf *json) {
  stg_strbuf_printf(json,
                    "{\"node\":%u,\"param\":%u,\"offset\":%u,\"bytes\":%u,\"name\":", slot->node,
                    slot->param, slot->offset, slot->bytes);
  stg_strbuf_json(json, slot->name);
  stg_strbuf_char(json, '}');
}

void stg_recipe_body_write(const struct stg_recipe *recipe, struct stg_strbuf *ret_json) {
  stg_strbuf_str(ret_json, "{\"signature\":");
  stg_strbuf_json(ret_json, recipe->signature);
  stg_strbuf_str(ret_json, ",\"arch\":");
  stg_strbuf_json(ret_json, recipe->arch);
  stg_strbuf_str(ret_json, ",\"creator\":");
  stg_strbuf_json(ret_json, recipe->creator);
  stg_strbuf_printf(ret_json, ",\"created\":%lld,\"batch\":%lld,\"seq\":%lld,\"rows\":%lld",
                    (long long)recipe->created_unix, (long long)recipe->batch,
                    (long long)recipe->seq, (long long)recipe->rows);
  stg_strbuf_str(ret_json, ",\"nodes\":[");
  for (size_t i = 0; i < recipe->n_nodes; i++) {
    stg_strbuf_str(ret_json, i > 0 ? "," : "");
    write_node(&recipe->nodes[i], ret_json);
  }
  stg_strbuf_str(ret_json, "],\"edges\":[");
  for (size_t i = 0; i < recipe->n_edges; i++) {
    stg_strbuf_printf(ret_json, "%s[%u,%u]", i > 0 ? "," : "", recipe->edges[i].from,
                      recipe->edges[i].to);
  }
  stg_strbuf_str(ret_json, "],\"slots\":[");
  for (size_t i = 0; i < recipe->n_slots; i++) {
    stg_strbuf_str(ret_json, i > 0 ? "," : "");
    write_slot(&recipe->slots[i], ret_json);
  }
  stg_strbuf_str(ret_json, "]}");
}

/* What is read goes to the arena; the first member that is not as it should be is kept. */
struct reader {
  struct stg_arena *arena;
  const char *wrong;
};

static void fail(struct reader *reader, const char *member) {
  reader->wrong = reader->wrong != NULL ? reader->wrong : member;
}

static int64_t whole_of(struct reader *reader, const cJSON *item, const char *member, double max) {
  if (item == NULL || !cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) ||
      item->valuedouble > max || item->valuedouble != floor(item->valuedouble)) {
    fail(reader, member);
    return 0;
  }
  return (int64_t)item->valuedouble;
}

static int64_t read_whole(struct reader *reader, const cJSON *object, const char *member) {
  return whole_of(reader, cJSON_GetObjectItemCaseSensitive(object, member), member,
                  (double)STG_RECIPE_MAX_NUMBER);
}

static uint32_t read_u32(struct reader *reader, const cJSON *object, const char *member) {
  return (uint32_t)whole_of(reader, cJSON_GetObjectItemCaseSensitive(object, member), member,
                            (double)UINT32_MAX);
}

static const char *read_text(struct reader *reader, const cJSON *object, const char *member) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
  if (!cJSON_IsString(item)) {
    fail(reader, member);
    return "";
  }
  const char *text = stg_arena_strdup(reader->arena, item->valuestring);
  return text != NULL ? text : "";
}

/* A list of at most `max` things of `size` bytes; NULL when there is none, or no memory. */
static void *read_list(struct reader *reader, const cJSON *object, const char *member, size_t size,
                       size_t max, const cJSON **ret_list) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, member);
  const int count = cJSON_GetArraySize(list);
  *ret_list = NULL;
  if (!cJSON_IsArray(list) || count < 0 || (size_t)count > max) {
    fail(reader, member);
    return NULL;
  }
  void *items = stg_arena_alloc(reader->arena, (size_t)count + 1, size);
  *ret_list = items != NULL ? list : NULL;
  return items;
}

static void read_params(struct reader *reader, const cJSON *object, struct stg_recipe_node *node) {
  const cJSON *list = NULL;
  struct stg_recipe_param *params =
      read_list(reader, object, "params", sizeof *params, STG_RECIPE_MAX_PARAMS, &list);
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, list) {
    params[node->n_params++] =
        (struct stg_recipe_param){.ordinal = read_u32(reader, item, "ordinal"),
                                  .offset = read_u32(reader, item, "offset"),
                                  .bytes = read_u32(reader, item, "bytes")};
  }
  node->params = params;
}

static void read_nodes(struct reader *reader, const cJSON *root, struct stg_recipe *recipe) {
  const cJSON *list = NULL;
  struct stg_recipe_node *nodes =
      read_list(reader, root, "nodes", sizeof *nodes, STG_RECIPE_MAX_NODES, &list);
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, list) {
    struct stg_recipe_node *node = &nodes[recipe->n_nodes++];
    *node = (struct stg_recipe_node){
        .kernel = read_text(reader, item, "kernel"),
        .threads = read_u32(reader, item, "threads"),
        .rows_per_block = read_u32(reader, item, "rows_per_block"),
        .stage_bytes = read_u32(reader, item, "stage_bytes"),
        .wide_stage_bytes = read_u32(reader, item, "wide_stage_bytes"),
    };
    if (!stg_key_parse(read_text(reader, item, "key"), &node->key)) {
      fail(reader, "key");
    }
    read_params(reader, item, node);
  }
  recipe->nodes = nodes;
}

static void read_edges(struct reader *reader, const cJSON *root, struct stg_recipe *recipe) {
  const cJSON *list = NULL;
  struct stg_recipe_edge *edges =
      read_list(reader, root, "edges", sizeof *edges, STG_RECIPE_MAX_EDGES, &list);
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, list) {
    const cJSON *from = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *to = from != NULL ? from->next : NULL;
    edges[recipe->n_edges++] = (struct stg_recipe_edge){
        .from = (uint32_t)whole_of(reader, from, "edges", STG_RECIPE_MAX_NODES),
        .to = (uint32_t)whole_of(reader, to, "edges", STG_RECIPE_MAX_NODES)};
  }
  recipe->edges = edges;
}

static void read_slots(struct reader *reader, const cJSON *root, struct stg_recipe *recipe) {
  const cJSON *list = NULL;
  struct stg_recipe_slot *slots =
      read_list(reader, root, "slots", sizeof *slots, STG_RECIPE_MAX_EDGES, &list);
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, list) {
    slots[recipe->n_slots++] = (struct stg_recipe_slot){.node = read_u32(reader, item, "node"),
                                                        .param = read_u32(reader, item, "param"),
                                                        .offset = read_u32(reader, item, "offset"),
                                                        .bytes = read_u32(reader, item, "bytes"),
                                                        .name = read_text(reader, item, "name")};
  }
  recipe->slots = slots;
}

static stg_status read_members(const cJSON *root, struct stg_arena *arena,
                               struct stg_recipe *recipe, stg_error *reterr) {
  struct reader reader = {.arena = arena};
  *recipe = (struct stg_recipe){
      .signature = read_text(&reader, root, "signature"),
      .arch = read_text(&reader, root, "arch"),
      .creator = read_text(&reader, root, "creator"),
      .created_unix = read_whole(&reader, root, "created"),
      .batch = read_whole(&reader, root, "batch"),
      .seq = read_whole(&reader, root, "seq"),
      .rows = read_whole(&reader, root, "rows"),
  };
  read_nodes(&reader, root, recipe);
  read_edges(&reader, root, recipe);
  read_slots(&reader, root, recipe);
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK && reader.wrong != NULL) {
    status = stg_error_set(reterr, STG_E_CORRUPT,
                           "member '%s' of the body is missing, of another type or out of range",
                           reader.wrong);
  }
  return status;
}

static stg_status check_again(const struct stg_recipe *recipe, const char *json, size_t size,
                              stg_error *reterr) {
  struct stg_strbuf again = {0};
  stg_recipe_body_write(recipe, &again);
  stg_status status = stg_strbuf_status(&again, reterr);
  if (status == STG_OK && (again.len != size || memcmp(again.data, json, size) != 0)) {
    status = stg_error_set(reterr, STG_E_CORRUPT,
                           "the body is not written as a recipe's: members too many or in another "
                           "order");
  }
  stg_strbuf_finish(&again);
  return status;
}

stg_status stg_recipe_body_read(const char *json, size_t size, struct stg_arena *arena,
                                struct stg_recipe *ret_recipe, stg_error *reterr) {
  const char *end = NULL;
  struct stg_recipe recipe = {0};
  stg_status status = STG_OK;
  cJSON *root = cJSON_ParseWithLengthOpts(json, size, &end, false);
  if (root == NULL && stg_json_scan("", json, size, NULL) == STG_OK) {
    status = stg_error_memory(reterr, "the body of a recipe", size);
  } else if (root == NULL) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "the body is not JSON at byte %zu",
                           end == NULL ? 0 : (size_t)(end - json));
  } else {
    status = read_members(root, arena, &recipe, reterr);
  }
  cJSON_Delete(root);
  if (status == STG_OK) {
    status = check_again(&recipe, json, size, reterr);
  }
  if (status == STG_OK) {
    *ret_recipe = recipe;
  }
  return status;
}
