/*
 * rope_device.c: see rope_device.h.
 */
#include "tests/gpu/rope_device.h"

#include <string.h>

#include "codegen/rope_extents.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

#define GUARD_BYTES 256
#define GUARD 0xa5

struct rope_kernel_slot {
  struct rope_kernel_slot *next;
  struct stg_strbuf source;
  struct stg_launch_rule rule;
  struct stg_module *module;
};

/* Memory of the device with guards around it, and where its bytes go to in the end. */
struct rope_memory {
  struct rope_memory *next;
  uint64_t address; /* of the first guard */
  size_t before, bytes;
  void *back; /* NULL: the host keeps what it has */
  void *staged;
};

int rope_device_setup(void **state) {
  struct rope_device *device = stg_calloc(1, sizeof *device);
  void *gpu = NULL;
  if (device == NULL || gpu_setup(&gpu) != 0) {
    stg_free(device);
    return -1;
  }
  device->gpu = gpu;
  *state = device;
  return 0;
}

int rope_device_teardown(void **state) {
  struct rope_device *device = *state;
  while (device->kernels != NULL) {
    struct rope_kernel_slot *slot = device->kernels;
    device->kernels = slot->next;
    stg_module_unload(device->gpu->device, slot->module);
    stg_strbuf_finish(&slot->source);
    stg_free(slot);
  }
  void *gpu = device->gpu;
  stg_free(device);
  return gpu_teardown(&gpu);
}

static struct stg_module *load(const struct gpu *gpu, const struct stg_rope_kernel *kernel,
                               const char *source) {
  const struct stg_log no_log = {0};
  const char *name = stg_rope_kernel_name(kernel->work);
  struct stg_kernel_request request = gpu_request(gpu, name, source);
  struct stg_kernel_image image = {0};
  struct stg_strbuf prelude = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_rope_prelude(kernel->work, &prelude);
  request.prelude = stg_strbuf_text(&prelude);
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  const stg_status status = stg_module_load(gpu->device, image.cubin, name, &module, &error);
  stg_kernel_image_finish(&image);
  stg_strbuf_finish(&prelude);
  check_ok(status, &error);
  return module;
}

struct stg_module *rope_device_kernel(struct rope_device *device,
                                      const struct stg_rope_kernel *kernel,
                                      struct stg_launch_rule *ret_rule) {
  struct rope_kernel_slot *slot = stg_calloc(1, sizeof *slot);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(slot);
  check_ok(stg_rope_generate(kernel, &slot->source, &slot->rule, &error), &error);
  *ret_rule = slot->rule;
  for (struct rope_kernel_slot *other = device->kernels; other != NULL; other = other->next) {
    if (strcmp(stg_strbuf_text(&other->source), stg_strbuf_text(&slot->source)) == 0) {
      stg_strbuf_finish(&slot->source);
      stg_free(slot);
      return other->module;
    }
  }
  slot->module = load(device->gpu, kernel, stg_strbuf_text(&slot->source));
  slot->next = device->kernels;
  device->kernels = slot;
  return slot->module;
}

/* ---- memory ---- */

/* A copy of host memory; with `back` it is brought back there by finish. `off`: bytes by which its
 * address is no multiple of 256. NULL: no memory. */
static uint64_t put(struct rope_device *device, const void *from, size_t bytes, size_t off,
                    void *back) {
  struct rope_memory *memory = stg_calloc(1, sizeof *memory);
  const struct gpu *gpu = device->gpu;
  const size_t all = bytes + 2 * (size_t)GUARD_BYTES + off;
  stg_error error = STG_ERROR_INIT;
  if (from == NULL) {
    stg_free(memory);
    return 0;
  }
  assert_non_null(memory);
  *memory = (struct rope_memory){
      .next = device->memory, .before = GUARD_BYTES + off, .bytes = bytes, .back = back};
  check_ok(stg_pinned_alloc(gpu->device, all, &memory->staged, &error), &error);
  check_ok(stg_device_alloc(gpu->device, all, &memory->address, &error), &error);
  memset(memory->staged, GUARD, all);
  memcpy((unsigned char *)memory->staged + memory->before, from, bytes);
  check_ok(
      stg_copy_to_device(gpu->device, memory->address, memory->staged, all, gpu->stream, &error),
      &error);
  device->memory = memory;
  return memory->address + memory->before;
}

