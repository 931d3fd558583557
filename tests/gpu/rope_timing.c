/*
 * rope_timing.c: see rope_timing.h.
 *
 * Launches follow each other, each over another set of tensors, as many sets as the second-level
 * cache does not hold twice. "stream": launched one by one, which for short kernels is the host's
 * time; "graph": nodes of one graph, which is what a step has.
 */
#include "tests/gpu/rope_timing.h"

#include "codegen/rope_extents.h"
#include "runtime/base/dtype.h"
#include "tests/gpu/rope_device.h"

#define MAX_SETS 8
#define LAUNCHES 64
#define REPEATS 5
#define BYTES_PER_US 4.2e6 /* of an H200, reads and writes */
#define CACHE_BYTES (2 * 62914560ULL)

/* A geometry; what is not as usual stands behind it. */
#define HEADS(n, n_kv, size, type)                                                                 \
  .heads = (n), .kv_heads = (n_kv), .dim = (size), .rot = (size), .dtype = (type)

static const struct shape {
  const char *name;
  int64_t rows;
  uint32_t batch; /* 0: to tensors; else appended to a cache of rows/batch positions */
  bool backward;
  bool v_stays;
  struct stg_rope_geometry geometry;
} shapes[] = {
    {"4x2048 32/8 D64 bf16 append", 8192, 4, false, false, {HEADS(32, 8, 64, STG_BF16)}},
    {"4x2048 32/8 D64 bf16 out", 8192, 0, false, false, {HEADS(32, 8, 64, STG_BF16)}},
    {"4x2048 32/8 D64 bf16 backward", 8192, 0, true, false, {HEADS(32, 8, 64, STG_BF16)}},
    {"4x2048 32/8 D64 bf16 each_op",
     8192,
     0,
     false,
     false,
     {HEADS(32, 8, 64, STG_BF16), .round = STG_ROPE_ROUND_EACH_OP, .trig = STG_ROPE_TRIG_DTYPE}},
    {"4x2048 32/8 D64 bf16 interleaved pairs",
     8192,
     0,
     false,
     false,
     {HEADS(32, 8, 64, STG_BF16), .pairs = STG_ROPE_PAIRS_INTERLEAVED}},
    {"8192 12/12 D64 bf16 head_fastest",
     8192,
     0,
     false,
     false,
     {HEADS(12, 12, 64, STG_BF16), .layout = STG_ROPE_LAYOUT_HEAD_FASTEST}},
    {"8192 32/8 D128 bf16 out", 8192, 0, false, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"8x2048 32/32 D128 f32 Q and K", 16384, 0, false, true, {HEADS(32, 32, 128, STG_F32)}},
    {"4x2048 32/8 D64 bf16 Q and K", 8192, 0, false, true, {HEADS(32, 8, 64, STG_BF16)}},
    {"8x2048 32/32 D128 f32 out", 16384, 0, false, false, {HEADS(32, 32, 128, STG_F32)}},
    {"decode 1 32/8 D128 bf16 append", 1, 1, false, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"decode 8 12/12 D64 bf16 append", 8, 8, false, false, {HEADS(12, 12, 64, STG_BF16)}},
    {"decode 32 32/8 D128 bf16 append", 32, 32, false, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"decode 64 32/8 D128 bf16 append", 64, 64, false, false, {HEADS(32, 8, 128, STG_BF16)}},
};

struct timed {
  const struct gpu *gpu;
  const struct shape *shape;
  struct stg_module *module;
  struct stg_launch_dims dims;
  struct stg_rope_args args[MAX_SETS];
  uint64_t owned[MAX_SETS * 4 + 3];
  size_t n_owned, n_sets;
  double bytes; /* of a launch, in and out */
};

static uint64_t allocate(struct timed *timed, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  uint64_t address = 0;
  const size_t words = (bytes + 3) / 4;
  check_ok(stg_device_alloc(timed->gpu->device, words * 4, &address, &error), &error);
  check_ok(stg_fill_u32(timed->gpu->device, address, 0, words, timed->gpu->stream, &error), &error);
  timed->owned[timed->n_owned++] = address;
  return address;
}

