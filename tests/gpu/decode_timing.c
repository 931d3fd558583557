/*
 * decode_timing.c: see decode_timing.h.
 *
 * Launches follow each other, each over another cache, as many of them as the second-level cache
 * does not hold twice. "stream": launched one by one, which for short kernels is the host's time;
 * "graph": nodes of one graph, which is what a step has. Bytes are those of the K and V that rows
 * read; of several rows of one sequence, those of the longest.
 *
 * STG_DECODE_ONLY="12/12" leaves the shapes whose names have that. STG_DECODE_VARIANTS="4,16,4,256;
 * 8,16,3,0,2" times other choices as well: warps, positions of a slice, resident blocks, chunk (0:
 * as for the capacity), and blocks of the grid for each multiprocessor (0: the resident ones).
 * STG_DECODE_VARIANTS=survey times those of a table, for the shapes that it has, within a minute.
 */
#include "tests/gpu/decode_timing.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "runtime/base/dtype.h"
#include "tests/gpu/decode_bed.h"

#define MAX_SETS 8
#define MAX_ROWS 512
#define LAUNCHES 32
#define REPEATS 5
#define BYTES_PER_US 4.2e6 /* of an H200 */
#define CACHE_BYTES (2 * 62914560ULL)
#define PATTERN 0x3c003c00U /* small numbers in every type */
#define SURVEY_SECONDS 55.0

/* What is not as usual stands behind it. */
#define HEADS(n, n_kv, size, type) .heads = (n), .kv_heads = (n_kv), .dim = (size), .dtype = (type)