/* Tensors, which `misaligned` moves by an element. */
static uint64_t put_tensor(struct rope_device *device, stg_dtype dtype, void *tensor,
                           int64_t elems) {
  const size_t unit = stg_dtype_bytes(dtype);
  return put(device, tensor, (size_t)elems * unit, device->how.misaligned ? unit : 0, tensor);
}

static void check_guards(const struct rope_memory *memory) {
  const unsigned char *bytes = memory->staged;
  for (size_t i = 0; i < memory->before; i++) {
    assert_int_equal(bytes[i], GUARD);
  }
  for (size_t i = 0; i < GUARD_BYTES; i++) {
    assert_int_equal(bytes[memory->before + memory->bytes + i], GUARD);
  }
}

/* Wait; bring back what is to come back, and fail where a guard was written. */
static void finish(struct rope_device *device) {
  const struct gpu *gpu = device->gpu;
  stg_error error = STG_ERROR_INIT;
  for (struct rope_memory *m = device->memory; m != NULL; m = m->next) {
    const size_t all = m->before + m->bytes + GUARD_BYTES;
    check_ok(stg_copy_to_host(gpu->device, m->staged, m->address, all, gpu->stream, &error),
             &error);
  }
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  while (device->memory != NULL) {
    struct rope_memory *memory = device->memory;
    device->memory = memory->next;
    check_guards(memory);
    if (memory->back != NULL) {
      memcpy(memory->back, (unsigned char *)memory->staged + memory->before, memory->bytes);
    }
    stg_pinned_free(gpu->device, memory->staged);
    stg_device_free(gpu->device, memory->address);
    stg_free(memory);
  }
}

/* ---- arguments ---- */

/* Rows of a launch: of a bucket, where the test says so. */
static int64_t launch_rows(const struct rope_device *device, const struct stg_step_rows *rows) {
  return device->how.room > rows->rows ? device->how.room : rows->rows;
}

static int64_t position_of(const struct stg_step_rows *rows, int64_t row) {
  return rows->pos_is_64 ? ((const int64_t *)rows->pos)[row]
                         : (int64_t)((const int32_t *)rows->pos)[row];
}

/* The largest position that the step has of a row's sequence. */
static int32_t largest_position(const struct stg_step_rows *rows, int64_t row) {
  int64_t largest = 0;
  for (int64_t other = 0; other < rows->rows; other++) {
    const bool same = rows->seq == NULL || rows->seq[other] == rows->seq[row];
    const int64_t position = position_of(rows, other);
    if (same && position > largest && position <= STG_MAX_POSITION) {
      largest = position;
    }
  }
  return (int32_t)largest;
}

/* The map of a step; rows past the step's have what a larger step left there, a sequence. */
static uint64_t put_map(struct rope_device *device, const struct stg_step_rows *rows) {
  const int64_t room = (launch_rows(device, rows) + 1) / 2 * 2;
  const size_t words = STG_ROWS_HEADER_WORDS + (size_t)room * 4;
  int32_t *map = stg_calloc(words, sizeof *map);
  assert_non_null(map);
  map[0] = (int32_t)rows->rows;
  map[1] = (int32_t)(rows->pos == NULL ? STG_ROWS_AT_LEN
                     : rows->pos_is_64 ? STG_ROWS_AT_POS64
                                       : STG_ROWS_AT_POS32);
  map[2] = STG_ROWS_HEADER_WORDS + (int32_t)room;
  for (int64_t row = 0; row < rows->rows && rows->seq != NULL; row++) {
    map[STG_ROWS_HEADER_WORDS + row] = rows->seq[row];
  }
  if (rows->pos != NULL) {
    memcpy(map + map[2], rows->pos, (size_t)rows->rows * (rows->pos_is_64 ? 8 : 4));
  }
  if (device->how.largest && rows->pos != NULL) {
    map[3] = map[2] + 2 * (int32_t)room;
    for (int64_t row = 0; row < rows->rows; row++) {
      map[map[3] + row] = largest_position(rows, row);
    }
  }
  const uint64_t address = put(device, map, words * sizeof *map, 0, NULL);
  stg_free(map);
  return address;
}

