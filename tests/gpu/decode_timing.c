/*
 * decode_timing.c: see decode_timing.h.
 *
 * Launches follow each other, each over another cache, as many of them as the second-level cache
 * does not hold twice. "stream": launched one by one, which for short kernels is the host's time;
 * "nodes": of a graph, each of which begins when the one before has ended; "captured": likewise as
 * a host captures them, which is what a step has: each begins early. Bytes are those of the K and V
 * that rows read; of several rows of one sequence, those of the longest. "/4.2" is to these bytes
 * at 4.2 TB/s, "/read" to a kernel that reads as many of them and does nothing else, captured.
 *
 * STG_DECODE_ONLY="12/12" leaves the shapes whose names have that, "=NAME" one shape.
 * STG_DECODE_VARIANTS="4,16,4,256;8,16,3,0,2" times other choices as well: warps, positions of a
 * slice, resident blocks, chunk (0: as for the capacity), and blocks of the grid for each
 * multiprocessor (0: the resident ones). STG_DECODE_PROBE=1: what blocks wait for as well
 * (decode_probe.h). STG_DECODE_PREPARE=sm_90, without a device: compile the same to
 * STG_TEST_CUBINS, and time nothing.
 */
#include "tests/gpu/decode_timing.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "tests/gpu/decode_bed.h"
#include "tests/gpu/decode_floor.h"
#include "tests/gpu/decode_probe.h"
#include "tests/gpu/decode_shapes.h"
#include "tests/gpu/launches.h"

#define MAX_SETS LAUNCHES_MAX_SETS
#define MAX_ROWS 512
#define BYTES_PER_US 4.2e6 /* of an H200 */
#define CACHE_BYTES (2 * 62914560ULL)
#define PATTERN 0x3c003c00U /* small numbers in every type */

/* Another choice than the family's; zeros: the same. */
struct decode_variant {
  struct stg_decode_choice choice;
  uint32_t chunk, blocks;
};

