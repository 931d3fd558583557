/*
 * test_decode_kernel.c: the decode kernel on a device against the oracle, and against itself: its
 * bits do not depend on the launch, on other rows, nor on what a row does not read.
 *
 * STG_TEST_TIME=1: print what launches take as well (decode_timing.c). STG_TEST_FILTER="prints*":
 * these tests alone.
 */
#include "tests/gpu/decode_bed.h"
#include "tests/gpu/decode_timing.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "tests/support/quick.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_BATCH 64

/* A filled cache with a call over it. */
struct bench {
  const struct gpu *gpu;
  struct attn_bed bed;
  struct stg_decode_geometry geometry;
  struct decode_kernel kernel;
  struct attn_kv kv;
  struct stg_cpu_attend_batch batch;
  void *before; /* of out */
  int64_t out_elems;
  int32_t seq[MAX_BATCH];
};

/* What a bench is of. */
struct shape {
  uint32_t heads, kv_heads, dim;
  stg_dtype dtype;
  uint32_t chunk; /* 0: as for the capacity */
  enum stg_heads_order order;
  uint32_t batch;
  int64_t capacity;
  uint32_t block; /* 0: dense */
  int64_t window; /* 0: none */
  bool masked;
};

/* Its rows have several chunks. */
static const struct shape usual = {.heads = 8,
                                   .kv_heads = 2,
                                   .dim = 64,
                                   .dtype = STG_BF16,
                                   .chunk = 128,
                                   .batch = 6,
                                   .capacity = 700};

/* A row for each sequence, in the order of these, at `at[seq]`; up to there K and V are random, and
 * NaN behind. */
static void open_bench(const struct gpu *gpu, const struct shape *shape, const int32_t *at,
                       struct bench *b) {
  int32_t lens[MAX_BATCH];
  struct stg_decode_geometry g = {.heads = shape->heads,
                                  .kv_heads = shape->kv_heads,
                                  .dim = shape->dim,
                                  .dtype = shape->dtype,
                                  .order = shape->order,
                                  .paged = shape->block != 0,
                                  .windowed = shape->window != 0,
                                  .masked = shape->masked};
  g.chunk = shape->chunk != 0 ? shape->chunk : stg_decode_chunk(&g, shape->capacity);
  assert_true(shape->batch <= MAX_BATCH);
  *b = (struct bench){.gpu = gpu, .geometry = g};
  attn_open(&b->bed, shape->heads * 1000 + shape->dim);
  decode_kernel_open(gpu, &g, &b->kernel);
  b->kv = attn_kv_open(&b->bed, (struct attn_kv_shape){shape->batch, g.kv_heads, g.dim,
                                                       shape->capacity, g.dtype, shape->block});
  for (uint32_t k = 0; k < shape->batch; k++) {
    lens[k] = at[k] < shape->capacity ? at[k] + 1 : (int32_t)shape->capacity;
    b->seq[k] = (int32_t)k;
  }
  attn_kv_fill(&b->bed, &b->kv, lens);
  memcpy(b->kv.len, at, shape->batch * sizeof *at);
  b->out_elems = (int64_t)shape->batch * g.heads * g.dim;
  const int64_t stride = attn_stride(g.order, shape->batch, g.heads, g.dim);
  b->before = attn_nans(&b->bed, g.dtype, b->out_elems);
  b->batch = (struct stg_cpu_attend_batch){
      .geometry = &b->geometry,
      .rows = {.rows = shape->batch, .batch = shape->batch, .seq = b->seq, .len = b->kv.len},
      .kv = &b->kv.view,
      .q = attn_random(&b->bed, g.dtype, b->out_elems),
      .q_stride = stride,
      .out = attn_nans(&b->bed, g.dtype, b->out_elems),
      .out_stride = stride,
      .scale = 1 / sqrtf((float)g.dim),
      .window = shape->window,
  };
  if (shape->masked) {
    uint8_t *mask = attn_filled(&b->bed, shape->batch * (size_t)shape->capacity, 0);
    for (size_t k = 0; k < shape->batch * (size_t)shape->capacity; k++) {
      mask[k] = (uint8_t)attn_below(&b->bed, 3);
    }
    b->batch.key_mask = mask;
    b->batch.mask_stride = shape->capacity;
  }
}

static void close_bench(struct bench *b) {
  decode_kernel_close(&b->kernel);
  attn_close(&b->bed);
}