static struct stg_rows_args rows_args(struct rope_device *device, const struct stg_step_rows *rows,
                                      void *len_back) {
  struct stg_rows_args args = {.rows = (int32_t)launch_rows(device, rows), .batch = rows->batch};
  if (rows->seq != NULL || device->how.room > rows->rows || device->how.always_map) {
    args.map = put_map(device, rows);
  } else {
    args.pos = put(device, rows->pos, (size_t)rows->rows * (rows->pos_is_64 ? 8 : 4), 0, NULL);
    args.pos_is_64 = rows->pos_is_64;
  }
  args.len = put(device, rows->len, rows->batch * sizeof *rows->len, 0, len_back);
  return args;
}

static struct stg_kv_args kv_args(struct rope_device *device, const struct stg_kv_view *kv,
                                  bool appended) {
  const int64_t units = kv->block_table == NULL ? (int64_t)kv->batch : (int64_t)kv->n_blocks;
  const int64_t elems = units * kv->seq_stride;
  return (struct stg_kv_args){
      .k = appended ? put_tensor(device, kv->dtype, kv->k, elems) : 0,
      .v = appended ? put_tensor(device, kv->dtype, kv->v, elems) : 0,
      .block_table = put(device, kv->block_table,
                         kv->batch * (size_t)kv->table_row * sizeof *kv->block_table, 0, NULL),
      .seq_stride = kv->seq_stride,
      .head_stride = kv->head_stride,
      .pos_stride = kv->pos_stride,
      .capacity = (int32_t)kv->capacity,
      .table_row = (int32_t)kv->table_row,
      .block_shift = kv->block_shift,
      .n_blocks = (int32_t)kv->n_blocks,
  };
}

static void put_angles(struct rope_device *device, const struct stg_rope_geometry *g,
                       const struct stg_rope_angles *angles, struct stg_rope_args *args) {
  const size_t pairs = g->rot / 2;
  args->inv_freq = put(device, angles->inv_freq, pairs * sizeof(float), 0, NULL);
  args->log_scale = put(device, angles->log_scale, pairs * sizeof(float), 0, NULL);
  args->table = put(device, angles->table,
                    (size_t)angles->table_positions * 2 * pairs * sizeof(float), 0, NULL);
  args->table_positions = (int32_t)angles->table_positions;
  args->xpos_base = angles->xpos_base;
}

/* Elements of a tensor of heads. */
static int64_t heads_elems(const struct stg_rope_geometry *g, const struct stg_step_rows *rows,
                           uint32_t heads, int64_t stride) {
  return g->order == STG_HEADS_ROWS_FIRST ? rows->rows * stride : (int64_t)heads * stride;
}

static uint64_t put_heads(struct rope_device *device, const struct stg_rope_geometry *g,
                          const struct stg_step_rows *rows, const struct stg_cpu_heads *heads,
                          uint32_t n) {
  return heads->data != NULL
             ? put_tensor(device, g->dtype, heads->data, heads_elems(g, rows, n, heads->stride))
             : 0;
}

/* Whether all of it may be touched by 16 bytes. */
static bool is_aligned(const struct rope_device *device, const struct stg_rope_geometry *g,
                       const struct stg_rope_args *args) {
  const uint64_t all = (uint64_t)(args->qkv_stride | args->q_stride | args->k_stride |
                                  args->v_stride | args->kv.seq_stride | args->kv.head_stride |
                                  args->kv.pos_stride | (int64_t)g->dim) *
                       stg_dtype_bytes(g->dtype);
  return !device->how.misaligned && all % 16 == 0;
}