struct timed {
  const struct gpu *gpu;
  const struct decode_shape *shape;
  struct stg_decode_geometry geometry;
  struct stg_decode_extents extents;
  struct decode_kernel kernel;
  struct stg_launch_dims dims;
  struct stg_decode_args args[MAX_SETS];
  uint64_t owned[MAX_SETS * 4 + 8];
  size_t n_owned, n_sets;
  double bytes;   /* of K and V that are read */
  double read_us; /* what a plain read of them takes, or 0 */
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
static int32_t length_of(const struct decode_shape *shape, uint32_t k) {
  const int32_t steps = shape->batch > 1 ? (int32_t)shape->batch - 1 : 1;
  return shape->shortest + (shape->longest - shape->shortest) * (int32_t)k / steps;
}

static void put_rows(struct timed *timed, struct stg_decode_args *args) {
  const struct decode_shape *shape = timed->shape;
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
  const struct decode_shape *shape = timed->shape;
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
  const struct decode_shape *shape = timed->shape;
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
static bool choose(const struct decode_shape *shape, struct decode_variant variant,
                   struct timed *timed) {
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
static void open_timed(const struct gpu *gpu, const struct decode_shape *shape, uint32_t blocks,
                       struct timed *ret_timed) {
  const struct stg_decode_geometry g = ret_timed->geometry;
  const struct stg_decode_extents extents = ret_timed->extents;
  uint32_t sms = (uint32_t)stg_device_get_info(gpu->device)->multiprocessors;
  struct stg_decode_space space = stg_decode_space_of(&g, shape->rows, shape->capacity, 0);
  *ret_timed =
      (struct timed){.gpu = gpu, .shape = shape, .geometry = g, .extents = extents, .n_sets = 1};
  decode_kernel_open_with(gpu, &g, &extents, false, &ret_timed->kernel);
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

static struct times decode_times(struct timed *timed) {
  struct launches l = {.gpu = timed->gpu,
                       .module = timed->kernel.module,
                       .dims = timed->dims,
                       .n_sets = timed->n_sets};
  for (size_t i = 0; i < timed->n_sets; i++) {
    l.args[i] = &timed->args[i];
  }
  return launches_time(&l);
}

/* The same bytes, from the beginning of K and of V. */
static struct times floor_times(struct timed *timed) {
  struct decode_floor_args args[MAX_SETS];
  struct stg_module *module = decode_floor_open(timed->gpu);
  struct launches l = {.gpu = timed->gpu,
                       .module = module,
                       .dims = decode_floor_dims(timed->gpu),
                       .n_sets = timed->n_sets};
  for (size_t i = 0; i < timed->n_sets; i++) {
    args[i] = (struct decode_floor_args){timed->args[i].kv.k, timed->args[i].kv.v,
                                         timed->args[i].out, (int64_t)(timed->bytes / 2 / 16)};
    l.args[i] = &args[i];
  }
  const struct times times = launches_time(&l);
  stg_module_unload(timed->gpu->device, module);
  return times;
}

static void print_line(const struct timed *timed, const char *what, struct times times) {
  const double floor = timed->bytes / BYTES_PER_US;
  print_message("%-32s %2u,%2u,%u,%-5u %4u %7.2f %7.2f %7.2f %7.2f %7.2f %5.2f %5.2f  %s\n",
                timed->shape->name, timed->extents.threads / 32, timed->extents.slice,
                timed->extents.resident_blocks, timed->geometry.chunk, timed->dims.grid_x,
                timed->bytes / 1e6, floor, times.stream, times.nodes, times.captured,
                times.captured / floor, timed->read_us > 0 ? times.captured / timed->read_us : 0.0,
                what);
}

/* `read_us`: what the bytes take; 0: it is measured first. */
static void print_times(const struct gpu *gpu, const struct decode_shape *shape,
                        struct decode_variant variant, double *read_us) {
  struct timed timed;
  if (!choose(shape, variant, &timed)) {
    return;
  }
  open_timed(gpu, shape, variant.blocks, &timed);
  if (*read_us == 0) {
    const struct times times = floor_times(&timed);
    *read_us = times.captured;
    print_line(&timed, "plain read of the same bytes", times);
  }
  timed.read_us = *read_us;
  print_line(&timed, "", decode_times(&timed));
  decode_probe_print(gpu, &timed.geometry, &timed.extents, &timed.args[0], &timed.dims);
  close_timed(&timed);
}

/* The next of variants such as "4,16,4,256,8": what is not said is 0. False: there is none. */
static bool next_variant(const char **text, struct decode_variant *ret) {
  uint32_t numbers[5] = {0};
  const char *at = *text;
  if (at == NULL) {
    return false;
  }
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    char *end = NULL;
    numbers[i] = (uint32_t)strtoul(at, &end, 10);
    at = end + (*end == ',');
  }
  *ret = (struct decode_variant){{numbers[0], numbers[1], numbers[2]}, numbers[3], numbers[4]};
  *text = *at == ';' ? at + 1 : NULL;
  return true;
}

static bool is_chosen(const struct decode_shape *shape, const char *only) {
  return only == NULL ||
         (only[0] == '=' ? strcmp(shape->name, only + 1) == 0 : strstr(shape->name, only) != NULL);
}

static void prepare(const char *arch, const struct decode_shape *shape,
                    struct decode_variant variant) {
  struct timed timed;
  struct stg_launch_rule rule;
  if (choose(shape, variant, &timed)) {
    free(decode_kernel_make(arch, &timed.geometry, &timed.extents, false, &rule));
    decode_probe_prepare(arch, &timed.geometry, &timed.extents);
  }
}

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
void prepares_what_is_timed_where_asked_to(void **state) {
  (void)state;
  const char *arch = getenv("STG_DECODE_PREPARE");
  const char *only = getenv("STG_DECODE_ONLY");
  assert_non_null(arch);
  for (size_t i = 0; i < decode_shape_count; i++) {
    struct decode_variant variant = {0};
    const char *text = getenv("STG_DECODE_VARIANTS");
    bool is = is_chosen(&decode_shapes[i], only);
    while (is) {
      prepare(arch, &decode_shapes[i], variant);
      is = next_variant(&text, &variant);
    }
  }
}

void prints_times_where_asked_to(void **state) {
  const struct gpu *gpu = *state;
  const char *asked = getenv("STG_TEST_TIME");
  const char *only = getenv("STG_DECODE_ONLY");
  if (asked == NULL || asked[0] != '1') {
    skip();
  }
  print_message("%-32s %-13s %4s %7s %7s %7s %7s %7s %5s %5s\n", "decode", "w,slice,r,chunk",
                "grid", "MB", "floor", "stream", "nodes", "capt.", "/4.2", "/read");
  for (size_t i = 0; i < decode_shape_count; i++) {
    double read_us = 0;
    struct decode_variant variant = {0};
    const char *text = getenv("STG_DECODE_VARIANTS");
    bool is = is_chosen(&decode_shapes[i], only);
    while (is) {
      print_times(gpu, &decode_shapes[i], variant, &read_us);
      is = next_variant(&text, &variant);
    }
  }
}
/* NOLINTEND(concurrency-mt-unsafe) */
