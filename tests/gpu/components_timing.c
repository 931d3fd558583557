/*
 * components_timing.c: see components_timing.h.
 *
 * Launches follow each other as nodes of one graph, over two sets of tensors, which the
 * second-level cache does not hold both.
 */
#include "tests/gpu/components_timing.h"

#include <string.h>

#include "codegen/components_extents.h"
#include "runtime/base/dtype.h"
#include "tests/gpu/components_device.h"

#define SETS 2
#define LAUNCHES 32
#define REPEATS 5
#define ONES 0x3f803f80U /* bf16; in f16 1.9 */
#define COMPONENTS 1200

struct shape {
  const char *name;
  int64_t rows;
  uint32_t d_in, d_out;
  bool turned, delta;
  stg_dtype dtype;
};

/* What there are targets for, in the tile that they get. */
static const struct shape targets[] = {
    {"128->128", 16384, 128, 128, false, false, STG_BF16},
    {"128->341", 16384, 128, 341, false, false, STG_BF16},
    {"128->128", 16384, 128, 128, false, false, STG_F16},
    {"128->341", 16384, 128, 341, false, false, STG_F16},
};
/* What figures are chosen by: bf16, in every tile. */
static const struct shape shapes[] = {
    {"128->128", 16384, 128, 128, false, false, STG_BF16},
    {"128->128 turned", 16384, 128, 128, true, false, STG_BF16},
    {"128->128 turned delta", 16384, 128, 128, true, true, STG_BF16},
    {"128->64", 16384, 128, 64, false, false, STG_BF16},
    {"128->341", 16384, 128, 341, false, false, STG_BF16},
    {"128->344", 16384, 128, 344, false, false, STG_BF16},
    {"128->341 turned", 16384, 128, 341, true, false, STG_BF16},
    {"128->344 turned", 16384, 128, 344, true, false, STG_BF16},
    {"341->128", 16384, 341, 128, false, false, STG_BF16},
    {"341->128 turned", 16384, 341, 128, true, false, STG_BF16},
    {"128->128", 2048, 128, 128, false, false, STG_BF16},
    {"128->128", 4096, 128, 128, false, false, STG_BF16},
    {"128->128", 8192, 128, 128, false, false, STG_BF16},
    {"128->128", 32768, 128, 128, false, false, STG_BF16},
};

struct timed {
  const struct gpu *gpu;
  struct stg_module *module;
  struct stg_launch_dims dims;
  struct stg_components_apply_args args[SETS];
  uint64_t owned[SETS * 3 + 8];
  size_t n_owned;
};

static uint64_t allocate(struct timed *timed, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  uint64_t address = 0;
  const size_t words = (bytes + 3) / 4;
  check_ok(stg_device_alloc(timed->gpu->device, words * 4, &address, &error), &error);
  check_ok(stg_fill_u32(timed->gpu->device, address, ONES, words, timed->gpu->stream, &error),
           &error);
  timed->owned[timed->n_owned++] = address;
  return address;
}

static void open_timed(struct components_device *device, const struct shape *shape, uint32_t tile,
                       struct timed *ret_timed, struct stg_components_kernel *ret_kernel) {
  const size_t unit = stg_dtype_bytes(shape->dtype);
  const size_t rows = (size_t)shape->rows;
  const uint32_t in = shape->turned ? shape->d_out : shape->d_in;
  const uint32_t out = shape->turned ? shape->d_in : shape->d_out;
  struct stg_launch_rule rule;
  *ret_kernel = (struct stg_components_kernel){
      .geometry = {.d_in = shape->d_in,
                   .d_out = shape->d_out,
                   .components = COMPONENTS,
                   .dtype = shape->dtype,
                   .mask = STG_COMPONENTS_MASK_DTYPE,
                   .delta = shape->delta},
      .turned = shape->turned,
      .tile = tile,
      .sm = components_device_sm(device),
  };
  const struct stg_components_geometry *g = &ret_kernel->geometry;
  *ret_timed = (struct timed){.gpu = device->gpu};
  ret_timed->module = components_device_kernel(device, ret_kernel, &rule);
  ret_timed->dims = (struct stg_launch_dims){((uint32_t)shape->rows + rule.rows_per_block - 1) /
                                                 rule.rows_per_block,
                                             rule.threads, stg_launch_stage_bytes(&rule, false)};
  struct stg_components_apply_args args = {
      .first = allocate(ret_timed, (size_t)in * g->components * unit),
      .second = allocate(ret_timed, (size_t)out * g->components * unit),
      .delta = allocate(ret_timed, (size_t)out * in * unit),
      .d = allocate(ret_timed, rows * unit),
      .dd = allocate(ret_timed, rows * unit),
      .x = allocate(ret_timed, rows * out * unit),
      .in_stride = in,
      .out_stride = out,
      .x_stride = out,
      .mask_stride = g->components,
      .rows = (int32_t)shape->rows,
      .sequence = 1,
      .share = 1,
  };
  for (size_t i = 0; i < SETS; i++) {
    args.in = allocate(ret_timed, rows * in * unit);
    args.out = allocate(ret_timed, rows * out * unit);
    args.mask = allocate(ret_timed, rows * g->components * unit);
    args.flags = stg_components_apply_flags(g, shape->turned, &args);
    ret_timed->args[i] = args;
  }
}

