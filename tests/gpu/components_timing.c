/*
 * components_timing.c: see components_timing.h.
 *
 * Launches follow each other as nodes of one graph, over two sets of tensors, which the
 * second-level cache does not hold both.
 *
 * STG_COMPONENTS_VARIANTS="16,32;32,32;0,0,32,3" times other choices as well (components_text.h):
 * rows of a warp's own, columns that it makes at once, chunk and stages (0: as suits), each once
 * its results are within the bounds. STG_COMPONENTS_ONLY="bf16" leaves lines that have that.
 */
#include "tests/gpu/components_timing.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "tests/gpu/components_applied.h"

#define SETS 2
#define LAUNCHES 32
#define REPEATS 5
#define COMPONENTS 1200
#define SEED_BYTES ((size_t)1 << 22)

/* What a line is of. */
enum what { APPLY, TURNED, WEIGHTS, SUM };

struct shape {
  int64_t rows;
  uint32_t d_in, d_out;
  enum what what;
  bool delta;
  stg_dtype dtype;
  bool tf32;
};

/* What there are targets for, in the tile that they get, each with all works. */
static const struct shape targets[] = {
    {16384, 128, 128, APPLY, false, STG_BF16, false},
    {16384, 128, 341, APPLY, false, STG_BF16, false},
    {16384, 128, 128, APPLY, false, STG_F32, true},
    {16384, 128, 341, APPLY, false, STG_F32, true},
};
/* What figures are chosen by: bf16, in every tile. */
static const struct shape shapes[] = {
    {16384, 128, 128, APPLY, false, STG_BF16, false},
    {16384, 128, 128, TURNED, false, STG_BF16, false},
    {16384, 128, 128, TURNED, true, STG_BF16, false},
    {16384, 128, 64, APPLY, false, STG_BF16, false},
    {16384, 128, 341, APPLY, false, STG_BF16, false},
    {16384, 128, 344, APPLY, false, STG_BF16, false},
    {16384, 128, 341, TURNED, false, STG_BF16, false},
    {16384, 128, 344, TURNED, false, STG_BF16, false},
    {16384, 341, 128, APPLY, false, STG_BF16, false},
    {16384, 341, 128, TURNED, false, STG_BF16, false},
    {2048, 128, 128, APPLY, false, STG_BF16, false},
    {4096, 128, 128, APPLY, false, STG_BF16, false},
    {8192, 128, 128, APPLY, false, STG_BF16, false},
    {32768, 128, 128, APPLY, false, STG_BF16, false},
};

struct timed {
  const struct gpu *gpu;
  const struct shape *shape;
  struct stg_components_kernel kernel;
  struct stg_module *module;
  struct stg_launch_rule rule;
  struct stg_launch_dims dims;
  union {
    struct stg_components_apply_args apply;
    struct stg_components_weights_args weights;
    struct stg_components_sum_args sum;
  } args[SETS];
  void *seed; /* pinned: numbers of 1/8 to 1/2 of either sign */
  uint64_t owned[SETS * 6 + 8];
  size_t n_owned;
};

/* Numbers as they might be: of constants a GPU takes less power, and is faster. */
static void make_seed(struct timed *timed) {
  static const uint32_t keep[] = {
      [STG_BF16] = 0x81ff81ffU, [STG_F16] = 0x87ff87ffU, [STG_F32] = 0x80ffffffU};
  static const uint32_t set[] = {
      [STG_BF16] = 0x3e003e00U, [STG_F16] = 0x30003000U, [STG_F32] = 0x3e000000U};
  stg_error error = STG_ERROR_INIT;
  uint32_t state = 0x9e3779b9U;
  check_ok(stg_pinned_alloc(timed->gpu->device, SEED_BYTES, &timed->seed, &error), &error);
  uint32_t *const words = timed->seed;
  for (size_t i = 0; i < SEED_BYTES / sizeof *words; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    words[i] = (state & keep[timed->shape->dtype]) | set[timed->shape->dtype];
  }
}

static uint64_t allocate(struct timed *timed, size_t bytes) {
  const struct gpu *gpu = timed->gpu;
  stg_error error = STG_ERROR_INIT;
  uint64_t address = 0;
  check_ok(stg_device_alloc(gpu->device, bytes, &address, &error), &error);
  for (size_t at = 0; at < bytes; at += SEED_BYTES) {
    const size_t n = bytes - at < SEED_BYTES ? bytes - at : SEED_BYTES;
    check_ok(stg_copy_to_device(gpu->device, address + at, timed->seed, n, gpu->stream, &error),
             &error);
  }
  timed->owned[timed->n_owned++] = address;
  return address;
}

