/*
 * recipe.c: a graph's recipe as bytes: a fixed header, the key text, the body, a checksum.
 *
 * Everything read back is checked against everything else, as for an entry. Must not know files or
 * folders, nor what a kernel is for.
 */
#include "runtime/recipe.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <steergraph/version.h>

#include "runtime/base/bytes.h"
#include "runtime/cubin.h"
#include "runtime/recipe_body.h"

#define MAX_THREADS 1024
/* Whatever its key text is as long as. */
#define MAX_BODY_BYTES                                                                             \
  (STG_RECIPE_MAX_BYTES - STG_RECIPE_HEADER_BYTES - STG_RECIPE_KEY_TEXT_CHARS -                    \
   STG_RECIPE_FOOTER_BYTES)

unsigned stg_recipe_format(size_t n_nodes) {
  return n_nodes == 1 ? 1 : STG_RECIPE_FORMAT;
}

struct stg_key stg_recipe_fold_key(struct stg_key before, struct stg_key next) {
  unsigned char bytes[2 * STG_KEY_BYTES];
  stg_key_store(before, bytes);
  stg_key_store(next, bytes + STG_KEY_BYTES);
  return stg_key_of(bytes, sizeof bytes);
}

size_t stg_recipe_key_text(struct stg_key kernels, int64_t batch, int64_t seq, int64_t rows,
                           char ret_text[STG_RECIPE_KEY_TEXT_CHARS]) {
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(kernels, hex);
  const int len =
      snprintf(ret_text, STG_RECIPE_KEY_TEXT_CHARS, "kernel=%s batch<=%lld seq<=%lld rows<=%lld",
               hex, (long long)batch, (long long)seq, (long long)rows);
  return (size_t)len;
}

size_t stg_recipe_text(const struct stg_recipe *recipe, char ret_text[STG_RECIPE_KEY_TEXT_CHARS]) {
  struct stg_key kernels = recipe->nodes[0].key;
  for (size_t i = 1; i < recipe->n_nodes; i++) {
    kernels = stg_recipe_fold_key(kernels, recipe->nodes[i].key);
  }
  return stg_recipe_key_text(kernels, recipe->batch, recipe->seq, recipe->rows, ret_text);
}

struct stg_key stg_recipe_key(const struct stg_recipe *recipe) {
  char text[STG_RECIPE_KEY_TEXT_CHARS];
  const size_t len = stg_recipe_text(recipe, text);
  return stg_key_of(text, len);
}

static stg_status refuse(stg_error *reterr, const char *what, size_t index) {
  return stg_error_set(reterr, STG_E_CORRUPT, "%s %zu of the recipe is impossible", what, index);
}

static bool is_extent(int64_t value) {
  return value >= 1 && value <= STG_RECIPE_MAX_NUMBER;
}

static bool is_node(const struct stg_recipe_node *node) {
  uint64_t end = 0;
  bool good = node->kernel[0] != '\0' && node->threads > 0 && node->threads <= MAX_THREADS &&
              node->rows_per_block > 0 && node->n_params <= STG_RECIPE_MAX_PARAMS;
  for (size_t i = 0; i < node->n_params && good; i++) {
    const struct stg_recipe_param *param = &node->params[i];
    good = param->ordinal == i && param->bytes > 0 && param->offset >= end;
    end = (uint64_t)param->offset + param->bytes;
  }
  return good;
}

static bool is_slot(const struct stg_recipe *recipe, const struct stg_recipe_slot *slot) {
  if (slot->node >= recipe->n_nodes || slot->param >= recipe->nodes[slot->node].n_params ||
      slot->name[0] == '\0' || slot->bytes == 0) {
    return false;
  }
  const struct stg_recipe_param *param = &recipe->nodes[slot->node].params[slot->param];
  return (uint64_t)slot->offset + slot->bytes <= param->bytes;
}

/* Whether the first `*len` characters of a text end so; they are taken away then. */
static bool take_end(const char *text, size_t *len, const char *end) {
  const size_t end_len = strlen(end);
  if (*len < end_len || memcmp(text + *len - end_len, end, end_len) != 0) {
    return false;
  }
  *len -= end_len;
  return true;
}

/* The signature ends with the architecture and the shape. */
static bool is_signed(const struct stg_recipe *recipe) {
  char shape[STG_RECIPE_KEY_TEXT_CHARS];
  size_t len = strlen(recipe->signature);
  snprintf(shape, sizeof shape, " | batch<=%lld seq<=%lld rows<=%lld", (long long)recipe->batch,
           (long long)recipe->seq, (long long)recipe->rows);
  return take_end(recipe->signature, &len, shape) &&
         take_end(recipe->signature, &len, recipe->arch) &&
         take_end(recipe->signature, &len, " | ") && len > 0;
}