static const struct shape {
  const char *name;
  uint32_t rows, batch; /* more rows than sequences: those before the last positions */
  int32_t capacity, shortest, longest; /* positions that rows read, evenly from here to there */
  uint32_t block_shift;                /* of a paged cache */
  bool owner;
  struct stg_decode_geometry geometry;
} shapes[] = {
    {"32 32/8 D128 bf16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"32 32/8 D128 bf16 4096 paged 16",
     32,
     32,
     4096,
     512,
     4096,
     4,
     false,
     {HEADS(32, 8, 128, STG_BF16), .paged = true}},
    {"8 12/12 D64 bf16 1024", 8, 8, 1024, 148, 1024, 0, false, {HEADS(12, 12, 64, STG_BF16)}},
    {"8 12/12 D64 bf16 1024 paged 16",
     8,
     8,
     1024,
     148,
     1024,
     4,
     false,
     {HEADS(12, 12, 64, STG_BF16), .paged = true}},
    {"32 64/8 D128 bf16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(64, 8, 128, STG_BF16)}},
    {"32 32/8 D128 f32 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 128, STG_F32)}},
    {"32 32/8 D64 f16 4096", 32, 32, 4096, 512, 4096, 0, false, {HEADS(32, 8, 64, STG_F16)}},
    {"1 32/8 D128 bf16 32768", 1, 1, 32768, 32768, 32768, 0, false, {HEADS(32, 8, 128, STG_BF16)}},
    {"64 8/8 D128 bf16 1024 owner", 64, 64, 1024, 128, 1024, 0, true, {HEADS(8, 8, 128, STG_BF16)}},
    {"512 of one 32/8 D128 bf16 2048 owner",
     512,
     1,
     2048,
     2048,
     2048,
     0,
     true,
     {HEADS(32, 8, 128, STG_BF16)}},
};

/* Another choice than the family's; zeros: the same. */
struct variant {
  struct stg_decode_choice choice;
  uint32_t chunk, blocks;
};

/* What is worth a look, by shape; what tells most comes first. */
static const struct survey {
  const char *name;
  struct variant variants[9];
} surveys[] = {
    {"32 32/8 D128 bf16 4096",
     {{{8, 16, 2}, 128, 0},
      {{4, 16, 3}, 128, 0},
      {{4, 16, 4}, 256, 0},
      {{2, 16, 7}, 128, 0},
      {{4, 32, 2}, 128, 0},
      {{8, 16, 2}, 256, 0},
      {{2, 16, 6}, 128, 0},
      {{2, 32, 4}, 128, 0},
      {{16, 16, 1}, 256, 0}}},
    {"8 12/12 D64 bf16 1024",
     {{{4, 32, 4}, 128, 0},
      {{16, 16, 1}, 1024, 0},
      {{16, 32, 1}, 1024, 0},
      {{8, 32, 2}, 512, 0},
      {{8, 32, 2}, 256, 0},
      {{4, 32, 4}, 256, 0},
      {{16, 16, 1}, 512, 0},
      {{8, 16, 2}, 1024, 0},
      {{8, 16, 2}, 128, 0}}},
    {"32 64/8 D128 bf16 4096",
     {{{8, 16, 2}, 128, 0},
      {{4, 16, 3}, 128, 0},
      {{4, 16, 4}, 256, 0},
      {{2, 16, 6}, 128, 0},
      {{4, 32, 2}, 128, 0},
      {{8, 16, 2}, 256, 0},
      {{2, 16, 5}, 128, 0},
      {{16, 16, 1}, 256, 0}}},
    {"32 32/8 D128 bf16 4096 paged 16",
     {{{8, 16, 2}, 128, 0},
      {{4, 16, 3}, 128, 0},
      {{4, 16, 4}, 256, 0},
      {{2, 16, 7}, 128, 0},
      {{4, 32, 2}, 128, 0},
      {{8, 16, 2}, 256, 0}}},
    {"32 32/8 D64 f16 4096",
     {{{4, 32, 4}, 256, 0}, {{8, 32, 2}, 256, 0}, {{4, 16, 4}, 128, 0}, {{2, 32, 6}, 128, 0}}},
};

struct timed {
  const struct gpu *gpu;
  const struct shape *shape;
  struct stg_decode_geometry geometry;
  struct stg_decode_extents extents;
  struct decode_kernel kernel;
  struct stg_launch_dims dims;
  struct stg_decode_args args[MAX_SETS];
  uint64_t owned[MAX_SETS * 4 + 8];
  size_t n_owned, n_sets;
  double bytes; /* of K and V that are read */
};

static uint64_t allocate(struct timed *timed, size_t bytes, uint32_t word) {
  stg_error error = STG_ERROR_INIT;
  uint64_t address = 0;
  const size_t words = (bytes + 3) / 4;
  check_ok(stg_device_alloc(timed->gpu->device, words * 4 + 4, &address, &error), &error);
  check_ok(stg_fill_u32(timed->gpu->device, address, word, words, timed->gpu->stream, &error),
           &error);
  timed->owned[timed->n_owned++] = address;
  return address;
}

static uint64_t put(struct timed *timed, const int32_t *words, size_t count) {
  const uint64_t address = allocate(timed, count * sizeof *words, 0);
  void *staged = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_pinned_alloc(timed->gpu->device, count * 4, &staged, &error), &error);
  memcpy(staged, words, count * sizeof *words);
  check_ok(stg_copy_to_device(timed->gpu->device, address, staged, count * 4, timed->gpu->stream,
                              &error),
           &error);
  check_ok(stg_stream_synchronize(timed->gpu->device, timed->gpu->stream, &error), &error);
  stg_pinned_free(timed->gpu->device, staged);
  return address;
}

/* The positions that sequence k reads. */
static int32_t length_of(const struct shape *shape, uint32_t k) {
  const int32_t steps = shape->batch > 1 ? (int32_t)shape->batch - 1 : 1;
  return shape->shortest + (shape->longest - shape->shortest) * (int32_t)k / steps;
}

static void put_rows(struct timed *timed, struct stg_decode_args *args) {
  const struct shape *shape = timed->shape;
  int32_t map[STG_ROWS_HEADER_WORDS + 2 * MAX_ROWS] = {
      (int32_t)shape->rows, (int32_t)STG_ROWS_AT_POS32, STG_ROWS_HEADER_WORDS + MAX_ROWS, 0};
  for (uint32_t row = 0; row < shape->rows; row++) {
    const uint32_t back = row / shape->batch;
    map[STG_ROWS_HEADER_WORDS + row] = (int32_t)(row % shape->batch);
    map[STG_ROWS_HEADER_WORDS + MAX_ROWS + row] =
        length_of(shape, row % shape->batch) - 1 - (int32_t)back;
  }
  args->rows = (struct stg_rows_args){.map = put(timed, map, sizeof map / sizeof map[0]),
                                      .rows = (int32_t)shape->rows,
                                      .batch = shape->batch};
}

/* Strides of a cache, and a table of blocks in a scattered order. */
static void put_cache(struct timed *timed, struct stg_decode_args *args) {
  const struct shape *shape = timed->shape;
  const struct stg_decode_geometry *g = &shape->geometry;
  const int64_t unit = g->paged ? (int64_t)1 << shape->block_shift : shape->capacity;
  args->kv = (struct stg_kv_args){.capacity = shape->capacity,
                                  .pos_stride = g->dim,
                                  .head_stride = unit * g->dim,
                                  .seq_stride = unit * g->dim * g->kv_heads};
  if (g->paged) {
    const uint32_t row = (uint32_t)shape->capacity >> shape->block_shift;
    const uint32_t blocks = row * shape->batch;
    int32_t *table = calloc(blocks, sizeof *table);
    assert_non_null(table);
    for (uint32_t i = 0; i < blocks; i++) {
      table[i] = (int32_t)((uint64_t)i * 4097 % blocks); /* odd, and blocks a power of two */
    }
    args->kv.block_table = put(timed, table, blocks);
    args->kv.table_row = (int32_t)row;
    args->kv.block_shift = shape->block_shift;
    args->kv.n_blocks = (int32_t)blocks;
    free(table);
  }
}

static void put_tensors(struct timed *timed, struct stg_decode_args args) {
  const struct shape *shape = timed->shape;
  const struct stg_decode_geometry *g = &shape->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const size_t row = (size_t)g->heads * g->dim * unit;
  const size_t cache = shape->batch * (size_t)shape->capacity * g->kv_heads * g->dim * unit;
  args.q = allocate(timed, shape->rows * row, PATTERN);
  args.out = allocate(timed, shape->rows * row, 0);
  for (size_t i = 0; i < timed->n_sets; i++) {
    args.kv.k = allocate(timed, cache, PATTERN);
    args.kv.v = allocate(timed, cache, PATTERN);
    timed->args[i] = args;
  }
}

/* The geometry and extents of a variant. False: the kernel has none that is like it. */
static bool choose(const struct shape *shape, struct variant variant, struct timed *timed) {
  struct stg_decode_geometry *g = &timed->geometry;
  *g = shape->geometry;
  g->chunk = variant.chunk != 0 ? variant.chunk : stg_decode_chunk(g, shape->capacity);
  timed->extents = variant.choice.warps != 0 ? stg_decode_extents_with(g, variant.choice)
                                             : stg_decode_extents_of(g);
  const struct stg_decode_extents *e = &timed->extents;
  const bool is_other = variant.choice.warps == 0 || e->products;
  return is_other && (!e->products || g->chunk % (e->threads / 32 * e->slice) == 0) &&
         g->chunk >= STG_DECODE_MIN_CHUNK && e->ring_bytes <= 200U << 10 &&
         (shape->owner || (uint32_t)shape->capacity <= g->chunk * STG_DECODE_MAX_CHUNKS);
}

/* Of a shape and a choice that are in `ret_timed`. */
static void open_timed(const struct gpu *gpu, const struct shape *shape, uint32_t blocks,
                       struct timed *ret_timed) {
  const struct stg_decode_geometry g = ret_timed->geometry;
  const struct stg_decode_extents extents = ret_timed->extents;
  uint32_t sms = (uint32_t)stg_device_get_info(gpu->device)->multiprocessors;
  struct stg_decode_space space = stg_decode_space_of(&g, shape->rows, shape->capacity, 0);
  *ret_timed =
      (struct timed){.gpu = gpu, .shape = shape, .geometry = g, .extents = extents, .n_sets = 1};
  decode_kernel_open_with(gpu, &g, &extents, &ret_timed->kernel);
  for (uint32_t k = 0; k < shape->batch; k++) {
    ret_timed->bytes +=
        2.0 * length_of(shape, k) * g.kv_heads * g.dim * (double)stg_dtype_bytes(g.dtype);
  }
  while (ret_timed->n_sets < MAX_SETS &&
         ret_timed->bytes * (double)ret_timed->n_sets < (double)CACHE_BYTES) {
    ret_timed->n_sets++;
  }
  space.split_rows = shape->owner ? 0 : space.split_rows;
  const struct stg_decode_launch launch = stg_decode_launch_of(&g, &space, shape->rows, sms);
  const uint64_t items = (uint64_t)shape->rows * extents.tiles * (launch.owner ? 1 : space.chunks);
  sms *= blocks != 0 ? blocks : extents.resident_blocks;
  ret_timed->dims =
      (struct stg_launch_dims){items < sms ? (uint32_t)items : sms, ret_timed->kernel.rule.threads,
                               ret_timed->kernel.rule.stage_bytes};
  struct stg_decode_args args = {
      .q_stride = (int64_t)g.heads * g.dim,
      .out_stride = (int64_t)g.heads * g.dim,
      .chunks = (int32_t)space.chunks,
      .scale = 1 / sqrtf((float)g.dim),
      .flags = STG_DECODE_ALIGNED | (launch.owner ? STG_DECODE_OWNER : 0),
  };
  if (!launch.owner) {
    args.partials = allocate(ret_timed, space.partial_bytes, 0);
    args.counters = allocate(ret_timed, space.counter_bytes, 0);
  }
  put_rows(ret_timed, &args);
  put_cache(ret_timed, &args);
  put_tensors(ret_timed, args);
}

static void close_timed(struct timed *timed) {
  while (timed->n_owned > 0) {
    stg_device_free(timed->gpu->device, timed->owned[--timed->n_owned]);
  }
  decode_kernel_close(&timed->kernel);
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
      check_ok(stg_launch_early(gpu->device, timed->kernel.module, &timed->dims, pointers,
                                gpu->stream, &error),
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
    nodes[i] = (struct stg_graph_kernel){timed->kernel.module, timed->dims, &pointers[i]};
  }
  check_ok(
      stg_graph_create(timed->gpu->device, nodes, LAUNCHES, timed->gpu->stream, &graph, &error),
      &error);
  const double us = shortest(timed, graph);
  stg_graph_destroy(timed->gpu->device, graph);
  return us;
}

static void print_times(const struct gpu *gpu, const struct shape *shape, struct variant variant) {
  struct timed timed;
  if (!choose(shape, variant, &timed)) {
    return;
  }
  open_timed(gpu, shape, variant.blocks, &timed);
  const double stream = shortest(&timed, NULL);
  const double graph = shortest_of_graph(&timed);
  const double floor = timed.bytes / BYTES_PER_US;
  print_message("%-38s %5u %5u %3u %6u %6u %8.2f %8.2f %9.2f %8.2f %5.2f\n", shape->name,
                timed.extents.threads / 32, timed.extents.slice, timed.extents.resident_blocks,
                timed.geometry.chunk, timed.dims.grid_x, timed.bytes / 1e6, floor, stream, graph,
                graph / floor);
  close_timed(&timed);
}

/* "4,16,4,256,8": what is not said is 0. Returns what stands behind it, NULL: nothing does. */
static const char *read_variant(const char *text, struct variant *ret) {
  uint32_t numbers[5] = {0};
  char *end = NULL;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    numbers[i] = (uint32_t)strtoul(text, &end, 10);
    text = end;
    if (*text != ',') {
      break;
    }
    text++;
  }
  *ret = (struct variant){{numbers[0], numbers[1], numbers[2]}, numbers[3], numbers[4]};
  return *text == ';' ? text + 1 : NULL;
}

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The family's choices of all shapes before any other: what has no time left is said. */
static void print_survey(const struct gpu *gpu, const char *only) {
  const size_t most = sizeof surveys[0].variants / sizeof surveys[0].variants[0];
  const double begin = seconds();
  size_t left_out = 0;
  for (size_t nth = 0; nth <= most; nth++) {
    for (size_t k = 0; k < sizeof surveys / sizeof surveys[0]; k++) {
      const struct variant variant = nth == 0 ? (struct variant){0} : surveys[k].variants[nth - 1];
      const struct shape *shape = shapes;
      while (strcmp(shape->name, surveys[k].name) != 0) {
        shape++;
      }
      if ((nth > 0 && variant.choice.warps == 0) ||
          (only != NULL && strstr(shape->name, only) == NULL)) {
        continue;
      }
      if (seconds() - begin > SURVEY_SECONDS) {
        left_out++;
      } else {
        print_times(gpu, shape, variant);
      }
    }
  }
  print_message("%zu left out, %.1f s\n", left_out, seconds() - begin);
}

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
void prints_times_where_asked_to(void **state) {
  const struct gpu *gpu = *state;
  const char *asked = getenv("STG_TEST_TIME");
  const char *only = getenv("STG_DECODE_ONLY");
  const char *variants = getenv("STG_DECODE_VARIANTS");
  if (asked == NULL || asked[0] != '1') {
    skip();
  }
  print_message("%-38s %5s %5s %3s %6s %6s %8s %8s %9s %8s %5s\n", "decode", "warps", "slice",
                "res", "chunk", "blocks", "MB", "floor us", "stream us", "graph us", "ratio");
  if (variants != NULL && strcmp(variants, "survey") == 0) {
    print_survey(gpu, only);
    return;
  }
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    if (only != NULL && strstr(shapes[i].name, only) == NULL) {
      continue;
    }
    print_times(gpu, &shapes[i], (struct variant){0});
    for (const char *text = variants; text != NULL;) {
      struct variant variant;
      text = read_variant(text, &variant);
      print_times(gpu, &shapes[i], variant);
    }
  }
}
/* NOLINTEND(concurrency-mt-unsafe) */
