/*
 * offline_manifest.c: the declarations of a manifest, for the command that builds their kernels.
 */
#include "engine/engine.h"
#include "engine/offline.h"
#include "engine/replay.h"
#include "specs/manifest.h"

/* A copy whose names outlive the replay: ops are the engine's. */
static stg_status keep_descs(const struct stg_replay *replay, struct stg_arena *arena,
                             const stg_steer_desc **ret_descs, stg_error *reterr) {
  stg_steer_desc *descs = stg_arena_alloc(arena, replay->n_descs, sizeof *descs);
  for (size_t i = 0; i < replay->n_descs && descs != NULL; i++) {
    descs[i] = replay->descs[i];
    descs[i].ops = stg_arena_memdup(arena, descs[i].ops, descs[i].n_ops * sizeof(const char *));
  }
  *ret_descs = descs;
  return stg_arena_status(arena, reterr);
}

stg_status stg_offline_read_manifest(stg_engine *engine, const char *path, struct stg_arena *arena,
                                     const stg_steer_desc **ret_descs, size_t *ret_n_descs,
                                     stg_error *reterr) {
  struct stg_manifest manifest;
  struct stg_replay replay;
  stg_status status = stg_manifest_load(path, &manifest, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_replay_init(&manifest, engine->ops, &replay, reterr);
  if (status == STG_OK) {
    *ret_n_descs = replay.n_descs;
    status = replay.n_skipped == 0
                 ? keep_descs(&replay, arena, ret_descs, reterr)
                 : stg_error_set(reterr, STG_E_CAPACITY,
                                 "%s: more than %d different declarations; cut it in parts", path,
                                 STG_REPLAY_MAX_DECLS);
    stg_replay_finish(&replay);
  }
  stg_manifest_finish(&manifest);
  return status;
}