/* A tensor of the shape's rows. */
static uint64_t allocate_rows(struct timed *timed, size_t columns) {
  return allocate(timed,
                  (size_t)timed->shape->rows * columns * stg_dtype_bytes(timed->shape->dtype));
}

static void fill_apply(struct timed *timed) {
  const struct shape *shape = timed->shape;
  const size_t unit = stg_dtype_bytes(shape->dtype);
  const bool turned = shape->what == TURNED;
  const uint32_t in = turned ? shape->d_out : shape->d_in;
  const uint32_t out = turned ? shape->d_in : shape->d_out;
  struct stg_components_apply_args args = {
      .first = allocate(timed, (size_t)in * COMPONENTS * unit),
      .second = allocate(timed, (size_t)out * COMPONENTS * unit),
      .delta = allocate(timed, (size_t)out * in * unit),
      .d = allocate_rows(timed, 1),
      .dd = allocate_rows(timed, 1),
      .x = allocate_rows(timed, out),
      .in_stride = in,
      .out_stride = out,
      .x_stride = out,
      .mask_stride = COMPONENTS,
      .rows = (int32_t)shape->rows,
      .sequence = 1,
      .share = 1,
  };
  for (size_t i = 0; i < SETS; i++) {
    args.in = allocate_rows(timed, in);
    args.out = allocate_rows(timed, out);
    args.mask = allocate_rows(timed, COMPONENTS);
    args.flags = stg_components_apply_flags(&timed->kernel.geometry, turned, &args);
    timed->args[i].apply = args;
  }
  timed->dims.grid_x =
      ((uint32_t)shape->rows + timed->rule.rows_per_block - 1) / timed->rule.rows_per_block;
}

static uint64_t allocate_parts(struct timed *timed) {
  struct stg_components_parts parts;
  assert_true(
      stg_components_parts_of(&timed->kernel.geometry, timed->shape->rows, 1, false, &parts));
  return allocate(timed, parts.floats * sizeof(float));
}

static void fill_weights(struct timed *timed) {
  const struct shape *shape = timed->shape;
  const size_t unit = stg_dtype_bytes(shape->dtype);
  struct stg_components_weights_args args = {
      .v = allocate(timed, (size_t)shape->d_in * COMPONENTS * unit),
      .u = allocate(timed, (size_t)shape->d_out * COMPONENTS * unit),
      .d = allocate_rows(timed, 1),
      .parts = allocate_parts(timed),
      .x_stride = shape->d_in,
      .dy_stride = shape->d_out,
      .mask_stride = COMPONENTS,
      .dm_stride = COMPONENTS,
      .rows = (int32_t)shape->rows,
      .span = (int32_t)stg_components_span(COMPONENTS, shape->rows),
      .sequence = 1,
      .share = 1,
  };
  for (size_t i = 0; i < SETS; i++) {
    args.x = allocate_rows(timed, shape->d_in);
    args.dy = allocate_rows(timed, shape->d_out);
    args.mask = allocate_rows(timed, COMPONENTS);
    args.dm = allocate_rows(timed, COMPONENTS);
    args.flags = stg_components_weights_flags(&timed->kernel.geometry, false, &args);
    timed->args[i].weights = args;
  }
  timed->dims.grid_x = (uint32_t)stg_components_weights_blocks(&timed->kernel, shape->rows);
}

static void fill_sum(struct timed *timed) {
  const struct shape *shape = timed->shape;
  const size_t unit = stg_dtype_bytes(shape->dtype);
  const struct stg_components_sum_args args = {
      .parts = allocate_parts(timed),
      .dv = allocate(timed, (size_t)shape->d_in * COMPONENTS * unit),
      .du = allocate(timed, (size_t)shape->d_out * COMPONENTS * unit),
      .ddelta = allocate(timed, (size_t)shape->d_out * shape->d_in * unit),
      .rows = (int32_t)shape->rows,
      .span = (int32_t)stg_components_span(COMPONENTS, shape->rows),
      .share = 1,
  };
  for (size_t i = 0; i < SETS; i++) {
    timed->args[i].sum = args;
  }
  timed->dims.grid_x =
      (uint32_t)stg_components_sum_blocks(&timed->kernel.geometry, shape->rows, 1, false);
}