static size_t out_bytes(const struct bench *b) {
  return (size_t)b->out_elems * stg_dtype_bytes(b->geometry.dtype);
}

/* Run it, over an out of NaN, and return a copy of what came out. */
static const void *run(struct bench *b, struct decode_way way) {
  memcpy(b->batch.out, b->before, out_bytes(b));
  decode_run(&b->kernel, &b->batch, b->kv.elems, way);
  return attn_copy(&b->bed, b->geometry.dtype, b->batch.out, b->out_elems);
}

static struct stg_oracle_heads_report run_and_check(struct bench *b, struct decode_way way) {
  (void)run(b, way);
  return decode_check(&b->batch, b->before);
}

/* Elements of a row in a copy where rows come first. */
static const void *row_of(const struct bench *b, const void *out, int64_t row) {
  const size_t elems = (size_t)b->geometry.heads * b->geometry.dim;
  return (const char *)out + (size_t)row * elems * stg_dtype_bytes(b->geometry.dtype);
}
static size_t row_bytes(const struct bench *b) {
  return (size_t)b->geometry.heads * b->geometry.dim * stg_dtype_bytes(b->geometry.dtype);
}

static const struct decode_way ways[] = {
    {0},
    {.owner = true},
    {.blocks = 1},
    {.blocks = 7},
    {.owner = true, .blocks = 3},
    {.blocks = 1000},
    {.flat = true},
    {.owner = true, .flat = true},
    {.spare = 5},
};

static void runs_and_agrees(const struct gpu *gpu, const struct shape *shape) {
  /* the first of a chunk, the last, a full cache, and a row that has no room */
  const int32_t last = (int32_t)shape->capacity - 1;
  const int32_t at[MAX_BATCH] = {0, last, last / 2, 127, 128, last + 1, 255, 256, 1};
  struct bench b;
  open_bench(gpu, shape, at, &b);
  const struct stg_oracle_heads_report report = run_and_check(&b, ways[0]);
  assert_int_equal(report.rows_refused, shape->batch > 5 ? 1 : 0);
  const void *first = attn_copy(&b.bed, shape->dtype, b.batch.out, b.out_elems);
  for (size_t w = 1; w < (test_is_quick() ? 3 : COUNT(ways)); w++) {
    assert_memory_equal(first, run(&b, ways[w]), out_bytes(&b));
  }
  close_bench(&b);
}

/* Groups, dims, types, orders and caches; each launched in every way, to the same bits. */
static void agrees_with_the_oracle(void **state) {
  static const struct shape shapes[] = {
      {8, 2, 64, STG_BF16, 128, STG_HEADS_ROWS_FIRST, 9, 700, 0, 0, false},
      {8, 2, 64, STG_BF16, 0, STG_HEADS_ROWS_FIRST, 9, 700, 0, 0, false},
      {8, 2, 128, STG_BF16, 0, STG_HEADS_ROWS_FIRST, 9, 300, 16, 0, false},
      {12, 12, 64, STG_F16, 128, STG_HEADS_HEADS_FIRST, 9, 512, 0, 0, false},
      {12, 4, 64, STG_F16, 0, STG_HEADS_HEADS_FIRST, 9, 1024, 16, 600, false},
      {8, 1, 128, STG_BF16, 0, STG_HEADS_ROWS_FIRST, 7, 300, 0, 0, false},
      {16, 1, 256, STG_F16, 0, STG_HEADS_ROWS_FIRST, 7, 300, 1024, 100, false},
      {12, 1, 64, STG_F32, 0, STG_HEADS_HEADS_FIRST, 7, 520, 64, 0, true},
      {9, 1, 80, STG_BF16, 0, STG_HEADS_ROWS_FIRST, 7, 300, 0, 129, false},
      {3, 1, 100, STG_BF16, 0, STG_HEADS_ROWS_FIRST, 7, 300, 8, 0, false},
      {5, 1, 10, STG_F32, 0, STG_HEADS_ROWS_FIRST, 9, 600, 0, 0, true},
      {2, 2, 8, STG_F16, 256, STG_HEADS_ROWS_FIRST, 9, 900, 0, 33, true},
      {4, 4, 16, STG_F32, 0, STG_HEADS_HEADS_FIRST, 9, 600, 32, 0, false},
      {4, 2, 32, STG_BF16, 128, STG_HEADS_ROWS_FIRST, 9, 400, 0, 0, false},
      {8, 2, 128, STG_F32, 0, STG_HEADS_ROWS_FIRST, 9, 300, 0, 128, false},
      {2, 1, 256, STG_F32, 0, STG_HEADS_ROWS_FIRST, 6, 260, 256, 0, true},
      {4, 1, 64, STG_F32, 512, STG_HEADS_ROWS_FIRST, 9, 1500, 0, 700, false},
      {8, 1, 64, STG_BF16, 1024, STG_HEADS_ROWS_FIRST, 9, 2100, 512, 0, true},
      {2, 1, 2, STG_F32, 0, STG_HEADS_ROWS_FIRST, 9, 600, 0, 0, false},
  };
  for (size_t i = 0; i < COUNT(shapes); i++) {
    runs_and_agrees(*state, &shapes[i]);
  }
}

