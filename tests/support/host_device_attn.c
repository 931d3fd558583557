/*
 * host_device_attn.c: what the kernels of rope and decode do, by the CPU backend: from their
 * arguments, all in device memory. What a kernel takes on trust is checked here: maps that fit the
 * launch, addresses that are aligned where that is said, counters that are zeros.
 */
#include <assert.h>
#include <string.h>

#include "codegen/decode_extents.h"
#include "codegen/rope_args.h"
#include "codegen/rope_extents.h"
#include "engine/cpu/decode.h"
#include "engine/cpu/rope.h"
#include "engine/decode_decl.h"
#include "engine/rope_decl.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"
#include "tests/support/host_device.h"

static bool begins(const char *text, const char *word) {
  return strncmp(text, word, strlen(word)) == 0;
}

static struct stg_rope_kernel rope_of(const char *signature) {
  struct stg_rope_kernel kernel = {.work = STG_ROPE_ROTATE};
  struct stg_signature_reader reader = {.text = signature};
  const stg_status status = stg_rope_kernel_read(&reader, &kernel);
  assert(status == STG_OK);
  (void)status;
  return kernel;
}

size_t host_device_attn_bytes(const char *signature) {
  if (begins(signature, "rope ")) {
    return stg_rope_args_bytes(rope_of(signature).work);
  }
  return begins(signature, "decode ") ? sizeof(struct stg_decode_args) : 0;
}

static void *at(uint64_t address) {
  return (void *)(uintptr_t)address;
}

static struct stg_step_rows rows_of(const struct stg_rows_args *args) {
  if (args->map == 0) {
    return (struct stg_step_rows){.rows = args->rows,
                                  .batch = args->batch,
                                  .pos = at(args->pos),
                                  .pos_is_64 = args->pos_is_64 != 0};
  }
  const int32_t *map = at(args->map);
  assert(args->map % 16 == 0 && map[0] <= args->rows);
  assert((uint32_t)map[1] <= STG_ROWS_AT_POS64 &&
         (map[0] == 0 || map[1] != STG_ROWS_AT_LEN || args->len != 0));
  assert(map[1] != STG_ROWS_AT_POS64 || map[2] % 2 == 0);
  return (struct stg_step_rows){
      .rows = map[0],
      .batch = args->batch,
      .seq = map + STG_ROWS_HEADER_WORDS,
      .pos = map[1] == STG_ROWS_AT_LEN ? NULL : map + map[2],
      .pos_is_64 = map[1] == STG_ROWS_AT_POS64,
      .len = at(args->len),
  };
}

static struct stg_kv_view view_of(const struct stg_kv_args *args, uint32_t batch, uint32_t kv_heads,
                                  uint32_t dim, stg_dtype dtype) {
  return (struct stg_kv_view){
      .dtype = dtype,
      .batch = batch,
      .kv_heads = kv_heads,
      .dim = dim,
      .capacity = args->capacity,
      .k = at(args->k),
      .v = at(args->v),
      .seq_stride = args->seq_stride,
      .head_stride = args->head_stride,
      .pos_stride = args->pos_stride,
      .block_table = at(args->block_table),
      .table_row = args->table_row,
      .block_shift = args->block_shift,
      .n_blocks = (uint32_t)args->n_blocks,
  };
}