static void open_timed(struct components_device *device, const struct shape *shape, uint32_t tile,
                       struct stg_components_choice choice, struct timed *ret_timed) {
  static const enum stg_components_work works[] = {
      [APPLY] = STG_COMPONENTS_APPLY,
      [TURNED] = STG_COMPONENTS_APPLY,
      [WEIGHTS] = STG_COMPONENTS_WEIGHTS,
      [SUM] = STG_COMPONENTS_SUM,
  };
  stg_error error = STG_ERROR_INIT;
  *ret_timed = (struct timed){.gpu = device->gpu,
                              .shape = shape,
                              .kernel = {.work = works[shape->what],
                                         .geometry = {.d_in = shape->d_in,
                                                      .d_out = shape->d_out,
                                                      .components = COMPONENTS,
                                                      .dtype = shape->dtype,
                                                      .tf32 = shape->tf32,
                                                      .mask = STG_COMPONENTS_MASK_DTYPE,
                                                      .delta = shape->delta},
                                         .turned = shape->what == TURNED,
                                         .tile = tile,
                                         .choice = choice,
                                         .sm = components_device_sm(device)}};
  ret_timed->module = components_device_kernel(device, &ret_timed->kernel, &ret_timed->rule);
  ret_timed->dims = (struct stg_launch_dims){1, ret_timed->rule.threads,
                                             stg_launch_stage_bytes(&ret_timed->rule, false)};
  make_seed(ret_timed);
  if (shape->what == WEIGHTS) {
    fill_weights(ret_timed);
  } else if (shape->what == SUM) {
    fill_sum(ret_timed);
  } else {
    fill_apply(ret_timed);
  }
  check_ok(stg_stream_synchronize(device->gpu->device, device->gpu->stream, &error), &error);
}

static void close_timed(struct timed *timed) {
  while (timed->n_owned > 0) {
    stg_device_free(timed->gpu->device, timed->owned[--timed->n_owned]);
  }
  stg_pinned_free(timed->gpu->device, timed->seed);
}

/* For a profiler. */
static void launch_once(struct timed *timed) {
  const struct gpu *gpu = timed->gpu;
  void *pointers[] = {&timed->args[0]};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_launch(gpu->device, timed->module, &timed->dims, pointers, gpu->stream, &error),
           &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
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
static double bytes_of(const struct timed *timed) {
  const struct shape *shape = timed->shape;
  const double unit = (double)stg_dtype_bytes(shape->dtype);
  const double widths = (double)shape->d_in + shape->d_out;
  const double delta = !shape->delta ? 0 : (double)shape->d_in * shape->d_out;
  const double spans = (double)stg_components_spans(COMPONENTS, shape->rows);
  const double rows = (double)shape->rows;
  const double weights = widths * COMPONENTS + delta;
  switch (shape->what) {
  case WEIGHTS: /* the mask comes, and dm goes */
    return unit * (rows * (widths + 2 * COMPONENTS) + weights) + 4 * spans * weights;
  case SUM:
    return (unit + 4 * spans) * weights;
  case APPLY:
  case TURNED:
    break;
  }
  /* dd needs x as well; d and dd themselves are a row of numbers each */
  const double more = shape->delta && shape->what == TURNED ? rows * (shape->d_in + 2) : 0;
  return unit * (rows * (widths + COMPONENTS) + more + weights);
}

static void name_of(const struct shape *shape, struct stg_components_choice choice, char *ret,
                    size_t size) {
  const int n =
      snprintf(ret, size, "%u->%u%s", shape->d_in, shape->d_out, shape->delta ? " delta" : "");
  if (choice.rows != 0 || choice.chunk != 0) {
    (void)snprintf(ret + n, size - (size_t)n, " %u,%u,%u,%u", choice.rows, choice.columns,
                   choice.chunk, choice.stages);
  }
}

static void print_line(struct components_device *device, const struct shape *shape, uint32_t tile,
                       struct stg_components_choice choice, bool once) {
  static const char *const names[] = {
      [APPLY] = "apply", [TURNED] = "turned", [WEIGHTS] = "weights", [SUM] = "sum"};
  static const double products[] = {[APPLY] = 1, [TURNED] = 1, [WEIGHTS] = 2, [SUM] = 0};
  struct timed timed;
  char name[64];
  open_timed(device, shape, tile, choice, &timed);
  if (once) {
    launch_once(&timed);
    close_timed(&timed);
    return;
  }
  const double us = shortest(&timed);
  const double flop =
      products[shape->what] * 2.0 * (double)shape->rows * COMPONENTS * (shape->d_in + shape->d_out);
  const double bytes = bytes_of(&timed);
  name_of(shape, choice, name, sizeof name);
  print_message("%-24s %-7s %-4s %6lld %4u %6u %6u %9.2f %8.1f %7.1f %7.0f\n", name,
                names[shape->what], shape->tf32 ? "tf32" : stg_dtype_name(shape->dtype),
                (long long)shape->rows, timed.rule.rows_per_block, timed.dims.grid_x,
                timed.dims.shared_bytes, us, flop / us / 1e6, bytes / 1e6, bytes / us / 1e3);
  close_timed(&timed);
}

/* What comes next in STG_COMPONENTS_VARIANTS; a count that is left out is 0. */
static bool next_choice(const char **text, struct stg_components_choice *ret) {
  uint32_t numbers[4] = {0};
  const char *at = *text;
  if (at == NULL || *at == '\0') {
    return false;
  }
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    char *end = NULL;
    numbers[i] = (uint32_t)strtoul(at, &end, 10);
    at = end + (*end == ',');
  }
  *ret = (struct stg_components_choice){numbers[0], numbers[1], numbers[2], numbers[3]};
  *text = *at == ';' ? at + 1 : NULL;
  return true;
}

