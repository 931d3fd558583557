/*
 * components_device.c: see components_device.h.
 */
#include "tests/gpu/components_device.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"
#include "runtime/cubin.h"

#define GUARD_BYTES 256
#define GUARD 0xff /* NaN in every type */
#define UNIT_BYTES 16

struct components_slot {
  struct components_slot *next;
  struct stg_strbuf source;
  struct stg_launch_rule rule;
  struct stg_module *module;
};

/* Rows of bytes. */
struct rows {
  void *data;
  size_t count, bytes, stride;
};

/* Memory of the device with guards around it and between its rows, and where these go to. */
struct components_memory {
  struct components_memory *next;
  uint64_t address; /* of the first guard */
  struct rows host;
  size_t before, stride, all; /* bytes on the device */
  bool back;
  void *staged;
};

int components_device_setup(void **state) {
  struct components_device *device = stg_calloc(1, sizeof *device);
  void *gpu = NULL;
  if (device == NULL || gpu_setup(&gpu) != 0) {
    stg_free(device);
    return -1;
  }
  device->gpu = gpu;
  *state = device;
  return 0;
}

int components_device_teardown(void **state) {
  struct components_device *device = *state;
  while (device->kernels != NULL) {
    struct components_slot *slot = device->kernels;
    device->kernels = slot->next;
    stg_module_unload(device->gpu->device, slot->module);
    stg_strbuf_finish(&slot->source);
    stg_free(slot);
  }
  void *gpu = device->gpu;
  stg_free(device);
  return gpu_teardown(&gpu);
}

uint32_t components_device_sm(const struct components_device *device) {
  uint32_t sm = 0;
  assert_true(stg_arch_parse(stg_device_get_info(device->gpu->device)->arch, &sm));
  return device->how.sm != 0 ? device->how.sm : sm;
}

static struct stg_module *load(const struct gpu *gpu, const struct stg_components_kernel *kernel,
                               const struct components_slot *slot) {
  const struct stg_log no_log = {0};
  const char *name = stg_components_kernel_name(kernel->work);
  struct stg_kernel_request request = gpu_request(gpu, name, stg_strbuf_text(&slot->source));
  struct stg_kernel_image image = {0};
  struct stg_strbuf prelude = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_components_prelude(kernel->work, &prelude);
  request.prelude = stg_strbuf_text(&prelude);
  request.threads = slot->rule.threads;
  request.rows_per_block = slot->rule.rows_per_block;
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  const stg_status status = stg_module_load(gpu->device, image.cubin, name, &module, &error);
  stg_kernel_image_finish(&image);
  stg_strbuf_finish(&prelude);
  check_ok(status, &error);
  return module;
}

struct stg_module *components_device_kernel(struct components_device *device,
                                            const struct stg_components_kernel *kernel,
                                            struct stg_launch_rule *ret_rule) {
  struct components_slot *slot = stg_calloc(1, sizeof *slot);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(slot);
  check_ok(stg_components_generate(kernel, &slot->source, &slot->rule, &error), &error);
  *ret_rule = slot->rule;
  for (struct components_slot *other = device->kernels; other != NULL; other = other->next) {
    if (strcmp(stg_strbuf_text(&other->source), stg_strbuf_text(&slot->source)) == 0) {
      stg_strbuf_finish(&slot->source);
      stg_free(slot);
      return other->module;
    }
  }
  slot->module = load(device->gpu, kernel, slot);
  slot->next = device->kernels;
  device->kernels = slot;
  return slot->module;
}

/* ---- memory ---- */

static unsigned char *staged_row(const struct components_memory *memory, size_t row) {
  return (unsigned char *)memory->staged + memory->before + row * memory->stride;
}
static unsigned char *host_row(const struct components_memory *memory, size_t row) {
  return (unsigned char *)memory->host.data + row * memory->host.stride;
}

/* Bring rows to the device, `stride` bytes apart there; `off`: bytes by which they begin behind a
 * multiple of 256. With `back` finish brings them home. 0: there are none. */