/* Whether addresses and strides, in elements, are of 16 bytes in whole. */
static bool are_whole(stg_dtype dtype, const uint64_t *addresses, size_t n_addresses,
                      const int64_t *strides, size_t n_strides) {
  bool whole = true;
  for (size_t i = 0; i < n_addresses; i++) {
    whole = whole && addresses[i] % 16 == 0;
  }
  for (size_t i = 0; i < n_strides; i++) {
    whole = whole && strides[i] * (int64_t)stg_dtype_bytes(dtype) % 16 == 0;
  }
  return whole;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void check_rope(const struct stg_rope_kernel *kernel, const struct stg_rope_args *a) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  const bool cached = kernel->sink != STG_ROPE_SINK_OUT;
  const uint64_t addresses[] = {a->qkv, a->q, a->kv.k, a->kv.v};
  const int64_t strides[] = {
      a->qkv_stride,
      a->q_stride,
      cached ? a->kv.pos_stride : a->k_stride,
      cached ? a->kv.head_stride : a->v_stride,
      cached ? a->kv.seq_stride : a->v_stride,
  };
  const struct stg_rope_extents e = stg_rope_extents_of(g);
  const bool ends_early = !cached && a->kv.v == 0 && g->layout != STG_ROPE_LAYOUT_GROUPED;
  const uint32_t items = e.items - (ends_early ? g->kv_heads * e.units : 0);
  assert(a->spans >= 1 && a->spans * a->span_items >= items);
  assert((a->flags & STG_ROPE_ALIGNED) == 0 ||
         are_whole(g->dtype, addresses, COUNT(addresses), strides, COUNT(strides)));
  assert(!kernel->table || a->table != 0);
  assert((kernel->sink == STG_ROPE_SINK_PAGED) == (cached && a->kv.block_table != 0));
  (void)addresses;
  (void)strides;
  (void)items;
}

static void rotate(const struct stg_rope_kernel *kernel, const struct stg_rope_args *a) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  const struct stg_kv_view view = view_of(&a->kv, a->rows.batch, g->kv_heads, g->dim, g->dtype);
  const struct stg_rope_angles angles = {
      .inv_freq = at(a->inv_freq),
      .log_scale = at(a->log_scale),
      .xpos_base = a->xpos_base,
      .table = kernel->table ? at(a->table) : NULL,
      .table_positions = a->table_positions,
  };
  const struct stg_step_rows rows = rows_of(&a->rows);
  const struct stg_cpu_heads q = {at(a->q), a->q_stride};
  const struct stg_cpu_heads k = {at(a->kv.k), a->k_stride}, v = {at(a->kv.v), a->v_stride};
  assert(a->inv_freq != 0 && a->log_scale != 0); /* are read ahead of the map */
  if (rows.rows == 0) {
    return; /* there may be no tensor */
  }
  check_rope(kernel, a);
  stg_status status;
  if (kernel->backward) {
    status = stg_cpu_rope_back(&(struct stg_cpu_rope_gradient){.geometry = g,
                                                               .angles = &angles,
                                                               .rows = rows,
                                                               .q = q,
                                                               .k = k,
                                                               .v = v,
                                                               .qkv = at(a->qkv),
                                                               .qkv_stride = a->qkv_stride},
                               NULL);
  } else {
    const bool cached = kernel->sink != STG_ROPE_SINK_OUT;
    status = stg_cpu_rope(&(struct stg_cpu_rope_batch){.geometry = g,
                                                       .angles = &angles,
                                                       .rows = rows,
                                                       .qkv = at(a->qkv),
                                                       .qkv_stride = a->qkv_stride,
                                                       .q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .kv = cached ? &view : NULL,
                                                       .words = at(a->words)},
                          NULL);
  }
  assert(status == STG_OK);
  (void)status;
}

static void transpose(const struct stg_rope_kernel *kernel, const struct stg_transpose_args *a) {
  const bool from_heads = (a->flags & STG_TRANSPOSE_FROM_HEADS) != 0;
  const uint64_t addresses[] = {a->from, a->to};
  const int64_t strides[] = {a->from_stride, a->to_stride};
  assert((a->flags & STG_ROPE_ALIGNED) == 0 ||
         are_whole(kernel->geometry.dtype, addresses, 2, strides, 2));
  (void)addresses;
  (void)strides;
  stg_cpu_transpose_heads(&(struct stg_cpu_transpose){
      .dtype = kernel->geometry.dtype,
      .rows = a->rows,
      .heads = a->heads,
      .dim = kernel->geometry.dim,
      .from_order = from_heads ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST,
      .from = at(a->from),
      .from_stride = a->from_stride,
      .to = at(a->to),
      .to_stride = a->to_stride,
  });
}