static stg_status check_meaning(const struct stg_recipe *recipe, stg_error *reterr) {
  uint32_t sm = 0;
  if (recipe->n_nodes == 0 || recipe->n_nodes > STG_RECIPE_MAX_NODES ||
      recipe->n_edges > STG_RECIPE_MAX_EDGES || recipe->n_slots > STG_RECIPE_MAX_EDGES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "a graph of %zu nodes, %zu edges and %zu slots",
                         recipe->n_nodes, recipe->n_edges, recipe->n_slots);
  }
  if (recipe->created_unix < 0 || recipe->created_unix > STG_RECIPE_MAX_NUMBER) {
    return stg_error_set(reterr, STG_E_CORRUPT, "a graph made %lld s after 1970",
                         (long long)recipe->created_unix);
  }
  if (!is_extent(recipe->batch) || !is_extent(recipe->seq) || !is_extent(recipe->rows)) {
    return stg_error_set(reterr, STG_E_CORRUPT, "a graph of batch %lld, seq %lld, rows %lld",
                         (long long)recipe->batch, (long long)recipe->seq, (long long)recipe->rows);
  }
  if (!stg_arch_parse(recipe->arch, &sm) || !is_signed(recipe)) {
    return stg_error_set(reterr, STG_E_CORRUPT,
                         "the signature does not end with architecture '%.32s' and the shape",
                         recipe->arch);
  }
  for (size_t i = 0; i < recipe->n_nodes; i++) {
    if (!is_node(&recipe->nodes[i])) {
      return refuse(reterr, "node", i);
    }
  }
  for (size_t i = 0; i < recipe->n_edges; i++) {
    const struct stg_recipe_edge *edge = &recipe->edges[i];
    if (edge->from >= edge->to || edge->to >= recipe->n_nodes) {
      return refuse(reterr, "edge", i); /* forward alone, so that there is no way round */
    }
  }
  for (size_t i = 0; i < recipe->n_slots; i++) {
    if (!is_slot(recipe, &recipe->slots[i])) {
      return refuse(reterr, "slot", i);
    }
  }
  return STG_OK;
}

static void assemble(const struct stg_recipe *recipe, const struct stg_strbuf *body,
                     struct stg_strbuf *out) {
  char text[STG_RECIPE_KEY_TEXT_CHARS];
  unsigned char bytes[STG_KEY_BYTES];
  const size_t begin = out->len;
  const size_t text_len = stg_recipe_text(recipe, text);
  stg_strbuf_str(out, STG_RECIPE_MAGIC);
  stg_le_append(out, stg_recipe_format(recipe->n_nodes), 4);
  stg_le_append(out, 0, 4);
  stg_key_store(stg_key_of(text, text_len), bytes);
  stg_strbuf_mem(out, bytes, sizeof bytes);
  stg_le_append(out, text_len, 8);
  stg_le_append(out, body->len, 8);
  stg_strbuf_mem(out, text, text_len);
  stg_strbuf_mem(out, body->data, body->len);
  if (!out->failed) {
    stg_key_store(stg_key_of(out->data + begin, out->len - begin), bytes);
    stg_strbuf_mem(out, bytes, sizeof bytes);
  }
}

stg_status stg_recipe_encode(const struct stg_recipe *recipe, struct stg_strbuf *ret_bytes,
                             stg_error *reterr) {
  struct stg_strbuf body = {0};
  struct stg_recipe stamped = *recipe;
  stg_error error = STG_ERROR_INIT;
  stamped.creator = STEERGRAPH_VERSION_STRING;
  stamped.created_unix = recipe->created_unix != 0 ? recipe->created_unix : (int64_t)time(NULL);
  stg_status status = check_meaning(&stamped, &error);
  if (status != STG_OK) {
    return stg_error_set(reterr, STG_E_INVALID, "%s", error.message);
  }
  stg_recipe_body_write(&stamped, &body);
  status = stg_strbuf_status(&body, reterr);
  if (status == STG_OK && body.len > MAX_BODY_BYTES) {
    status = stg_error_set(reterr, STG_E_INVALID, "a recipe whose body has %zu bytes, at most %llu",
                           body.len, (unsigned long long)MAX_BODY_BYTES);
  }
  if (status == STG_OK) {
    assemble(&stamped, &body, ret_bytes);
    status = stg_strbuf_status(ret_bytes, reterr);
  }
  stg_strbuf_finish(&body);
  return status;
}

