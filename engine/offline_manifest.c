/*
 * offline_manifest.c: the declarations of a manifest, for the command that builds their kernels.
 */
#include "engine/declared.h"
#include "engine/engine.h"
#include "engine/replay.h"
#include "specs/manifest.h"

static stg_status declare_all(const struct stg_replay *replay, struct stg_arena *arena,
                              const struct stg_declared *const **ret_declared, stg_error *reterr) {
  struct stg_declared *all = stg_arena_alloc(arena, replay->n_decls, sizeof *all);
  const struct stg_declared **list =
      stg_arena_alloc(arena, replay->n_decls, sizeof(const struct stg_declared *));
  if (all == NULL || list == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < replay->n_decls; i++) {
    all[i] = (struct stg_declared){.parts = {replay->decls[i]}, .n_parts = 1};
    list[i] = &all[i];
  }
  *ret_declared = list;
  return STG_OK;
}

stg_status stg_offline_read_manifest(stg_engine *engine, const char *path, struct stg_arena *arena,
                                     const struct stg_declared *const **ret_declared,
                                     size_t *ret_n_declared, stg_error *reterr) {
  struct stg_manifest manifest;
  struct stg_replay replay;
  stg_status status = stg_manifest_load(path, &manifest, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_replay_init(&manifest, engine->ops, arena, &replay, reterr);
  if (status == STG_OK && replay.n_skipped > 0) {
    status = stg_error_set(reterr, STG_E_CAPACITY,
                           "%s: more than %d different declarations; cut it in parts", path,
                           STG_REPLAY_MAX_DECLS);
  }
  if (status == STG_OK) {
    status = declare_all(&replay, arena, ret_declared, reterr);
  }
  if (status == STG_OK) {
    *ret_n_declared = replay.n_decls;
  }
  stg_manifest_finish(&manifest);
  return status;
}