static void move_on(const struct stg_advance_args *a) {
  const struct stg_step_rows rows = rows_of(&a->rows);
  const struct stg_kv_view view = view_of(&a->kv, a->rows.batch, 1, 2, STG_F32);
  if (a->on != 0) {
    stg_cpu_kv_advance(&rows, &view, at(a->rows.len));
  }
}

/* What blocks that share a row need: room for its chunks, and counters that are zeros. */
static void check_space(const struct stg_decode_geometry *g, const struct stg_decode_args *a) {
  const struct stg_decode_extents e = stg_decode_extents_of(g);
  const uint32_t *counters = at(a->counters);
  if ((a->flags & STG_DECODE_OWNER) != 0) {
    return;
  }
  assert(counters != NULL && (a->partials != 0 || a->chunks == 1));
  for (size_t i = 0; i < (size_t)a->rows.rows * e.tiles; i++) {
    assert(counters[i] == 0);
  }
  if (a->partials != 0) { /* as a kernel would: what is too small is written past */
    memset(at(a->partials), 0xee,
           (size_t)a->rows.rows * e.tiles * (size_t)a->chunks * e.slot_bytes);
  }
}

static void attend(const struct stg_decode_geometry *g, const struct stg_decode_args *a) {
  const struct stg_kv_view view = view_of(&a->kv, a->rows.batch, g->kv_heads, g->dim, g->dtype);
  const struct stg_step_rows rows = rows_of(&a->rows);
  const uint64_t keys[] = {a->kv.k, a->kv.v};
  const int64_t strides[] = {a->kv.seq_stride, a->kv.head_stride, a->kv.pos_stride};
  if (rows.rows == 0) {
    return; /* there may be no tensor */
  }
  assert((a->flags & STG_DECODE_ALIGNED) == 0 ||
         are_whole(g->dtype, &a->out, 1, &a->out_stride, 1));
  assert(g->loose || g->dim * stg_dtype_bytes(g->dtype) % 16 != 0 ||
         are_whole(g->dtype, keys, COUNT(keys), strides, COUNT(strides)));
  assert(g->paged == (a->kv.block_table != 0) && g->masked == (a->key_mask != 0));
  (void)keys;
  (void)strides;
  check_space(g, a);
  const stg_status status =
      stg_cpu_attend(&(struct stg_cpu_attend_batch){.geometry = g,
                                                    .rows = rows,
                                                    .kv = &view,
                                                    .q = at(a->q),
                                                    .q_stride = a->q_stride,
                                                    .out = at(a->out),
                                                    .out_stride = a->out_stride,
                                                    .scale = a->scale,
                                                    .window = g->windowed ? a->window : 0,
                                                    .key_mask = at(a->key_mask),
                                                    .mask_stride = a->mask_stride,
                                                    .valid = at(a->valid)},
                     NULL);
  assert(status == STG_OK);
  (void)status;
}

void host_device_attn_run(const struct host_device_launch *launch) {
  const void *args = launch->args;
  if (begins(launch->signature, "decode ")) {
    struct stg_decode_geometry geometry = {0};
    struct stg_signature_reader reader = {.text = launch->signature};
    const stg_status status = stg_decode_geometry_read(&reader, &geometry);
    assert(status == STG_OK);
    (void)status;
    attend(&geometry, args);
    return;
  }
  const struct stg_rope_kernel kernel = rope_of(launch->signature);
  if (kernel.work == STG_ROPE_ROTATE) {
    rotate(&kernel, args);
  } else if (kernel.work == STG_ROPE_TRANSPOSE) {
    transpose(&kernel, args);
  } else {
    move_on(args);
  }
}