static uint64_t put(struct components_device *device, struct rows rows, size_t stride, size_t off,
                    bool back) {
  struct components_memory *memory = stg_calloc(1, sizeof *memory);
  const struct gpu *gpu = device->gpu;
  const size_t all = rows.count * stride + 2 * (size_t)GUARD_BYTES + off;
  stg_error error = STG_ERROR_INIT;
  if (rows.data == NULL) {
    stg_free(memory);
    return 0;
  }
  assert_non_null(memory);
  *memory = (struct components_memory){.next = device->memory,
                                       .host = rows,
                                       .before = GUARD_BYTES + off,
                                       .stride = stride,
                                       .all = all,
                                       .back = back};
  check_ok(stg_pinned_alloc(gpu->device, all, &memory->staged, &error), &error);
  check_ok(stg_device_alloc(gpu->device, all, &memory->address, &error), &error);
  memset(memory->staged, GUARD, all);
  for (size_t row = 0; row < rows.count; row++) {
    memcpy(staged_row(memory, row), host_row(memory, row), rows.bytes);
  }
  check_ok(
      stg_copy_to_device(gpu->device, memory->address, memory->staged, all, gpu->stream, &error),
      &error);
  device->memory = memory;
  return memory->address + memory->before;
}

static void check_guard(const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(bytes[i], GUARD);
  }
}

static void take_back(const struct components_memory *memory) {
  check_guard(memory->staged, memory->before);
  for (size_t row = 0; row < memory->host.count; row++) {
    unsigned char *const bytes = staged_row(memory, row);
    check_guard(bytes + memory->host.bytes, memory->stride - memory->host.bytes);
    if (memory->back) {
      memcpy(host_row(memory, row), bytes, memory->host.bytes);
    }
  }
  check_guard(staged_row(memory, memory->host.count), GUARD_BYTES);
}

/* Wait; bring back what is to come back, and fail where a guard was written. */
static void finish(struct components_device *device) {
  const struct gpu *gpu = device->gpu;
  stg_error error = STG_ERROR_INIT;
  for (struct components_memory *m = device->memory; m != NULL; m = m->next) {
    check_ok(stg_copy_to_host(gpu->device, m->staged, m->address, m->all, gpu->stream, &error),
             &error);
  }
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  while (device->memory != NULL) {
    struct components_memory *memory = device->memory;
    device->memory = memory->next;
    take_back(memory);
    stg_pinned_free(gpu->device, memory->staged);
    stg_device_free(gpu->device, memory->address);
    stg_free(memory);
  }
}

/* ---- arguments ---- */

/* A tensor by rows that have a stride of their own, in elements of `unit` bytes. */
struct tensor {
  const void *data;
  int64_t rows, columns, stride;
  size_t unit;
  bool back;
};

static uint64_t put_tensor(struct components_device *device, const struct tensor *tensor,
                           int64_t *ret_stride) {
  const size_t unit = tensor->unit;
  const struct rows rows = {.data = (void *)(uintptr_t)tensor->data,
                            .count = (size_t)tensor->rows,
                            .bytes = (size_t)tensor->columns * unit,
                            .stride = (size_t)tensor->stride * unit};
  const size_t stride =
      device->how.aligned ? stg_round_up(rows.bytes, UNIT_BYTES) + UNIT_BYTES : rows.stride;
  *ret_stride = (int64_t)(stride / unit);
  return put(device, rows, stride, device->how.misaligned ? unit : 0, tensor->back);
}

/* A matrix without gaps, or a row of numbers. */
static uint64_t put_packed(struct components_device *device, const void *data, size_t elems,
                           size_t unit, bool back) {
  const struct rows rows = {(void *)(uintptr_t)data, 1, elems * unit, elems * unit};
  return put(device, rows, rows.stride, device->how.misaligned ? unit : 0, back);
}

static uint64_t put_valid(struct components_device *device,
                          const struct stg_components_rows *rows) {
  if (rows->valid == NULL) {
    return 0;
  }
  const size_t count = (size_t)((rows->rows + rows->sequence - 1) / rows->sequence);
  const struct rows counts = {(void *)(uintptr_t)rows->valid, 1, count * sizeof(int32_t),
                              count * sizeof(int32_t)};
  return put(device, counts, counts.stride, 0, false);
}