/* Padding keeps what out had; a row of no sequence and one of no position give zeros. */
static void rows_without_work_give_zeros_or_nothing(void **state) {
  static const int32_t at[] = {5, 400, 699, 700, 30, 2147483647};
  static const int32_t valid[] = {6, 401, 699, 1000, 30, 0};
  struct bench b;
  open_bench(*state, &usual, at, &b);
  b.seq[0] = -1;
  b.seq[4] = 6;
  struct stg_oracle_heads_report report = run_and_check(&b, ways[0]);
  assert_int_equal(report.rows_padding, 1);
  assert_int_equal(report.rows_bad, 2);
  assert_int_equal(report.rows_refused, 1);
  b.seq[0] = 0;
  b.seq[4] = 4;
  b.batch.valid = valid;
  report = run_and_check(&b, ways[1]);
  assert_int_equal(report.rows_padding, 0);
  const void *out = b.batch.out;
  const void *zeros = attn_filled(&b.bed, row_bytes(&b), 0);
  assert_memory_not_equal(row_of(&b, out, 1), zeros, row_bytes(&b));
  assert_memory_equal(row_of(&b, out, 2), zeros, row_bytes(&b));
  assert_memory_equal(row_of(&b, out, 4), zeros, row_bytes(&b));
  /* a step of padding alone */
  for (size_t k = 0; k < usual.batch; k++) {
    b.seq[k] = -1;
  }
  assert_memory_equal(b.before, run(&b, ways[0]), out_bytes(&b));
  assert_memory_equal(b.before, run(&b, ways[1]), out_bytes(&b));
  close_bench(&b);
}

static void what_is_masked_is_not_read(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  struct shape shape = usual;
  struct bench b;
  shape.masked = true;
  open_bench(*state, &shape, at, &b);
  uint8_t *mask = attn_filled(&b.bed, shape.batch * (size_t)shape.capacity, 1);
  b.batch.key_mask = mask;
  memset(mask, 0, (size_t)shape.capacity);         /* all of sequence 0 */
  memset(mask + shape.capacity, 0, 256);           /* whole chunks of sequence 1 */
  memset(mask + 2 * shape.capacity + 100, 0, 500); /* some in the middle */
  mask[3 * shape.capacity + 3] = 0;
  const void *first = run(&b, ways[0]);
  (void)decode_check(&b.batch, b.before);
  const void *zeros = attn_filled(&b.bed, row_bytes(&b), 0);
  assert_memory_equal(row_of(&b, first, 0), zeros, row_bytes(&b));
  const void *nans = attn_nans(&b.bed, shape.dtype, shape.dim);
  for (int32_t position = 0; position < 500; position++) {
    for (uint32_t head = 0; head < shape.kv_heads; head++) {
      const size_t bytes = shape.dim * stg_dtype_bytes(shape.dtype);
      memcpy(attn_kv_at(&b.kv, b.kv.view.k, 2, 100 + position, head), nans, bytes);
      memcpy(attn_kv_at(&b.kv, b.kv.view.v, 2, 100 + position, head), nans, bytes);
    }
  }
  assert_memory_equal(first, run(&b, ways[0]), out_bytes(&b));
  assert_memory_equal(first, run(&b, ways[1]), out_bytes(&b));
  close_bench(&b);
}