static void launch(struct rope_device *device, const struct stg_module *module, uint32_t grid,
                   uint32_t threads, void *args) {
  const struct stg_launch_dims dims = {grid, threads, 0};
  void *pointers[] = {args};
  stg_error error = STG_ERROR_INIT;
  check_ok((device->how.early ? stg_launch_early : stg_launch)(
               device->gpu->device, module, &dims, pointers, device->gpu->stream, &error),
           &error);
}

static void launch_rotation(struct rope_device *device, const struct stg_rope_kernel *kernel,
                            struct stg_rope_args *args) {
  struct stg_launch_rule rule;
  struct stg_module *module = rope_device_kernel(device, kernel, &rule);
  const bool v_stays = kernel->sink == STG_ROPE_SINK_OUT && args->kv.v == 0;
  const struct stg_rope_spans spans =
      stg_rope_spans_of(&kernel->geometry, device->how.spread ? 1 : args->rows.rows, v_stays);
  args->spans = spans.spans;
  args->span_items = spans.span_items;
  args->flags = is_aligned(device, &kernel->geometry, args) ? STG_ROPE_ALIGNED : 0;
  launch(device, module, (uint32_t)args->rows.rows * spans.spans, rule.threads, args);
}

/* ---- calls ---- */

/* Ahead of an early launch there are no copies. */
static void settle(const struct rope_device *device) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_synchronize(device->gpu->device, device->gpu->stream, &error), &error);
}

static struct stg_rope_args rotation_args(struct rope_device *device,
                                          const struct stg_cpu_rope_batch *batch, void *len_back) {
  const struct stg_rope_geometry *g = batch->geometry;
  struct stg_rope_args args = {.rows = rows_args(device, &batch->rows, len_back)};
  if (batch->kv != NULL) {
    args.kv = kv_args(device, batch->kv, true);
  } else {
    args.kv.k = put_heads(device, g, &batch->rows, &batch->k, g->kv_heads);
    args.kv.v = put_heads(device, g, &batch->rows, &batch->v, g->kv_heads);
    args.k_stride = batch->k.stride;
    args.v_stride = batch->v.stride;
  }
  args.q = put_heads(device, g, &batch->rows, &batch->q, g->heads);
  args.q_stride = batch->q.stride;
  args.qkv = put_tensor(device, g->dtype, (void *)(uintptr_t)batch->qkv,
                        batch->rows.rows * batch->qkv_stride);
  args.qkv_stride = batch->qkv_stride;
  args.words = put(device, batch->words, sizeof *batch->words, 0, batch->words);
  put_angles(device, g, batch->angles, &args);
  return args;
}

static struct stg_rope_kernel rotation_kernel(const struct stg_cpu_rope_batch *batch) {
  return (struct stg_rope_kernel){
      .geometry = *batch->geometry,
      .sink = batch->kv == NULL                ? STG_ROPE_SINK_OUT
              : batch->kv->block_table == NULL ? STG_ROPE_SINK_DENSE
                                               : STG_ROPE_SINK_PAGED,
      .table = batch->angles->table != NULL,
  };
}

void rope_device_rotate(void *user, const struct stg_cpu_rope_batch *batch) {
  struct rope_device *device = user;
  const struct stg_rope_kernel kernel = rotation_kernel(batch);
  struct stg_rope_args args = rotation_args(device, batch, NULL);
  settle(device);
  launch_rotation(device, &kernel, &args);
  finish(device);
}