/* What both directions read. */
static struct stg_components_apply_args common_args(struct components_device *device,
                                                    const struct components_case *c) {
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct tensor mask = {
      in->mask,        stg_components_groups(in->rows.rows, in->mask_share), g->components,
      in->mask_stride, g->mask == STG_COMPONENTS_MASK_BOOL ? 1 : unit,       false};
  struct stg_components_apply_args args = {
      .rows = (int32_t)in->rows.rows,
      .sequence = in->rows.valid != NULL ? (int32_t)in->rows.sequence : 1,
      .share = (int32_t)in->mask_share,
      .valid = put_valid(device, &in->rows),
      .d = put_packed(device, in->d, (size_t)in->rows.rows, unit, false),
      .delta = put_packed(device, in->delta, (size_t)g->d_out * g->d_in, unit, false),
  };
  args.mask = put_tensor(device, &mask, &args.mask_stride);
  return args;
}

/* Ahead of an early launch there are no copies. */
static void settle(const struct components_device *device) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_synchronize(device->gpu->device, device->gpu->stream, &error), &error);
}

/* A block for each unit, or for as many rows as the rule says. */
static void launch(struct components_device *device, const struct stg_components_kernel *kernel,
                   int64_t units, bool by_rows, void *args) {
  struct stg_launch_rule rule;
  const struct stg_module *module = components_device_kernel(device, kernel, &rule);
  const int64_t each = by_rows ? rule.rows_per_block : 1;
  const struct stg_launch_dims dims = {(uint32_t)((units + each - 1) / each), rule.threads,
                                       stg_launch_stage_bytes(&rule, false)};
  void *pointers[] = {args};
  stg_error error = STG_ERROR_INIT;
  check_ok((device->how.early ? stg_launch_early : stg_launch)(
               device->gpu->device, module, &dims, pointers, device->gpu->stream, &error),
           &error);
}

static void launch_apply(struct components_device *device, const struct components_case *c,
                         bool turned, struct stg_components_apply_args *args) {
  struct stg_components_kernel kernel = {
      .geometry = c->geometry,
      .turned = turned,
      .tile = device->how.tile != 0 ? device->how.tile : 32,
      .choice = device->how.choice,
      .sm = components_device_sm(device),
  };
  if (!stg_components_has_room(&kernel)) {
    kernel.choice = (struct stg_components_choice){0};
  }
  args->flags = stg_components_apply_flags(&c->geometry, turned, args);
  settle(device);
  launch(device, &kernel, args->rows, true, args);
  finish(device);
}

void components_device_apply(struct components_device *device, const struct components_case *c) {
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct tensor x = {in->x, in->rows.rows, g->d_in, in->x_stride, unit, false};
  const struct tensor y = {c->y, in->rows.rows, g->d_out, c->y_stride, unit, true};
  struct stg_components_apply_args args = common_args(device, c);
  args.in = put_tensor(device, &x, &args.in_stride);
  args.out = put_tensor(device, &y, &args.out_stride);
  args.first = put_packed(device, in->v, (size_t)g->d_in * g->components, unit, false);
  args.second = put_packed(device, in->u, (size_t)g->components * g->d_out, unit, false);
  args.bias = put_packed(device, in->bias, g->d_out, unit, false);
  launch_apply(device, c, false, &args);
}

void components_device_turn(struct components_device *device, const struct components_case *c) {
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct tensor dy = {c->dy, in->rows.rows, g->d_out, c->dy_stride, unit, false};
  const struct tensor dx = {c->out.dx, in->rows.rows, g->d_in, c->out.dx_stride, unit, true};
  const struct tensor x = {
      g->delta ? in->x : NULL, in->rows.rows, g->d_in, in->x_stride, unit, false};
  struct stg_components_apply_args args = common_args(device, c);
  args.in = put_tensor(device, &dy, &args.in_stride);
  args.out = put_tensor(device, &dx, &args.out_stride);
  args.x = put_tensor(device, &x, &args.x_stride);
  args.first = put_packed(device, in->u, (size_t)g->components * g->d_out, unit, false);
  args.second = put_packed(device, in->v, (size_t)g->d_in * g->components, unit, false);
  args.dd = put_packed(device, c->out.dd, (size_t)in->rows.rows, unit, true);
  launch_apply(device, c, true, &args);
}

