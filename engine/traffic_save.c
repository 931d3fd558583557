/*
 * traffic_save.c: what was counted, as a manifest: joins counts, the ops of the engine and the
 * writer of specs.
 */
#include <string.h>

#include <steergraph/warm.h>

#include "engine/engine.h"
#include "engine/traffic.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/manifest.h"

#define FILE_MODE 0644
#define USER_PREFIX "user:"

static bool has_op(const struct stg_manifest *manifest, const char *hash) {
  bool has = false;
  for (size_t i = 0; i < manifest->n_ops && !has; i++) {
    has = strncmp(manifest->ops[i].hash, hash, STG_KEY_HEX_CHARS) == 0;
  }
  return has;
}

/* The definitions of the user ops that a kernel's text names. Room for them is there. Ends where
 * the arena fails. */
static void add_ops(struct stg_manifest *manifest, struct stg_op_table *ops, const char *kernel) {
  const char *at = kernel;
  if (strncmp(kernel, STG_REGION_PREFIX, strlen(STG_REGION_PREFIX)) == 0) {
    return; /* what it says is its host's */
  }
  while (!manifest->arena.failed && (at = strstr(at, USER_PREFIX)) != NULL) {
    char hex[STG_KEY_HEX_CHARS + 1] = {0};
    struct stg_key hash;
    at += strlen(USER_PREFIX);
    strncpy(hex, at, STG_KEY_HEX_CHARS);
    if (has_op(manifest, hex) || !stg_key_parse(hex, &hash)) {
      continue;
    }
    manifest->ops[manifest->n_ops++] = (struct stg_manifest_op){
        .hash = stg_arena_strdup(&manifest->arena, hex),
        .decl = stg_op_table_find_decl(ops, hash), /* ops are never removed */
    };
  }
}

static const char *signature_of(struct stg_arena *arena, const struct stg_traffic_count *count) {
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, count->kernel);
  stg_graph_shape_print(&count->shape, &text);
  const char *copy = text.failed ? NULL : stg_arena_strdup(arena, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  return copy;
}

/* Everything that was counted, unsorted. */
static stg_status collect(stg_engine *engine, struct stg_manifest *manifest, stg_error *reterr) {
  struct stg_arena *arena = &manifest->arena;
  struct stg_traffic_count **counts = NULL;
  size_t n_counts = 0;
  stg_status status = stg_traffic_list(engine->traffic, arena, &counts, &n_counts, reterr);
  if (status != STG_OK) {
    return status;
  }
  /* a user op of a kernel is one of the engine's */
  manifest->ops = stg_arena_alloc(arena, stg_op_table_count(engine->ops), sizeof *manifest->ops);
  manifest->entries = stg_arena_alloc(arena, n_counts, sizeof *manifest->entries);
  for (size_t i = 0; i < n_counts && !arena->failed; i++) {
    const uint64_t steps = atomic_load_explicit(&counts[i]->steps, memory_order_relaxed);
    if (steps == 0) {
      continue; /* its first step is about to count itself; a reader refuses 0 */
    }
    const char *signature = signature_of(arena, counts[i]);
    if (signature == NULL) {
      return stg_error_memory(reterr, "a manifest", n_counts * sizeof *manifest->entries);
    }
    manifest->entries[manifest->n_entries++] = (struct stg_manifest_entry){
        .signature = signature,
        .count = steps,
        .index = i,
    };
    add_ops(manifest, engine->ops, counts[i]->kernel);
  }
  return stg_arena_status(arena, reterr);
}

/* No longer than what is read: the least used go. */
static stg_status print(struct stg_manifest *manifest, struct stg_strbuf *out, stg_error *reterr) {
  stg_manifest_sort(manifest);
  stg_manifest_print(manifest, out);
  while (!out->failed && out->len > STG_JSON_MAX_BYTES && manifest->n_entries > 0) {
    manifest->n_entries /= 2;
    stg_strbuf_finish(out);
    stg_manifest_print(manifest, out);
  }
  return stg_strbuf_status(out, reterr);
}

stg_status stg_traffic_save(stg_engine *engine, const char *path, stg_error *reterr) {
  if (engine == NULL || path == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_traffic_save: engine or path is NULL");
  }
  struct stg_manifest manifest = {0};
  struct stg_strbuf text = {0};
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = collect(engine, &manifest, reterr);
  }
  if (status == STG_OK) {
    status = print(&manifest, &text, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, text.data, text.len, FILE_MODE, reterr);
  }
  stg_strbuf_finish(&text);
  stg_manifest_finish(&manifest);
  return status;
}
