/*
 * steer_decl.c: checks of a declaration, and the sizes and shapes that follow from it.
 */
#include "engine/steer_decl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops.h"
#include "engine/record.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define DEFAULT_ROWS 2048u
#define DEFAULT_SLOTS 64u
#define DEFAULT_CHAIN 4u
#define LIMIT_LAYERS 1024u
#define LIMIT_ROWS (1u << 22)
#define LIMIT_SLOTS 65536u
#define LIMIT_VECTORS 65536u
/* Under capture a batch of up to this many rows takes the decode tile. */
#define CAPTURE_DECODE_ROWS 256

/* `given`, or `by_default` for 0; refused above `limit`. */
static stg_status take_u32(const char *field, uint32_t given, uint32_t by_default, uint32_t limit,
                           uint32_t *ret, stg_error *reterr) {
  uint32_t value = given != 0 ? given : by_default;
  if (value > limit) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %u is more than %u", field, value, limit);
  }
  *ret = value;
  return STG_OK;
}

static stg_status take_numbers(const stg_steer_desc *desc, struct stg_steer_decl *decl,
                               stg_error *reterr) {
  if (desc->hidden_size < 1 || desc->hidden_size > STG_STEER_MAX_HIDDEN) {
    return stg_error_set(reterr, STG_E_INVALID, "hidden_size: %lld is not in 1..%lld",
                         (long long)desc->hidden_size, (long long)STG_STEER_MAX_HIDDEN);
  }
  decl->hidden_size = desc->hidden_size;
  stg_status status = take_u32("layers", desc->layers, 1, LIMIT_LAYERS, &decl->layers, reterr);
  if (status == STG_OK) {
    status =
        take_u32("max_rows", desc->max_rows, DEFAULT_ROWS, LIMIT_ROWS, &decl->max_rows, reterr);
  }
  if (status == STG_OK) {
    status = take_u32("max_slots", desc->max_slots, DEFAULT_SLOTS, LIMIT_SLOTS, &decl->max_slots,
                      reterr);
  }
  if (status == STG_OK) {
    uint64_t wanted = (uint64_t)4 * decl->max_slots * decl->layers;
    uint32_t by_default = wanted > LIMIT_VECTORS ? LIMIT_VECTORS : (uint32_t)wanted;
    status = take_u32("max_vectors", desc->max_vectors, by_default, LIMIT_VECTORS,
                      &decl->max_vectors, reterr);
  }
  if (status == STG_OK) {
    status = take_u32("max_chain", desc->max_chain, DEFAULT_CHAIN, STG_CHAIN_MAX_OPS,
                      &decl->max_chain, reterr);
  }
  if (status == STG_OK) {
    status = take_u32("probes", desc->probes, 0, STG_OP_MAX_COLUMN + 1, &decl->probes, reterr);
  }
  if (status == STG_OK && !stg_is_pow2(decl->max_chain)) {
    status = stg_error_set(reterr, STG_E_INVALID, "max_chain: %u is none of 1, 2, 4, 8, 16",
                           decl->max_chain);
  }
  return status;
}

static stg_status take_types(const stg_steer_desc *desc, struct stg_steer_decl *decl,
                             stg_error *reterr) {
  decl->dtype = desc->dtype;
  decl->bank_dtype = desc->bank_dtype != STG_DTYPE_NONE ? desc->bank_dtype : desc->dtype;
  if (stg_dtype_bytes(decl->dtype) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)decl->dtype);
  }
  if (decl->bank_dtype != decl->dtype && decl->bank_dtype != STG_F32) {
    return stg_error_set(reterr, STG_E_INVALID, "bank_dtype: %d is neither dtype (%s) nor f32",
                         (int)decl->bank_dtype, stg_dtype_name(decl->dtype));
  }
  if (desc->state != STG_STATE_HIDDEN && desc->state != STG_STATE_HIDDEN_PLUS_RESIDUAL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "state: %d is neither hidden (0) nor hidden+residual (1)",
                         (int)desc->state);
  }
  decl->pair = desc->state == STG_STATE_HIDDEN_PLUS_RESIDUAL;
  decl->windows = desc->windows;
  decl->counters = desc->counters;
  return STG_OK;
}