static stg_status check_footer(const unsigned char *bytes, size_t size, stg_error *reterr) {
  unsigned char expected[STG_KEY_BYTES];
  stg_key_store(stg_key_of(bytes, size - STG_RECIPE_FOOTER_BYTES), expected);
  if (memcmp(expected, bytes + size - STG_RECIPE_FOOTER_BYTES, STG_RECIPE_FOOTER_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "checksum does not match its bytes");
  }
  return STG_OK;
}

/* Header and sizes; afterwards both parts are known to lie in the bytes. */
static stg_status check_header(const unsigned char *bytes, size_t size, uint64_t *ret_text_size,
                               stg_error *reterr) {
  const size_t around = STG_RECIPE_HEADER_BYTES + STG_RECIPE_FOOTER_BYTES;
  if (size < around || size > STG_RECIPE_MAX_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%zu bytes, a recipe has %zu to %llu", size, around,
                         (unsigned long long)STG_RECIPE_MAX_BYTES);
  }
  if (memcmp(bytes, STG_RECIPE_MAGIC, sizeof STG_RECIPE_MAGIC - 1) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no recipe: wrong magic");
  }
  stg_status status = check_footer(bytes, size, reterr);
  if (status != STG_OK) {
    return status;
  }
  const unsigned version = (unsigned)stg_le_load(bytes + STG_RECIPE_AT_VERSION, 4);
  if (version < 1 || version > STG_RECIPE_FORMAT) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "recipe format %u, this version reads 1 to %d",
                         version, STG_RECIPE_FORMAT);
  }
  if (stg_le_load(bytes + STG_RECIPE_AT_FLAGS, 4) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "unknown flags");
  }
  const uint64_t text_size = stg_le_load(bytes + STG_RECIPE_AT_SIZES, 8);
  const uint64_t body_size = stg_le_load(bytes + STG_RECIPE_AT_SIZES + 8, 8);
  const uint64_t room = size - around;
  if (text_size > room || body_size != room - text_size) {
    return stg_error_set(reterr, STG_E_CORRUPT, "parts of %llu and %llu bytes do not fill %zu",
                         (unsigned long long)text_size, (unsigned long long)body_size, size);
  }
  *ret_text_size = text_size;
  return STG_OK;
}

/* The key in the header is that of the text, and the text says what the body says. */
static stg_status check_key(const unsigned char *bytes, size_t text_size,
                            const struct stg_recipe *recipe, stg_error *reterr) {
  char text[STG_RECIPE_KEY_TEXT_CHARS];
  const char *there = (const char *)bytes + STG_RECIPE_HEADER_BYTES;
  const unsigned format = (unsigned)stg_le_load(bytes + STG_RECIPE_AT_VERSION, 4);
  if (format != stg_recipe_format(recipe->n_nodes)) {
    return stg_error_set(reterr, STG_E_CORRUPT, "a graph of %zu nodes in format %u",
                         recipe->n_nodes, format);
  }
  const size_t len = stg_recipe_text(recipe, text);
  if (len != text_size || memcmp(text, there, len) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key text is not what the body says");
  }
  if (!stg_key_equal(stg_key_of(text, len), stg_key_load(bytes + STG_RECIPE_AT_KEY))) {
    return stg_error_set(reterr, STG_E_CORRUPT, "key does not match its text");
  }
  return STG_OK;
}

stg_status stg_recipe_decode(const void *bytes, size_t size, struct stg_arena *arena,
                             struct stg_recipe *ret_recipe, stg_error *reterr) {
  const unsigned char *data = bytes;
  struct stg_recipe recipe = {0};
  uint64_t text_size = 0;
  stg_status status = check_header(data, size, &text_size, reterr);
  if (status == STG_OK) {
    const size_t body_at = STG_RECIPE_HEADER_BYTES + (size_t)text_size;
    status = stg_recipe_body_read((const char *)data + body_at,
                                  size - STG_RECIPE_FOOTER_BYTES - body_at, arena, &recipe, reterr);
  }
  if (status == STG_OK) {
    status = check_meaning(&recipe, reterr);
  }
  if (status == STG_OK) {
    status = check_key(data, (size_t)text_size, &recipe, reterr);
  }
  if (status == STG_OK) {
    recipe.key = stg_key_load(data + STG_RECIPE_AT_KEY);
    *ret_recipe = recipe;
  }
  return status;
}