/* A table that does not have some blocks: their positions are as if masked. */
static void what_has_no_block_is_not_read(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  struct shape shape = usual;
  struct bench b;
  shape.block = 64;
  open_bench(*state, &shape, at, &b);
  int32_t *table = (int32_t *)(uintptr_t)b.kv.view.block_table;
  table[1 * b.kv.view.table_row] = -1;
  table[2 * b.kv.view.table_row + 2] = (int32_t)b.kv.view.n_blocks;
  table[2 * b.kv.view.table_row + 3] = -1;
  table[3 * b.kv.view.table_row + 1] = -1; /* the row's own: no room */
  const struct stg_oracle_heads_report report = run_and_check(&b, ways[0]);
  assert_int_equal(report.rows_refused, 1);
  const void *first = attn_copy(&b.bed, shape.dtype, b.batch.out, b.out_elems);
  assert_memory_equal(first, run(&b, ways[1]), out_bytes(&b));
  close_bench(&b);
}

/* Positions that a row reads propagate; those of others do not. */
static void what_is_not_finite_stays_in_its_row(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  struct bench b;
  open_bench(*state, &usual, at, &b);
  const void *first = run(&b, ways[0]);
  const void *nans = attn_nans(&b.bed, usual.dtype, usual.dim);
  const size_t bytes = usual.dim * stg_dtype_bytes(usual.dtype);
  memcpy(attn_kv_at(&b.kv, b.kv.view.k, 2, 300, 0), nans, bytes);
  memcpy(attn_kv_at(&b.kv, b.kv.view.v, 3, 100, 1), nans, bytes);
  const char *second = run(&b, ways[0]);
  const size_t half = row_bytes(&b) / 2;
  (void)decode_check(&b.batch, b.before);
  for (int64_t row = 0; row < usual.batch; row++) {
    const char *was = row_of(&b, first, row);
    const char *is = row_of(&b, second, row);
    assert_int_equal(memcmp(was, is, half) != 0, row == 2);
    assert_int_equal(memcmp(was + half, is + half, half) != 0, row == 3);
  }
  close_bench(&b);
}

/* An infinite value is one in the result, and no NaN; so is a query's in the scores of its head. */
static void what_is_infinite_is_as_the_oracle_says(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  for (size_t k = 0; k < COUNT(dtypes); k++) {
    struct shape shape = usual;
    struct bench b;
    shape.dtype = dtypes[k];
    open_bench(*state, &shape, at, &b);
    stg_store_f32(shape.dtype, attn_kv_at(&b.kv, b.kv.view.v, 2, 300, 0), 5, INFINITY);
    stg_store_f32(shape.dtype, attn_kv_at(&b.kv, b.kv.view.v, 2, 301, 0), 6, -INFINITY);
    /* a weight of 1: there is nothing in its lower part */
    stg_store_f32(shape.dtype, attn_kv_at(&b.kv, b.kv.view.v, 5, 0, 0), 3, INFINITY);
    stg_store_f32(shape.dtype, attn_kv_at(&b.kv, b.kv.view.k, 3, 100, 1), 7, INFINITY);
    stg_store_f32(shape.dtype, (void *)(uintptr_t)b.batch.q, 4 * (size_t)shape.heads * shape.dim,
                  INFINITY);
    (void)run_and_check(&b, ways[0]);
    const void *out = row_of(&b, b.batch.out, 2);
    assert_true(isinf(stg_load_f32(shape.dtype, out, 5)) && stg_load_f32(shape.dtype, out, 5) > 0);
    assert_true(isinf(stg_load_f32(shape.dtype, out, 6)) && stg_load_f32(shape.dtype, out, 6) < 0);
    assert_true(isfinite(stg_load_f32(shape.dtype, out, 7)));
    assert_true(isinf(stg_load_f32(shape.dtype, row_of(&b, b.batch.out, 5), 3)));
    const void *first = attn_copy(&b.bed, shape.dtype, b.batch.out, b.out_elems);
    assert_memory_equal(first, run(&b, ways[1]), out_bytes(&b));
    close_bench(&b);
  }
}

