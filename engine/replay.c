/*
 * replay.c: see replay.h.
 */
#include "engine/replay.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops.h"

/* Arguments of kernels and no part of their text: any will do. */
#define ANY_EPSILON 1e-6F
#define ANY_COLUMNS 1

#define OWN_PREFIX "user_"

/*
 * Add an op, which must be what its hash says, under a name that is made of that. Its own name need
 * not be the only one of its kind in a manifest that was joined from several, nor is it looked at.
 */
static stg_status add_op(const struct stg_manifest_op *given, struct stg_op_table *ops,
                         stg_error *reterr) {
  struct stg_op_decl decl = *given->decl;
  const struct stg_op *op = NULL;
  char name[sizeof OWN_PREFIX + STG_KEY_HEX_CHARS];
  char hex[STG_KEY_HEX_CHARS + 1];
  snprintf(name, sizeof name, OWN_PREFIX "%s", given->hash);
  decl.name = name;
  stg_status status = stg_op_table_add_decl(ops, &decl, reterr);
  if (status == STG_OK) {
    status = stg_op_table_find(ops, name, &op, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_key_hex(op->body_hash, hex);
  return strcmp(hex, given->hash) == 0
             ? STG_OK
             : stg_error_set(reterr, STG_E_FORMAT,
                             "%s: the hash of its body is %s; put it under that, or mend the body",
                             decl.file, hex);
}

static stg_status add_ops(const struct stg_manifest *manifest, struct stg_op_table *ops,
                          stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < manifest->n_ops && status == STG_OK; i++) {
    status = add_op(&manifest->ops[i], ops, reterr);
  }
  return status;
}

static stg_status describe(const struct stg_steer_signature *kernel, struct stg_arena *arena,
                           stg_steer_desc *ret_desc, stg_error *reterr) {
  const char **names = stg_arena_alloc(arena, kernel->n_ops, sizeof(const char *));
  if (names == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < kernel->n_ops; i++) {
    names[i] = kernel->ops[i]->name;
  }
  *ret_desc = (stg_steer_desc){
      .struct_size = sizeof *ret_desc,
      .hidden_size = kernel->hidden_size,
      .dtype = kernel->dtype,
      .bank_dtype = kernel->bank_dtype,
      .state = kernel->pair ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN,
      .ops = names,
      .n_ops = kernel->n_ops,
      .epilogue = kernel->epilogue,
      .epsilon = kernel->epilogue != STG_EPILOGUE_NONE ? ANY_EPSILON : 0,
      .windows = kernel->windows,
      .counters = kernel->counters,
      .probes = kernel->probes ? ANY_COLUMNS : 0,
  };
  return STG_OK;
}

/* A declaration that no entry had before: it must be one. */
static stg_status add_desc(struct stg_replay *replay, struct stg_op_table *ops,
                           const struct stg_steer_signature *kernel, stg_error *reterr) {
  struct stg_steer_decl decl;
  stg_steer_desc *desc = &replay->descs[replay->n_descs];
  stg_status status = describe(kernel, &replay->arena, desc, reterr);
  if (status == STG_OK) {
    status = stg_steer_decl_init(desc, ops, &decl, reterr);
  }
  if (status == STG_OK) {
    stg_steer_decl_finish(&decl);
    replay->n_descs++;
  }
  return status;
}

/* The number of a declaration, by what its two kernels have in common; texts[i] is that of
 * descs[i].
 */
static stg_status find_desc(struct stg_replay *replay, struct stg_op_table *ops, const char **texts,
                            const struct stg_steer_parsed *parsed, size_t *ret_desc,
                            stg_error *reterr) {
  struct stg_steer_signature common = parsed->kernel;
  struct stg_strbuf text = {0};
  common.prefill = false;
  stg_steer_signature_print(&common, &text);
  stg_status status = stg_strbuf_status(&text, reterr);
  size_t i = 0;
  while (status == STG_OK && i < replay->n_descs && strcmp(texts[i], text.data) != 0) {
    i++;
  }
  if (status == STG_OK && i == replay->n_descs && i < STG_REPLAY_MAX_DECLS) {
    status = add_desc(replay, ops, &parsed->kernel, reterr);
    if (status == STG_OK) {
      texts[i] = stg_arena_strdup(&replay->arena, text.data);
      status = stg_arena_status(&replay->arena, reterr);
    }
  }
  stg_strbuf_finish(&text);
  *ret_desc = i;
  return status;
}

static stg_status read_entries(const struct stg_manifest *manifest, struct stg_op_table *ops,
                               struct stg_replay *replay, stg_error *reterr) {
  const size_t n = manifest->n_entries;
  const size_t most = n < STG_REPLAY_MAX_DECLS ? n : STG_REPLAY_MAX_DECLS;
  const char **texts = stg_arena_alloc(&replay->arena, most + 1, sizeof(const char *));
  replay->descs = stg_arena_alloc(&replay->arena, most + 1, sizeof *replay->descs);
  replay->entries = stg_arena_alloc(&replay->arena, n, sizeof *replay->entries);
  stg_status status = stg_arena_status(&replay->arena, reterr);
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    const struct stg_manifest_entry *entry = &manifest->entries[i];
    struct stg_steer_parsed parsed;
    size_t desc = 0;
    status = stg_steer_signature_parse(entry->signature, ops, &replay->arena, &parsed, reterr);
    if (status == STG_OK) {
      status = find_desc(replay, ops, texts, &parsed, &desc, reterr);
    }
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: manifest[%zu].signature: ", manifest->file, entry->index);
      return status;
    }
    if (desc == replay->n_descs) {
      replay->n_skipped++;
      continue;
    }
    replay->entries[replay->n_entries++] = (struct stg_replay_entry){
        .signature = entry->signature,
        .desc = desc,
        .variant = parsed.kernel.prefill ? STG_TILE_PREFILL : STG_TILE_DECODE,
        .shape = parsed.shape,
    };
  }
  return status;
}

stg_status stg_replay_init(const struct stg_manifest *manifest, struct stg_op_table *ops,
                           struct stg_replay *ret_replay, stg_error *reterr) {
  struct stg_replay replay = {0};
  stg_status status = add_ops(manifest, ops, reterr);
  if (status == STG_OK) {
    status = read_entries(manifest, ops, &replay, reterr);
  }
  if (status != STG_OK) {
    stg_replay_finish(&replay);
    return status;
  }
  *ret_replay = replay;
  return STG_OK;
}

void stg_replay_finish(struct stg_replay *replay) {
  stg_arena_finish(&replay->arena);
  *replay = (struct stg_replay){0};
}