/* Shortest time of a launch in the graph, in microseconds. */
static double shortest(struct timed *timed) {
  const struct gpu *gpu = timed->gpu;
  struct stg_graph_kernel nodes[LAUNCHES];
  void *pointers[LAUNCHES];
  struct stg_graph *graph = NULL;
  struct stg_event *ends[2] = {NULL, NULL};
  stg_error error = STG_ERROR_INIT;
  double best = 0;
  for (size_t i = 0; i < LAUNCHES; i++) {
    pointers[i] = &timed->args[i % SETS];
    nodes[i] = (struct stg_graph_kernel){timed->module, timed->dims, &pointers[i]};
  }
  check_ok(stg_graph_create(gpu->device, nodes, LAUNCHES, gpu->stream, &graph, &error), &error);
  for (int i = 0; i < 2; i++) {
    check_ok(stg_event_create(gpu->device, true, &ends[i], &error), &error);
  }
  for (int repeat = 0; repeat <= REPEATS; repeat++) {
    double us = 0;
    check_ok(stg_event_record(gpu->device, ends[0], gpu->stream, &error), &error);
    check_ok(stg_graph_launch(gpu->device, graph, gpu->stream, &error), &error);
    check_ok(stg_event_record(gpu->device, ends[1], gpu->stream, &error), &error);
    check_ok(stg_event_synchronize(gpu->device, ends[1], &error), &error);
    check_ok(stg_event_elapsed_us(gpu->device, ends[0], ends[1], &us, &error), &error);
    best = repeat <= 1 || us < best ? us : best; /* the first one warms up */
  }
  for (int i = 0; i < 2; i++) {
    stg_event_destroy(gpu->device, ends[i]);
  }
  stg_graph_destroy(gpu->device, graph);
  return best / LAUNCHES;
}

/* What has to come from memory and to go there, once; of weights that stay in the cache too. */
static double bytes_of(const struct shape *shape) {
  const double unit = (double)stg_dtype_bytes(shape->dtype);
  const double widths = (double)shape->d_in + shape->d_out;
  const double delta = !shape->delta ? 0 : (double)shape->d_in * shape->d_out;
  const double rows = (double)shape->rows * (widths + COMPONENTS);
  /* dd needs x as well; d and dd themselves are a row of numbers each */
  const double more = shape->delta && shape->turned ? (double)shape->rows * (shape->d_in + 2) : 0;
  return unit * (rows + more + widths * COMPONENTS + delta);
}

static void print_line(struct components_device *device, const struct shape *shape, uint32_t tile) {
  struct stg_components_kernel kernel;
  struct timed timed;
  open_timed(device, shape, tile, &timed, &kernel);
  const struct stg_components_extents e = stg_components_extents_of(&kernel);
  const double us = shortest(&timed);
  const double flop = 2.0 * (double)shape->rows * COMPONENTS * (shape->d_in + shape->d_out);
  const double bytes = bytes_of(shape);
  print_message("%-21s %-4s %6lld %4u %5u %6u %9.2f %8.1f %7.1f %7.0f\n", shape->name,
                stg_dtype_name(shape->dtype), (long long)shape->rows, e.tile, e.chunk, e.stages, us,
                flop / us / 1e6, bytes / 1e6, bytes / us / 1e3);
  while (timed.n_owned > 0) {
    stg_device_free(device->gpu->device, timed.owned[--timed.n_owned]);
  }
}

void prints_times_where_asked_to(void **state) {
  struct components_device *device = *state;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  const char *asked = getenv("STG_TEST_TIME");
  const bool all = asked != NULL && strcmp(asked, "all") == 0;
  if (asked == NULL || (!all && strcmp(asked, "1") != 0)) {
    skip();
  }
  device->how = (struct components_how){0};
  print_message("%-21s %-4s %6s %4s %5s %6s %9s %8s %7s %7s\n", "components, C 1200", "", "rows",
                "tile", "chunk", "stages", "us", "TFLOP/s", "MB", "GB/s");
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    print_line(device, &targets[i], stg_components_tile_of(targets[i].rows));
  }
  for (size_t i = 0; all && i < 3 * (sizeof shapes / sizeof shapes[0]); i++) {
    print_line(device, &shapes[i / 3], 32U << i % 3);
  }
}