/* Both ways, of few rows. */
static void check_choice(struct components_device *device, const struct shape *shape,
                         struct stg_components_choice choice) {
  struct components_shape few = components_shape(shape->d_in, COMPONENTS, shape->d_out, 150);
  struct attn_bed bed;
  struct components_case c;
  few.geometry.dtype = shape->dtype;
  few.geometry.tf32 = shape->tf32;
  few.geometry.delta = shape->delta;
  few.geometry.mask = STG_COMPONENTS_MASK_DTYPE;
  attn_open(&bed, 1);
  applied_open(&bed, &few, &c);
  applied_run_well(device, &c,
                   (struct components_how){.tile = 128, .choice = choice, .aligned = true});
  attn_close(&bed);
  device->how = (struct components_how){0};
}

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
static void print_choices(struct components_device *device, const struct shape *shape,
                          uint32_t tile) {
  const char *text = getenv("STG_COMPONENTS_VARIANTS");
  struct stg_components_choice choice;
  while (next_choice(&text, &choice)) {
    const struct stg_components_kernel kernel = {.geometry = {.d_in = shape->d_in,
                                                              .d_out = shape->d_out,
                                                              .components = COMPONENTS,
                                                              .dtype = shape->dtype,
                                                              .tf32 = shape->tf32,
                                                              .mask = STG_COMPONENTS_MASK_DTYPE,
                                                              .delta = shape->delta},
                                                 .turned = shape->what == TURNED,
                                                 .tile = tile,
                                                 .choice = choice,
                                                 .sm = components_device_sm(device)};
    if (shape->what <= TURNED && stg_components_has_room(&kernel)) {
      check_choice(device, shape, choice);
      print_line(device, shape, tile, choice, false);
    }
  }
}

static void print_lines(struct components_device *device, const struct shape *shape, uint32_t tile,
                        bool once) {
  const char *only = getenv("STG_COMPONENTS_ONLY");
  char name[64];
  (void)snprintf(name, sizeof name, "%u->%u %s", shape->d_in, shape->d_out,
                 shape->tf32 ? "tf32" : stg_dtype_name(shape->dtype));
  if (only != NULL && strstr(name, only) == NULL) {
    return;
  }
  print_line(device, shape, tile, (struct stg_components_choice){0}, once);
  if (!once) {
    print_choices(device, shape, tile);
  }
}

void prints_times_where_asked_to(void **state) {
  struct components_device *device = *state;
  const char *asked = getenv("STG_TEST_TIME");
  const bool all = asked != NULL && strcmp(asked, "all") == 0;
  const bool once = asked != NULL && strcmp(asked, "once") == 0;
  if (asked == NULL || (!all && !once && strcmp(asked, "1") != 0)) {
    skip();
  }
  device->how = (struct components_how){0};
  print_message("%-24s %-7s %-4s %6s %4s %6s %6s %9s %8s %7s %7s\n", "C 1200", "work", "", "rows",
                "tile", "blocks", "shared", "us", "TFLOP/s", "MB", "GB/s");
  for (size_t i = 0; i < 4 * (sizeof targets / sizeof targets[0]); i++) {
    struct shape shape = targets[i / 4];
    shape.what = (enum what)(i % 4);
    print_lines(device, &shape, stg_components_tile_of(shape.rows), once);
  }
  for (size_t i = 0; all && i < 3 * (sizeof shapes / sizeof shapes[0]); i++) {
    print_lines(device, &shapes[i / 3], 32U << i % 3, false);
  }
}
/* NOLINTEND(concurrency-mt-unsafe) */
