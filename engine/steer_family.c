/*
 * steer_family.c: steering as one family among others: its row of family.h.
 */
#include <stdlib.h>

#include "engine/family.h"
#include "engine/ops.h"
#include "engine/steer_decl.h"
#include "engine/steer_launch.h"

_Static_assert(STG_TILE_COUNT <= STG_MAX_VARIANTS, "a variant is a tile");
_Static_assert(sizeof(struct stg_steer_args) <= STG_MAX_ARGS_BYTES, "room for arguments");
_Static_assert(STG_MAP_HEADER_WORDS == STG_NO_ROWS_HEADER_WORDS, "no rows, as a map of records");

static const char *const tiles[STG_TILE_COUNT] = {"decode", "prefill"};

static const struct stg_steer_decl *steer_of(const struct stg_decl *decl) {
  return (const struct stg_steer_decl *)(const void *)decl;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  return stg_steer_kernel_init(steer_of(decl), (enum stg_tile)variant, arch, nvrtc_options,
                               ret_text, reterr);
}

/* The declaration with all built-ins that it can have in place of its ops. */
static stg_status generalise(const struct stg_steer_decl *decl, struct stg_op_table *ops,
                             struct stg_arena *arena, const struct stg_decl **ret_decl,
                             stg_error *reterr) {
  const size_t count = stg_op_table_count(ops);
  const struct stg_op **builtins = stg_arena_alloc(arena, count, sizeof(struct stg_op *));
  struct stg_steer_decl *general = stg_arena_memdup(arena, decl, sizeof *decl);
  if (builtins == NULL || general == NULL) {
    return stg_arena_status(arena, reterr);
  }
  general->ops = builtins;
  general->n_ops = 0;
  for (size_t i = 0; i < count; i++) {
    const struct stg_op *op = stg_op_table_at(ops, i);
    if (stg_steer_is_default_op(op, decl->probes)) {
      builtins[general->n_ops++] = op;
    }
  }
  qsort(builtins, general->n_ops, sizeof(struct stg_op *), stg_op_compare);
  *ret_decl = &general->base;
  return STG_OK;
}

static stg_status general(const struct stg_decl *decl, struct stg_op_table *ops,
                          struct stg_arena *arena, struct stg_general *ret, stg_error *reterr) {
  const struct stg_steer_decl *steer = steer_of(decl);
  *ret = (struct stg_general){.decl = NULL};
  for (size_t i = 0; i < steer->n_ops; i++) {
    ret->lacks = ret->lacks || !stg_op_is_builtin(steer->ops[i]);
  }
  return steer->tier0 ? STG_OK : generalise(steer, ops, arena, &ret->decl, reterr);
}

/* One block, which finds no row and leaves; no tensor is given, and none is touched. */
static struct stg_launch_dims idle(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                   uint64_t no_rows, void *ret_args) {
  struct stg_steer_args *args = ret_args;
  *args = (struct stg_steer_args){.row_map = no_rows, .rows = 1, .flags = STG_STEER_IN_PLACE};
  return stg_steer_dims(engine, kernel, 0, args);
}

const struct stg_family stg_family_steer = {
    .name = "steer",
    .n_variants = STG_TILE_COUNT,
    .variants = tiles,
    .args_bytes = sizeof(struct stg_steer_args),
    .kernel_text = kernel_text,
    .general = general,
    .idle = idle,
};