/* Row r is of sequence r % batch: at position r / batch, or where that is one step at its length.
 */
static uint64_t put_rows(struct timed *timed, uint32_t batch) {
  const int64_t rows = timed->shape->rows;
  const size_t words = STG_ROWS_HEADER_WORDS + 2 * (size_t)rows;
  const uint64_t address = allocate(timed, words * 4);
  void *staged = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_pinned_alloc(timed->gpu->device, words * 4, &staged, &error), &error);
  int32_t *map = staged;
  map[0] = (int32_t)rows;
  map[1] = rows == (int64_t)batch ? (int32_t)STG_ROWS_AT_LEN : (int32_t)STG_ROWS_AT_POS32;
  map[2] = STG_ROWS_HEADER_WORDS + (int32_t)rows;
  map[3] = 0;
  for (int64_t row = 0; row < rows; row++) {
    map[STG_ROWS_HEADER_WORDS + row] = (int32_t)(row % batch);
    map[map[2] + row] = (int32_t)(row / batch);
  }
  check_ok(
      stg_copy_to_device(timed->gpu->device, address, map, words * 4, timed->gpu->stream, &error),
      &error);
  check_ok(stg_stream_synchronize(timed->gpu->device, timed->gpu->stream, &error), &error);
  stg_pinned_free(timed->gpu->device, staged);
  return address;
}

static struct stg_kv_args cache_of(const struct shape *shape, uint32_t batch) {
  const struct stg_rope_geometry *g = &shape->geometry;
  const int64_t capacity = shape->rows / batch < 1024 ? 1024 : shape->rows / batch;
  return (struct stg_kv_args){.capacity = (int32_t)capacity,
                              .pos_stride = g->dim,
                              .head_stride = capacity * g->dim,
                              .seq_stride = capacity * g->dim * g->kv_heads};
}

static void open_timed(struct rope_device *device, const struct shape *shape,
                       struct timed *ret_timed) {
  const struct stg_rope_geometry *g = &shape->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const struct stg_rope_kernel kernel = {.geometry = *g,
                                         .backward = shape->backward,
                                         .sink = shape->batch != 0 ? STG_ROPE_SINK_DENSE
                                                                   : STG_ROPE_SINK_OUT};
  const uint32_t batch = shape->batch != 0 ? shape->batch : 1;
  const struct stg_rope_spans spans = stg_rope_spans_of(g, shape->rows, shape->v_stays);
  struct stg_launch_rule rule;
  *ret_timed = (struct timed){.gpu = device->gpu, .shape = shape};
  ret_timed->module = rope_device_kernel(device, &kernel, &rule);
  ret_timed->dims = (struct stg_launch_dims){(uint32_t)shape->rows * spans.spans, rule.threads, 0};
  const int64_t kept = shape->v_stays ? (int64_t)g->kv_heads * g->dim : 0;
  ret_timed->bytes =
      2.0 * (double)shape->rows * (double)(stg_rope_row_elems(g) - kept) * (double)unit;
  ret_timed->n_sets = 1;
  while (ret_timed->n_sets < MAX_SETS &&
         ret_timed->bytes * (double)ret_timed->n_sets < (double)CACHE_BYTES && shape->rows > 64) {
    ret_timed->n_sets++;
  }
  const struct stg_kv_args kv =
      shape->batch != 0 ? cache_of(shape, batch) : (struct stg_kv_args){0};
  const int64_t kv_row = (int64_t)g->kv_heads * g->dim;
  const int64_t kv_elems = shape->batch != 0 ? kv.seq_stride * batch : shape->rows * kv_row;
  struct stg_rope_args args = {
      .rows = {.map = put_rows(ret_timed, batch),
               .len = allocate(ret_timed, batch * sizeof(int32_t)),
               .rows = (int32_t)shape->rows,
               .batch = batch},
      .kv = kv,
      .inv_freq = allocate(ret_timed, g->rot / 2 * sizeof(float)),
      .qkv_stride = stg_rope_row_elems(g),
      .q_stride = (int64_t)g->heads * g->dim,
      .k_stride = kv_row,
      .v_stride = kv_row,
      .spans = spans.spans,
      .span_items = spans.span_items,
      .flags = STG_ROPE_ALIGNED,
  };
  for (size_t i = 0; i < ret_timed->n_sets; i++) {
    args.qkv = allocate(ret_timed, (size_t)(shape->rows * args.qkv_stride) * unit);
    args.q = allocate(ret_timed, (size_t)(shape->rows * args.q_stride) * unit);
    args.kv.k = allocate(ret_timed, (size_t)kv_elems * unit);
    args.kv.v = shape->v_stays ? 0 : allocate(ret_timed, (size_t)kv_elems * unit);
    ret_timed->args[i] = args;
  }
}

