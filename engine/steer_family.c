/*
 * steer_family.c: steering as one family among others: its row of family.h.
 */
#include <stdlib.h>

#include "engine/family.h"
#include "engine/ops.h"
#include "engine/signature_parse.h"
#include "engine/steer_decl.h"
#include "engine/steer_launch.h"
#include "engine/steer_signature.h"

_Static_assert(STG_TILE_COUNT <= STG_MAX_VARIANTS, "a variant is a tile");
_Static_assert(sizeof(struct stg_steer_args) <= STG_MAX_ARGS_BYTES, "room for arguments");
_Static_assert(STG_MAP_HEADER_WORDS == STG_NO_ROWS_HEADER_WORDS, "no rows, as a map of records");

/* Arguments of kernels and no part of their text: any will do. */
#define ANY_EPSILON 1e-6F
#define ANY_COLUMNS 1

static const char *const tiles[STG_TILE_COUNT] = {"decode", "prefill"};
static const char *const steer_tiles[] = {"steer decode", "steer prefill"};

static const struct stg_steer_decl *steer_of(const struct stg_decl *decl) {
  return (const struct stg_steer_decl *)(const void *)decl;
}

static stg_status kernel_text(const struct stg_decl *decl, unsigned variant, const char *arch,
                              const char *nvrtc_options, struct stg_kernel_text *ret_text,
                              stg_error *reterr) {
  return stg_steer_kernel_init(steer_of(decl), (enum stg_tile)variant, arch, nvrtc_options,
                               ret_text, reterr);
}

static void print(const struct stg_decl *decl, unsigned variant, const char *arch,
                  struct stg_strbuf *out) {
  stg_steer_kernel_print(steer_of(decl), (enum stg_tile)variant, arch, out);
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

static stg_status parse(struct stg_signature_reader *reader, struct stg_parsed_part *ret_part) {
  struct stg_steer_signature signature;
  stg_steer_desc desc;
  stg_status status = stg_steer_signature_read(reader, &signature);
  if (status == STG_OK) {
    status = describe(&signature, reader->arena, &desc, reader->err);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_steer_decl *decl = stg_arena_alloc(reader->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(reader->arena, reader->err);
  }
  status = stg_steer_decl_init_in(&desc, reader->ops, reader->arena, decl, reader->err);
  if (status == STG_OK) {
    *ret_part = (struct stg_parsed_part){
        .decl = &decl->base,
        .variant = signature.prefill ? STG_TILE_PREFILL : STG_TILE_DECODE,
    };
  }
  return status;
}

static stg_status check_shape(unsigned variant, const struct stg_graph_shape *shape,
                              stg_error *reterr) {
  return (variant == STG_TILE_PREFILL) == (shape->seq > 1)
             ? STG_OK
             : stg_error_set(reterr, STG_E_FORMAT,
                             "tile=%s with seq<=%lld: seq<=1 is decode, more is prefill",
                             tiles[variant], (long long)shape->seq);
}

static stg_status shape(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                        uint32_t longest, struct stg_graph_shape *ret_shape, unsigned *ret_variant,
                        stg_error *reterr) {
  enum stg_tile tile;
  stg_status status =
      stg_steer_shape(steer_of(decl), rows, requests, longest, ret_shape, &tile, reterr);
  if (status == STG_OK) {
    *ret_variant = tile;
  }
  return status;
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

#define SLOT(field)                                                                                \
  {                                                                                                \
    .offset = offsetof(struct stg_steer_args, field),                                              \
    .bytes = sizeof(((struct stg_steer_args *)NULL)->field), .name = #field                        \
  }
/* A test holds them against struct stg_steer_args. */
static const struct stg_recipe_slot slots[] = {
    SLOT(hidden),  SLOT(out),         SLOT(residual),       SLOT(row_map),     SLOT(table),
    SLOT(records), SLOT(bank),        SLOT(report),         SLOT(weight),      SLOT(row_stride),
    SLOT(rows),    SLOT(slots),       SLOT(layer),          SLOT(chain_words), SLOT(flags),
    SLOT(epsilon), SLOT(stage_words), SLOT(staged_vectors), SLOT(probes),      SLOT(probe_stride),
    SLOT(counts),  SLOT(layers),
};
#undef SLOT

static struct stg_args_form args_of(const char *kernel) {
  (void)kernel;
  return (struct stg_args_form){sizeof(struct stg_steer_args), slots,
                                sizeof slots / sizeof slots[0]};
}

const struct stg_family stg_family_steer = {
    .name = "steer",
    .n_variants = STG_TILE_COUNT,
    .variants = tiles,
    .among = steer_tiles,
    .args_of = args_of,
    .kernel_text = kernel_text,
    .print = print,
    .parse = parse,
    .check_shape = check_shape,
    .shape = shape,
    .general = general,
    .idle = idle,
};