static stg_status take_epilogue(const stg_steer_desc *desc, struct stg_steer_decl *decl,
                                stg_error *reterr) {
  decl->epilogue = desc->epilogue;
  decl->epsilon = desc->epsilon;
  if (desc->epilogue == STG_EPILOGUE_NONE) {
    return desc->epsilon == 0.0F
               ? STG_OK
               : stg_error_set(reterr, STG_E_INVALID,
                               "epsilon: %g without an epilogue; leave it 0, or set epilogue",
                               (double)desc->epsilon);
  }
  if (desc->epilogue != STG_EPILOGUE_ADD_RMSNORM) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "epilogue: %d is neither none (0) nor add_rmsnorm "
                         "(1)",
                         (int)desc->epilogue);
  }
  if (!decl->pair) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "epilogue: add_rmsnorm adds a residual, but the state is hidden; set "
                         "state to hidden+residual");
  }
  if (!isnormal(desc->epsilon) || desc->epsilon < 0.0F) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "epsilon: %g is no normal float32 above 0; models use 1e-6 or 1e-5",
                         (double)desc->epsilon);
  }
  return STG_OK;
}

bool stg_steer_is_default_op(const struct stg_op *op, uint32_t probes) {
  return stg_op_is_builtin(op) && (!op->has_output || probes > 0);
}

/* Op `index` of the list, or of the defaults when there is no list; NULL for another op then. */
static stg_status pick_op(const stg_steer_desc *desc, struct stg_op_table *ops, size_t index,
                          const struct stg_op **ret_op, stg_error *reterr) {
  if (desc->ops == NULL) {
    const struct stg_op *op = stg_op_table_at(ops, index);
    *ret_op = stg_steer_is_default_op(op, desc->probes) ? op : NULL;
    return STG_OK;
  }
  if (desc->ops[index] == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "ops[%zu]: is NULL", index);
  }
  stg_status status = stg_op_table_find(ops, desc->ops[index], ret_op, reterr);
  if (status == STG_OK && (*ret_op)->has_output && desc->probes == 0) {
    status = stg_error_set(reterr, STG_E_INVALID,
                           "'%s' gives something out, but probes is 0; say how many columns",
                           desc->ops[index]);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "ops[%zu]: ", index);
  }
  return status;
}

static size_t count_defaults(const stg_steer_desc *desc, struct stg_op_table *ops) {
  size_t count = 0;
  for (size_t i = 0; i < stg_op_table_count(ops); i++) {
    count += stg_steer_is_default_op(stg_op_table_at(ops, i), desc->probes) ? 1 : 0;
  }
  return count;
}

/* Resolve names, or take all built-ins; sort, and drop repeats of a body. */
static stg_status take_ops(const stg_steer_desc *desc, struct stg_op_table *ops,
                           struct stg_arena *arena, struct stg_steer_decl *decl,
                           stg_error *reterr) {
  size_t wanted = desc->ops != NULL ? desc->n_ops : stg_op_table_count(ops);
  if (wanted == 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "ops: an empty list; leave it NULL for all built-ins");
  }
  decl->named = stg_arena_alloc(arena, wanted, sizeof(struct stg_op *));
  decl->ops = stg_arena_alloc(arena, wanted, sizeof(struct stg_op *));
  if (decl->named == NULL || decl->ops == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < wanted; i++) {
    const struct stg_op *op = NULL;
    stg_status status = pick_op(desc, ops, i, &op, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (op != NULL) {
      decl->named[decl->n_named++] = op;
    }
  }
  qsort(decl->named, decl->n_named, sizeof(struct stg_op *), stg_op_compare);
  size_t builtins = 0;
  for (size_t i = 0; i < decl->n_named; i++) {
    if (i == 0 || stg_op_compare(&decl->named[i - 1], &decl->named[i]) != 0) {
      decl->ops[decl->n_ops++] = decl->named[i];
      builtins += stg_op_is_builtin(decl->named[i]) ? 1 : 0;
    }
  }
  decl->tier0 = builtins == decl->n_ops && builtins == count_defaults(desc, ops);
  return STG_OK;
}

static stg_status take_buckets(struct stg_arena *arena, const char *field, const int64_t *sizes,
                               size_t count, struct stg_buckets *ret_buckets, stg_error *reterr) {
  stg_status status = stg_buckets_check(field, sizes, count, LIMIT_ROWS, reterr);
  if (status != STG_OK || count == 0) {
    return status;
  }
  *ret_buckets = (struct stg_buckets){stg_arena_memdup(arena, sizes, count * sizeof *sizes), count};
  return stg_arena_status(arena, reterr);
}