/* Sums of parts that are on the device: what of the case's gradients has sums. */
static struct stg_components_sum_args sum_args(struct components_device *device,
                                               const struct components_case *c, uint64_t parts) {
  const struct stg_components_geometry *g = &c->geometry;
  const int64_t rows = c->inputs.rows.rows;
  const int64_t share = c->inputs.mask_share;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct tensor dm = {
      c->out.dm, stg_components_groups(rows, share), g->components, c->out.dm_stride, unit, true};
  struct stg_components_sum_args args = {
      .parts = parts,
      .dv = put_packed(device, c->out.dv, (size_t)g->d_in * g->components, unit, true),
      .du = put_packed(device, c->out.du, (size_t)g->components * g->d_out, unit, true),
      .ddelta = put_packed(device, c->out.ddelta, (size_t)g->d_out * g->d_in, unit, true),
      .dbias = put_packed(device, c->out.dbias, g->d_out, unit, true),
      .rows = (int32_t)rows,
      .span = (int32_t)stg_components_span(g->components, rows),
      .share = (int32_t)share,
  };
  if (share > 1) {
    args.dm = put_tensor(device, &dm, &args.dm_stride);
  }
  return args;
}

static void launch_sum(struct components_device *device, const struct components_case *c,
                       struct stg_components_sum_args *args) {
  const struct stg_components_kernel kernel = {.work = STG_COMPONENTS_SUM, .geometry = c->geometry};
  launch(device, &kernel,
         stg_components_sum_blocks(&c->geometry, args->rows, args->share, args->dm != 0), false,
         args);
}

static size_t floats_of_parts(const struct components_case *c) {
  const bool shared_dm = c->out.dm != NULL && c->inputs.mask_share > 1;
  struct stg_components_parts layout;
  assert_true(stg_components_parts_of(&c->geometry, c->inputs.rows.rows, c->inputs.mask_share,
                                      shared_dm, &layout));
  return layout.floats;
}

void components_device_sum(struct components_device *device, const struct components_case *c,
                           const float *parts) {
  const uint64_t there = put_packed(device, parts, floats_of_parts(c), sizeof *parts, false);
  struct stg_components_sum_args args = sum_args(device, c, there);
  settle(device);
  launch_sum(device, c, &args);
  finish(device);
}

static struct stg_components_weights_args
weights_args(struct components_device *device, const struct components_case *c, float *parts) {
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const int64_t rows = in->rows.rows;
  const bool dm_of_rows = c->out.dm != NULL && in->mask_share == 1;
  const struct tensor x = {in->x, rows, g->d_in, in->x_stride, unit, false};
  const struct tensor dy = {c->dy, rows, g->d_out, c->dy_stride, unit, false};
  const struct tensor dm = {
      dm_of_rows ? c->out.dm : NULL, rows, g->components, c->out.dm_stride, unit, true};
  const struct stg_components_apply_args common = common_args(device, c);
  struct stg_components_weights_args args = {
      .v = put_packed(device, in->v, (size_t)g->d_in * g->components, unit, false),
      .u = put_packed(device, in->u, (size_t)g->components * g->d_out, unit, false),
      .mask = common.mask,
      .d = common.d,
      .valid = common.valid,
      .mask_stride = common.mask_stride,
      .rows = common.rows,
      .span = (int32_t)stg_components_span(g->components, rows),
      .sequence = common.sequence,
      .share = common.share,
  };
  const struct rows room = {parts, 1, floats_of_parts(c) * sizeof *parts, 0};
  args.parts = put(device, room, room.bytes, 0, false);
  args.x = put_tensor(device, &x, &args.x_stride);
  args.dy = put_tensor(device, &dy, &args.dy_stride);
  args.dm = put_tensor(device, &dm, &args.dm_stride);
  args.flags = stg_components_weights_flags(g, c->out.dm != NULL && in->mask_share > 1, &args);
  return args;
}

void components_device_back(struct components_device *device, const struct components_case *c) {
  const struct stg_components_kernel kernel = {
      .work = STG_COMPONENTS_WEIGHTS, .geometry = c->geometry, .sm = components_device_sm(device)};
  const int64_t rows = c->inputs.rows.rows;
  float *parts = attn_nans(c->bed, STG_F32, (int64_t)floats_of_parts(c));
  struct stg_components_weights_args weights = weights_args(device, c, parts);
  struct stg_components_sum_args sum = sum_args(device, c, weights.parts);
  settle(device);
  launch(device, &kernel, stg_components_weights_blocks(&kernel, rows), false, &weights);
  launch_sum(device, c, &sum);
  finish(device);
}