/* Positions an odd number of elements apart, for a kernel that takes them at any. */
static void a_cache_may_stand_anywhere(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  struct bench b;
  open_bench(*state, &usual, at, &b);
  const void *first = run(&b, ways[0]);
  const struct stg_kv_view packed = b.kv.view;
  struct stg_kv_view *view = &b.kv.view;
  const size_t bytes = usual.dim * stg_dtype_bytes(usual.dtype);
  const int64_t positions = (int64_t)usual.batch * usual.kv_heads * usual.capacity;
  view->pos_stride = usual.dim + 1;
  view->head_stride = usual.capacity * view->pos_stride;
  view->seq_stride = usual.kv_heads * view->head_stride;
  view->k = attn_nans(&b.bed, usual.dtype, positions * view->pos_stride);
  view->v = attn_nans(&b.bed, usual.dtype, positions * view->pos_stride);
  for (int64_t k = 0; k < positions; k++) {
    const size_t to = (size_t)k * (bytes + bytes / usual.dim);
    memcpy((char *)view->k + to, (const char *)packed.k + (size_t)k * bytes, bytes);
    memcpy((char *)view->v + to, (const char *)packed.v + (size_t)k * bytes, bytes);
  }
  b.kv.elems = positions * view->pos_stride;
  decode_kernel_close(&b.kernel);
  b.geometry.loose = true;
  decode_kernel_open(*state, &b.geometry, &b.kernel);
  assert_memory_equal(first, run(&b, ways[0]), out_bytes(&b));
  (void)decode_check(&b.batch, b.before);
  close_bench(&b);
}

/* Where the next slice is beyond int32, K and V make the bits that they make near 0. */
static void the_longest_cache_is_read_to_its_end(void **state) {
  static const struct shape shape = {8, 2,    64,   STG_BF16, 128,  STG_HEADS_ROWS_FIRST,
                                     3, 1024, 1024, 300,      false};
  static const int32_t at[] = {1021, 1000, 900};
  const int64_t row = INT64_C(1) << 21;
  struct bench b;
  open_bench(*state, &shape, at, &b);
  struct stg_kv_view *view = &b.kv.view;
  const void *first = run(&b, ways[0]);
  (void)decode_check(&b.batch, b.before);
  int32_t *table = attn_filled(&b.bed, 3 * (size_t)row * sizeof *table, 0xff);
  for (int64_t k = 0; k < 3; k++) {
    table[(k + 1) * row - 1] = view->block_table[k];
    b.kv.len[k] = INT32_MAX - 1023 + at[k];
  }
  view->block_table = table;
  view->table_row = row;
  view->capacity = INT32_MAX - 1;
  assert_memory_equal(first, run(&b, ways[0]), out_bytes(&b));
  assert_memory_equal(first, run(&b, ways[1]), out_bytes(&b));
  close_bench(&b);
}

static void a_batch_of_64_and_one_of_3_give_the_same_bits(void **state) {
  int32_t at[MAX_BATCH];
  struct shape shape = usual;
  struct bench b;
  shape.batch = MAX_BATCH;
  for (int32_t k = 0; k < MAX_BATCH; k++) {
    at[k] = k * 37 % 700;
  }
  open_bench(*state, &shape, at, &b);
  const void *all = run(&b, ways[0]);
  (void)decode_check(&b.batch, b.before);
  b.batch.rows.rows = 3;
  b.out_elems = (int64_t)3 * shape.heads * shape.dim;
  assert_memory_equal(all, run(&b, ways[0]), 3 * row_bytes(&b));
  assert_memory_equal(all, run(&b, (struct decode_way){.spare = 61}), 3 * row_bytes(&b));
  close_bench(&b);
}