stg_status stg_steer_decl_init_in(const stg_steer_desc *desc, struct stg_op_table *ops,
                                  struct stg_arena *arena, struct stg_steer_decl *ret_decl,
                                  stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_desc: struct_size is %zu, this library's is %zu",
                         desc != NULL ? desc->struct_size : 0, sizeof *desc);
  }
  struct stg_steer_decl decl = {.base.family = &stg_family_steer};
  stg_status status = take_numbers(desc, &decl, reterr);
  if (status == STG_OK) {
    status = take_types(desc, &decl, reterr);
  }
  if (status == STG_OK) {
    status = take_epilogue(desc, &decl, reterr);
  }
  if (status == STG_OK) {
    status = take_ops(desc, ops, arena, &decl, reterr);
  }
  if (status == STG_OK) {
    status = take_buckets(arena, "row_buckets", desc->row_buckets, desc->n_row_buckets,
                          &decl.row_buckets, reterr);
  }
  if (status == STG_OK) {
    status = take_buckets(arena, "batch_buckets", desc->batch_buckets, desc->n_batch_buckets,
                          &decl.batch_buckets, reterr);
  }
  if (status == STG_OK) {
    *ret_decl = decl;
  }
  return status;
}

stg_status stg_steer_decl_init(const stg_steer_desc *desc, struct stg_op_table *ops,
                               struct stg_steer_decl *ret_decl, stg_error *reterr) {
  struct stg_arena arena = {0};
  stg_status status = stg_steer_decl_init_in(desc, ops, &arena, ret_decl, reterr);
  if (status != STG_OK) {
    stg_arena_finish(&arena);
    return status;
  }
  ret_decl->arena = arena;
  return STG_OK;
}

void stg_steer_decl_finish(struct stg_steer_decl *decl) {
  stg_arena_finish(&decl->arena);
  *decl = (struct stg_steer_decl){0};
}

stg_status stg_steer_shape(const struct stg_steer_decl *decl, int64_t rows, uint32_t requests,
                           uint32_t longest, struct stg_graph_shape *ret_shape,
                           enum stg_tile *ret_tile, stg_error *reterr) {
  struct stg_graph_shape shape;
  stg_status status = stg_row_bucket(&decl->row_buckets, rows, &shape.rows, reterr);
  if (status == STG_OK) {
    status = stg_batch_bucket(&decl->batch_buckets, requests, &shape.batch, reterr);
  }
  if (status == STG_OK && longest <= 1) {
    shape.seq = 1; /* decode, whatever the list of buckets: it picks the tile */
  } else if (status == STG_OK) {
    status = stg_row_bucket(&decl->row_buckets, longest, &shape.seq, reterr);
  }
  if (status == STG_OK) {
    *ret_shape = shape;
    *ret_tile = shape.seq <= 1 ? STG_TILE_DECODE : STG_TILE_PREFILL;
  }
  return status;
}

enum stg_tile stg_steer_capture_tile(int64_t row_bucket) {
  return row_bucket <= CAPTURE_DECODE_ROWS ? STG_TILE_DECODE : STG_TILE_PREFILL;
}

uint32_t stg_steer_head_words(const struct stg_steer_decl *decl) {
  return decl->windows || decl->counters ? STG_RECORD_HEAD_WORDS : 0;
}

stg_status stg_steer_limits(const struct stg_steer_decl *decl, struct stg_steer_limits *ret,
                            stg_error *reterr) {
  size_t per_op = 0;
  for (size_t i = 0; i < decl->n_ops; i++) {
    per_op = decl->ops[i]->n_vectors > per_op ? decl->ops[i]->n_vectors : per_op;
  }
  size_t vectors = per_op * decl->max_chain;
  struct stg_steer_limits limits = {
      .chain_vectors = vectors > STG_CHAIN_MAX_VECTORS ? STG_CHAIN_MAX_VECTORS : (uint32_t)vectors,
      .bank_row_bytes =
          (size_t)stg_steer_padded(decl->hidden_size) * stg_dtype_bytes(decl->bank_dtype),
  };
  limits.chain_words = (uint32_t)stg_record_chain_words(decl->max_chain, limits.chain_vectors);
  limits.head_words = stg_steer_head_words(decl);
  limits.record_bytes = stg_round_up(
      (limits.head_words + (size_t)limits.chain_words * decl->layers) * sizeof(uint32_t),
      STG_POOL_GRANULE);
  /* twice: what slots show, and what steps in flight still name; and one, to change a slot of a
   * full table */
  const size_t records = 2 * (size_t)decl->max_slots + 1;
  if (!stg_mul_size(limits.record_bytes, records, &limits.pool_bytes) ||
      limits.pool_bytes / 16 > INT32_MAX - STG_POOL_GRANULE) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%u slots of %u layers with chains of %u ops need more than 32 GiB of "
                         "records; declare less",
                         decl->max_slots, decl->layers, decl->max_chain);
  }
  limits.records = (uint32_t)records;
  limits.counts_bytes =
      decl->counters ? (size_t)decl->max_slots * decl->layers * sizeof(struct stg_steer_counts) : 0;
  limits.pool_bytes += STG_POOL_GRANULE;
  *ret = limits;
  return STG_OK;
}