static void close_timed(struct timed *timed) {
  while (timed->n_owned > 0) {
    stg_device_free(timed->gpu->device, timed->owned[--timed->n_owned]);
  }
}

/* Shortest time of a launch, in microseconds. `graph` NULL: one by one. */
static double shortest(struct timed *timed, struct stg_graph *graph) {
  const struct gpu *gpu = timed->gpu;
  struct stg_event *ends[2] = {NULL, NULL};
  stg_error error = STG_ERROR_INIT;
  double best = 0;
  for (int i = 0; i < 2; i++) {
    check_ok(stg_event_create(gpu->device, true, &ends[i], &error), &error);
  }
  for (int repeat = 0; repeat <= REPEATS; repeat++) {
    double us = 0;
    check_ok(stg_event_record(gpu->device, ends[0], gpu->stream, &error), &error);
    if (graph != NULL) {
      check_ok(stg_graph_launch(gpu->device, graph, gpu->stream, &error), &error);
    }
    for (size_t i = 0; i < LAUNCHES && graph == NULL; i++) {
      void *pointers[] = {&timed->args[i % timed->n_sets]};
      check_ok(
          stg_launch_early(gpu->device, timed->module, &timed->dims, pointers, gpu->stream, &error),
          &error);
    }
    check_ok(stg_event_record(gpu->device, ends[1], gpu->stream, &error), &error);
    check_ok(stg_event_synchronize(gpu->device, ends[1], &error), &error);
    check_ok(stg_event_elapsed_us(gpu->device, ends[0], ends[1], &us, &error), &error);
    best = repeat <= 1 || us < best ? us : best; /* the first one warms up */
  }
  for (int i = 0; i < 2; i++) {
    stg_event_destroy(gpu->device, ends[i]);
  }
  return best / LAUNCHES;
}

static double shortest_of_graph(struct timed *timed) {
  struct stg_graph_kernel nodes[LAUNCHES];
  void *pointers[LAUNCHES];
  struct stg_graph *graph = NULL;
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < LAUNCHES; i++) {
    pointers[i] = &timed->args[i % timed->n_sets];
    nodes[i] = (struct stg_graph_kernel){timed->module, timed->dims, &pointers[i]};
  }
  check_ok(
      stg_graph_create(timed->gpu->device, nodes, LAUNCHES, timed->gpu->stream, &graph, &error),
      &error);
  const double us = shortest(timed, graph);
  stg_graph_destroy(timed->gpu->device, graph);
  return us;
}

void prints_times_where_asked_to(void **state) {
  struct rope_device *device = *state;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  const char *asked = getenv("STG_TEST_TIME");
  if (asked == NULL || asked[0] != '1') {
    skip();
  }
  print_message("%-42s %9s %9s %9s %9s %6s\n", "rope", "MB", "floor us", "stream us", "graph us",
                "ratio");
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    struct timed timed;
    open_timed(device, &shapes[i], &timed);
    const double stream = shortest(&timed, NULL);
    const double graph = shortest_of_graph(&timed);
    const double floor = timed.bytes / BYTES_PER_US;
    print_message("%-42s %9.2f %9.2f %9.2f %9.2f %6.2f\n", shapes[i].name, timed.bytes / 1e6, floor,
                  stream, graph, graph / floor);
    close_timed(&timed);
  }
}
