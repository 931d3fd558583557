/*
 * replay.c: see replay.h.
 */
#include "engine/replay.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops.h"
#include "engine/signature_parse.h"

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

/* The number of a declaration, by what its kernels have in common: texts[i] is that of decls[i].
 * n_decls where it is one too many. */
static stg_status find_decl(struct stg_replay *replay, struct stg_arena *arena, const char **texts,
                            const struct stg_decl *decl, size_t *ret_decl, stg_error *reterr) {
  struct stg_strbuf text = {0};
  decl->family->print(decl, 0, NULL, &text);
  stg_status status = stg_strbuf_status(&text, reterr);
  size_t i = 0;
  while (status == STG_OK && i < replay->n_decls && strcmp(texts[i], text.data) != 0) {
    i++;
  }
  if (status == STG_OK && i == replay->n_decls && i < STG_REPLAY_MAX_DECLS) {
    replay->decls[replay->n_decls++] = decl;
    texts[i] = stg_arena_strdup(arena, text.data);
    status = stg_arena_status(arena, reterr);
  }
  stg_strbuf_finish(&text);
  *ret_decl = i;
  return status;
}

/* Add a signature, unless it needs a declaration too many. */
static stg_status read_entry(const char *signature, struct stg_op_table *ops,
                             struct stg_arena *arena, const char **texts, struct stg_replay *replay,
                             stg_error *reterr) {
  struct stg_parsed parsed;
  bool known = true;
  stg_status status = stg_signature_parse(signature, ops, arena, &parsed, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_replay_entry entry = {
      .signature = signature, .n_parts = parsed.n_parts, .shape = parsed.shape};
  for (unsigned i = 0; i < parsed.n_parts && status == STG_OK; i++) {
    struct stg_replay_part *part = &entry.parts[i];
    part->variant = parsed.parts[i].variant;
    status = find_decl(replay, arena, texts, parsed.parts[i].decl, &part->decl, reterr);
    known = known && part->decl < replay->n_decls;
  }
  if (status == STG_OK && known) {
    replay->entries[replay->n_entries++] = entry;
  } else if (status == STG_OK) {
    replay->n_skipped++;
  }
  return status;
}

static stg_status read_entries(const struct stg_manifest *manifest, struct stg_op_table *ops,
                               struct stg_arena *arena, struct stg_replay *replay,
                               stg_error *reterr) {
  const size_t n = manifest->n_entries;
  const size_t wanted = n * STG_PLAN_MAX_PARTS;
  const size_t most = wanted < STG_REPLAY_MAX_DECLS ? wanted : STG_REPLAY_MAX_DECLS;
  const char **texts = stg_arena_alloc(arena, most + 1, sizeof(const char *));
  replay->decls = stg_arena_alloc(arena, most + 1, sizeof(const struct stg_decl *));
  replay->entries = stg_arena_alloc(arena, n, sizeof *replay->entries);
  stg_status status = stg_arena_status(arena, reterr);
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    const struct stg_manifest_entry *entry = &manifest->entries[i];
    if (strncmp(entry->signature, STG_REGION_PREFIX, strlen(STG_REGION_PREFIX)) == 0) {
      replay->n_regions++;
      continue;
    }
    status = read_entry(entry->signature, ops, arena, texts, replay, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: manifest[%zu].signature: ", manifest->file, entry->index);
    }
  }
  return status;
}

stg_status stg_replay_init(const struct stg_manifest *manifest, struct stg_op_table *ops,
                           struct stg_arena *arena, struct stg_replay *ret_replay,
                           stg_error *reterr) {
  struct stg_replay replay = {0};
  stg_status status = add_ops(manifest, ops, reterr);
  if (status == STG_OK) {
    status = read_entries(manifest, ops, arena, &replay, reterr);
  }
  if (status == STG_OK) {
    *ret_replay = replay;
  }
  return status;
}