void rope_device_steps(struct rope_device *device, const struct stg_cpu_rope_batch *batch,
                       int steps) {
  const struct stg_rope_kernel kernel = rotation_kernel(batch);
  const struct stg_rope_kernel advance = {.work = STG_ROPE_ADVANCE};
  struct stg_launch_rule rule;
  struct stg_module *module = rope_device_kernel(device, &advance, &rule);
  struct stg_rope_args args = rotation_args(device, batch, (void *)(uintptr_t)batch->rows.len);
  struct stg_advance_args lengths = {.rows = args.rows, .kv = args.kv, .on = 1};
  const uint32_t grid = ((uint32_t)args.rows.rows + rule.rows_per_block - 1) / rule.rows_per_block;
  settle(device);
  for (int step = 0; step < steps; step++) {
    launch_rotation(device, &kernel, &args);
    launch(device, module, grid, rule.threads, &lengths);
  }
  finish(device);
}

void rope_device_rotate_back(struct rope_device *device,
                             const struct stg_cpu_rope_gradient *gradient) {
  const struct stg_rope_geometry *g = gradient->geometry;
  const struct stg_rope_kernel kernel = {
      .geometry = *g, .backward = true, .table = gradient->angles->table != NULL};
  const struct stg_step_rows *rows = &gradient->rows;
  struct stg_rope_args args = {
      .rows = rows_args(device, rows, NULL),
      .kv.k = put_heads(device, g, rows, &gradient->k, g->kv_heads),
      .kv.v = put_heads(device, g, rows, &gradient->v, g->kv_heads),
      .q = put_heads(device, g, rows, &gradient->q, g->heads),
      .qkv = put_tensor(device, g->dtype, gradient->qkv, rows->rows * gradient->qkv_stride),
      .qkv_stride = gradient->qkv_stride,
      .q_stride = gradient->q.stride,
      .k_stride = gradient->k.stride,
      .v_stride = gradient->v.stride,
  };
  put_angles(device, g, gradient->angles, &args);
  launch_rotation(device, &kernel, &args);
  finish(device);
}

void rope_device_transpose(struct rope_device *device, const struct stg_cpu_transpose *t) {
  const struct stg_rope_kernel kernel = {.work = STG_ROPE_TRANSPOSE,
                                         .geometry = {.dim = t->dim, .dtype = t->dtype}};
  const bool from_rows = t->from_order == STG_HEADS_ROWS_FIRST;
  const int64_t from_units = from_rows ? t->rows : (int64_t)t->heads;
  const int64_t to_units = from_rows ? (int64_t)t->heads : t->rows;
  const uint64_t all = (uint64_t)(t->from_stride | t->to_stride) * stg_dtype_bytes(t->dtype);
  struct stg_launch_rule rule;
  struct stg_module *module = rope_device_kernel(device, &kernel, &rule);
  struct stg_transpose_args args = {
      .from = put_tensor(device, t->dtype, (void *)(uintptr_t)t->from, from_units * t->from_stride),
      .to = put_tensor(device, t->dtype, t->to, to_units * t->to_stride),
      .from_stride = t->from_stride,
      .to_stride = t->to_stride,
      .rows = (int32_t)t->rows,
      .heads = t->heads,
      .flags = (from_rows ? 0 : STG_TRANSPOSE_FROM_HEADS) |
               (!device->how.misaligned && all % 16 == 0 ? STG_ROPE_ALIGNED : 0),
  };
  launch(device, module, (uint32_t)t->rows, rule.threads, &args);
  finish(device);
}

void rope_device_advance(struct rope_device *device, const struct stg_step_rows *rows,
                         const struct stg_kv_view *kv, bool on) {
  const struct stg_rope_kernel kernel = {.work = STG_ROPE_ADVANCE};
  struct stg_launch_rule rule;
  struct stg_module *module = rope_device_kernel(device, &kernel, &rule);
  struct stg_advance_args args = {
      .rows = rows_args(device, rows, (void *)(uintptr_t)rows->len),
      .kv = kv_args(device, kv, false),
      .on = on,
  };
  const uint32_t grid = ((uint32_t)args.rows.rows + rule.rows_per_block - 1) / rule.rows_per_block;
  launch(device, module, grid, rule.threads, &args);
  finish(device);
}