/* One row for each position of a sequence, against decode steps over a cache whose tail is NaN. */
static void every_length_is_a_row_of_the_prefill_form(const struct gpu *gpu,
                                                      const struct shape *shape, int32_t stride) {
  const int32_t none[] = {0};
  const int32_t rows = (int32_t)shape->capacity;
  const int32_t whole[] = {rows - 1};
  struct bench step;
  struct bench all;
  open_bench(gpu, shape, none, &step);
  open_bench(gpu, shape, whole, &all);
  int32_t *seq = attn_filled(&all.bed, (size_t)rows * sizeof *seq, 0);
  int32_t *pos = attn_filled(&all.bed, (size_t)rows * sizeof *pos, 0);
  for (int32_t r = 0; r < rows; r++) {
    pos[r] = r;
  }
  all.out_elems *= rows;
  all.before = attn_nans(&all.bed, shape->dtype, all.out_elems);
  all.batch.q = attn_random(&all.bed, shape->dtype, all.out_elems);
  all.batch.out = attn_nans(&all.bed, shape->dtype, all.out_elems);
  all.batch.rows =
      (struct stg_step_rows){.rows = rows, .batch = 1, .seq = seq, .pos = pos, .len = all.kv.len};
  const void *outs = run(&all, (struct decode_way){.wide_pos = true});
  const struct stg_oracle_heads_report report = decode_check(&all.batch, all.before);
  assert_true(shape->dtype != STG_F32 || report.mae < 1e-6);
  assert_memory_equal(outs, run(&all, (struct decode_way){.owner = true}), out_bytes(&all));
  for (int32_t p = rows - 1; p >= 0; p -= stride) {
    struct stg_cpu_attend_batch *batch = &step.batch;
    step.kv.len[0] = p;
    /* what lies behind p is NaN, more of it at each step */
    for (int64_t at = p + 1; at < rows && at <= p + stride; at++) {
      for (uint32_t head = 0; head < shape->kv_heads; head++) {
        const size_t bytes = shape->dim * stg_dtype_bytes(shape->dtype);
        const void *nans = step.before;
        memcpy(attn_kv_at(&all.kv, all.kv.view.k, 0, at, head), nans, bytes);
        memcpy(attn_kv_at(&all.kv, all.kv.view.v, 0, at, head), nans, bytes);
      }
    }
    batch->kv = &all.kv.view;
    batch->q = row_of(&all, all.batch.q, p);
    assert_memory_equal(row_of(&all, outs, p), run(&step, ways[0]), row_bytes(&step));
  }
  close_bench(&all);
  close_bench(&step);
}

static void a_length_has_its_bits_whatever_lies_behind_it(void **state) {
  static const struct shape dense = {
      .heads = 4, .kv_heads = 2, .dim = 64, .dtype = STG_F32, .batch = 1, .capacity = 600};
  static const struct shape paged = {.heads = 4,
                                     .kv_heads = 1,
                                     .dim = 64,
                                     .dtype = STG_BF16,
                                     .chunk = 128,
                                     .batch = 1,
                                     .capacity = 256,
                                     .block = 16};
  const int32_t stride = test_is_quick() ? 37 : 1;
  every_length_is_a_row_of_the_prefill_form(*state, &dense, stride);
  every_length_is_a_row_of_the_prefill_form(*state, &paged, stride);
}

static void a_launch_that_is_repeated_follows_the_lengths(void **state) {
  static const int32_t at[] = {5, 400, 699, 127, 30, 0};
  struct bench b;
  open_bench(*state, &usual, at, &b);
  const void *first = run(&b, ways[0]);
  struct decode_call call;
  decode_call_open(&b.kernel, &b.batch, b.kv.elems, ways[0], &call);
  for (int i = 0; i < 100; i++) {
    decode_call_run(&call);
    assert_memory_equal(first, b.batch.out, out_bytes(&b));
  }
  b.kv.len[1] = 390;
  b.kv.len[2] = 10;
  decode_call_refresh(&call);
  decode_call_run(&call);
  (void)decode_check(&b.batch, b.before);
  assert_memory_equal(b.batch.out, run(&b, ways[1]), out_bytes(&b));
  decode_call_close(&call);
  close_bench(&b);
}

int main(void) {
  const char *filter = getenv("STG_TEST_FILTER");
  if (getenv("STG_DECODE_PREPARE") != NULL) {
    const struct CMUnitTest prepares[] = {cmocka_unit_test(prepares_what_is_timed_where_asked_to)};
    return cmocka_run_group_tests(prepares, NULL, NULL);
  }
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_the_oracle),
      cmocka_unit_test(rows_without_work_give_zeros_or_nothing),
      cmocka_unit_test(what_is_masked_is_not_read),
      cmocka_unit_test(what_has_no_block_is_not_read),
      cmocka_unit_test(what_is_not_finite_stays_in_its_row),
      cmocka_unit_test(what_is_infinite_is_as_the_oracle_says),
      cmocka_unit_test(a_cache_may_stand_anywhere),
      cmocka_unit_test(the_longest_cache_is_read_to_its_end),
      cmocka_unit_test(a_batch_of_64_and_one_of_3_give_the_same_bits),
      cmocka_unit_test(a_length_has_its_bits_whatever_lies_behind_it),
      cmocka_unit_test(a_launch_that_is_repeated_follows_the_lengths),
      cmocka_unit_test(prints_times_where_asked_to),
  };
  if (filter != NULL) {
    cmocka_set_test_filter(filter);
  }
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
