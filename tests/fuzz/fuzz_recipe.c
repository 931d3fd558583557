/*
 * fuzz_recipe.c: the libFuzzer target of what reads recipes of graphs.
 *
 * An input is tried as it is; with sizes and checksum made right; and with the key text that its
 * body calls for, so that all of a recipe is reached. Finds crashes, leaks, hangs, messages that
 * break the rule of one line, and recipes that are taken without being ones.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/version.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/cubin.h"
#include "runtime/recipe_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static void check_error(stg_status status, const stg_error *err) {
  check(status == STG_OK ||
        (err->code == status && err->message[0] != '\0' && strpbrk(err->message, "\r\n") == NULL));
}

/* Each list refers to what is there, each text says something. */
static void check_lists(const struct stg_recipe *recipe) {
  uint32_t sm = 0;
  check(recipe->n_nodes > 0 && recipe->batch > 0 && recipe->seq > 0 && recipe->rows > 0);
  check(stg_arch_parse(recipe->arch, &sm) && strstr(recipe->signature, recipe->arch) != NULL);
  for (size_t i = 0; i < recipe->n_nodes; i++) {
    check(recipe->nodes[i].kernel[0] != '\0' && recipe->nodes[i].threads > 0 &&
          recipe->nodes[i].rows_per_block > 0);
  }
  for (size_t i = 0; i < recipe->n_edges; i++) {
    check(recipe->edges[i].from < recipe->edges[i].to && recipe->edges[i].to < recipe->n_nodes);
  }
  for (size_t i = 0; i < recipe->n_slots; i++) {
    const struct stg_recipe_slot *slot = &recipe->slots[i];
    check(slot->node < recipe->n_nodes && slot->param < recipe->nodes[slot->node].n_params);
    const struct stg_recipe_param *param = &recipe->nodes[slot->node].params[slot->param];
    check(slot->offset < param->bytes && slot->bytes <= param->bytes - slot->offset);
  }
}

/* What was taken is written, and reads back as what it was but for who wrote it. */
static void check_again(const struct stg_recipe *recipe) {
  struct stg_arena arena = {0};
  struct stg_strbuf bytes = {0}, first = {0}, second = {0};
  struct stg_recipe again;
  check(stg_key_equal(recipe->key, stg_recipe_key(recipe)));
  if (recipe->created_unix != 0) { /* else it is stamped with the time */
    check(stg_recipe_encode(recipe, &bytes, NULL) == STG_OK);
    check(stg_recipe_decode(bytes.data, bytes.len, &arena, &again, NULL) == STG_OK);
    check(strcmp(again.creator, STEERGRAPH_VERSION_STRING) == 0);
    again.creator = recipe->creator;
    stg_recipe_body_write(recipe, &first);
    stg_recipe_body_write(&again, &second);
    check(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    check(stg_key_equal(recipe->key, again.key));
  }
  stg_strbuf_finish(&second);
  stg_strbuf_finish(&first);
  stg_strbuf_finish(&bytes);
  stg_arena_finish(&arena);
}

static stg_status read_recipe(const void *bytes, size_t size) {
  struct stg_arena arena = {0};
  struct stg_recipe recipe = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_recipe_decode(bytes, size, &arena, &recipe, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    check_lists(&recipe);
    check_again(&recipe);
  } else {
    check(recipe.nodes == NULL);
  }
  stg_arena_finish(&arena);
  return status;
}

/* Read these bytes with their last ones made the checksum, in memory of just their size. */
static stg_status seal_and_read(const char *data, size_t size) {
  unsigned char *bytes = stg_malloc(size);
  stg_status status = STG_E_NO_MEMORY;
  if (bytes != NULL) {
    memcpy(bytes, data, size);
    stg_key_store(stg_key_of(bytes, size - STG_RECIPE_FOOTER_BYTES),
                  bytes + size - STG_RECIPE_FOOTER_BYTES);
    status = read_recipe(bytes, size);
  }
  stg_free(bytes);
  return status;
}

/* A header in front of text and body. */
static stg_status assemble_and_read(const char *text, size_t text_size, const char *body,
                                    size_t body_size, uint32_t format, uint32_t flags) {
  unsigned char key[STG_KEY_BYTES];
  struct stg_strbuf out = {0};
  stg_strbuf_str(&out, STG_RECIPE_MAGIC);
  stg_le_append(&out, format, 4);
  stg_le_append(&out, flags, 4);
  stg_key_store(stg_key_of(text, text_size), key);
  stg_strbuf_mem(&out, key, sizeof key);
  stg_le_append(&out, text_size, 8);
  stg_le_append(&out, body_size, 8);
  stg_strbuf_mem(&out, text, text_size);
  stg_strbuf_mem(&out, body, body_size);
  stg_strbuf_mem(&out, key, sizeof key); /* room for the checksum */
  const stg_status status = out.failed ? STG_E_NO_MEMORY : seal_and_read(out.data, out.len);
  stg_strbuf_finish(&out);
  return status;
}

/* A body that is written as one is a recipe, unless what its numbers mean is impossible. */
static void agree_and_read(const char *body, size_t size) {
  char text[STG_RECIPE_KEY_TEXT_CHARS];
  struct stg_arena arena = {0};
  struct stg_recipe recipe = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_recipe_body_read(body, size, &arena, &recipe, &err);
  check_error(status, &err);
  if (status == STG_OK && recipe.n_nodes > 0) {
    const size_t len = stg_recipe_text(&recipe, text);
    status = assemble_and_read(text, len, body, size, stg_recipe_format(recipe.n_nodes), 0);
    check(status == STG_OK || status == STG_E_CORRUPT || status == STG_E_NO_MEMORY);
  }
  stg_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  const size_t around = STG_RECIPE_HEADER_BYTES + STG_RECIPE_FOOTER_BYTES;
  (void)read_recipe(data, size);
  if (size >= around) {
    const char *text = (const char *)data + STG_RECIPE_HEADER_BYTES;
    const uint64_t said = stg_le_load(data + STG_RECIPE_AT_SIZES, 8);
    const size_t text_size = said > size - around ? size - around : (size_t)said;
    const size_t body_size = size - around - text_size;
    (void)seal_and_read((const char *)data, size);
    (void)assemble_and_read(text, text_size, text + text_size, body_size,
                            (uint32_t)stg_le_load(data + STG_RECIPE_AT_VERSION, 4),
                            (uint32_t)stg_le_load(data + STG_RECIPE_AT_FLAGS, 4));
    agree_and_read(text + text_size, body_size);
  }
  return 0;
}
