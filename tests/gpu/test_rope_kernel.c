/*
 * test_rope_kernel.c: kernels of the rope family on a device: within the oracle's bounds, and bit
 * by bit what the CPU backend gives.
 */
#include "tests/gpu/rope_stage.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "tests/gpu/rope_timing.h"
#include "tests/support/quick.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SEED 11

static const struct stg_rope_freq plain = {.base = 10000};
static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};

static const int32_t some_positions[] = {0,    1,      2,      77,       255,       256,
                                         4095, 131071, 131072, 16777217, 2147483646};
static const int32_t some_seqs[] = {0, 1, 0, 2, 1, 2, 0, 1, 2, 0, 1};
static const struct stg_step_rows some_rows = {
    .rows = COUNT(some_positions), .batch = 3, .seq = some_seqs, .pos = some_positions};

/* ---- geometry ---- */

static void every_layout_and_pairing_has_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  for (int layout = 0; layout < 4; layout++) {
    for (int pairs = 0; pairs < 2; pairs++) {
      for (size_t k = test_is_quick() ? 2 : 0; k < COUNT(dtypes); k++) {
        struct scene scene = {
            .geometry = geometry_of(4, 2, 64, 64), .freq = plain, .rows = some_rows};
        scene.geometry.kv_heads = layout == STG_ROPE_LAYOUT_INTERLEAVED ? 4 : 2;
        scene.geometry.layout = (enum stg_rope_layout)layout;
        scene.geometry.pairs = (enum stg_rope_pairs)pairs;
        scene.geometry.dtype = dtypes[k];
        run_all_ways(device, &scene);
      }
    }
  }
}

/* Pieces that pass, a piece without a second, pairs that do not come in pieces. */
static void partial_rotations_and_odd_heads_have_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  static const uint32_t shapes[][4] = {
      {3, 1, 128, 64},  {2, 2, 72, 32},   {2, 1, 96, 24}, {5, 5, 10, 6},
      {1, 1, 2, 2},     {2, 1, 256, 256}, {4, 4, 80, 40}, {32, 8, 128, 128},
      {33, 11, 24, 16}, {2, 1, 12, 8}, /* of float32 in whole pieces, of 16 bits not */
  };
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int pairs = 0; pairs < 2; pairs++) {
      struct scene scene = {.freq = plain, .rows = some_rows};
      scene.geometry = geometry_of(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
      scene.geometry.pairs = (enum stg_rope_pairs)pairs;
      scene.geometry.dtype = dtypes[i % COUNT(dtypes)];
      scene.geometry.layout = i % 2 == 0 ? STG_ROPE_LAYOUT_CONCAT : STG_ROPE_LAYOUT_GROUPED;
      run_all_ways(device, &scene);
    }
  }
}

static void heads_come_first_where_they_are_to(void **state) {
  struct rope_device *device = *state;
  struct scene scene = {.geometry = geometry_of(4, 2, 64, 64), .freq = plain, .rows = some_rows};
  scene.geometry.order = STG_HEADS_HEADS_FIRST;
  scene.geometry.dtype = STG_BF16;
  run_all_ways(device, &scene);
  scene.geometry.layout = STG_ROPE_LAYOUT_HEAD_FASTEST;
  run_all_ways(device, &scene);
}

/* Items of V between others, behind them, in a block of their own; by chunks and one by one. */
static void v_stays_in_packed_rows_and_q_and_k_have_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  static const uint32_t shapes[][4] = {
      {4, 2, 64, 64}, {2, 1, 10, 6}, {32, 32, 128, 128}, {2, 2, 72, 32}};
  for (size_t i = 0; i < COUNT(shapes) * 4; i++) {
    struct scene scene = {.freq = plain, .rows = some_rows, .v_stays = true};
    const uint32_t *shape = shapes[i / 4];
    scene.geometry = geometry_of(shape[0], shape[1], shape[2], shape[3]);
    scene.geometry.layout = (enum stg_rope_layout)(i % 4);
    scene.geometry.kv_heads = scene.geometry.layout == STG_ROPE_LAYOUT_INTERLEAVED
                                  ? scene.geometry.heads
                                  : scene.geometry.kv_heads;
    scene.geometry.order = i % 3 == 2 ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST;
    scene.geometry.dtype = dtypes[i % COUNT(dtypes)];
    run_all_ways(device, &scene);
  }
}

/* ---- angles ---- */

static void positions_255_to_131071_have_the_same_bits_as_int32_and_int64(void **state) {
  struct rope_device *device = *state;
  const int64_t step = test_is_quick() ? 1021 : 61;
  const int64_t n = (131071 - 255) / step + 1;
  struct attn_bed bed;
  attn_open(&bed, 1);
  int32_t *narrow = attn_filled(&bed, (size_t)n * sizeof *narrow, 0);
  int64_t *wide = attn_filled(&bed, (size_t)n * sizeof *wide, 0);
  for (int64_t i = 0; i < n; i++) {
    wide[i] = 131071 - i * step;
    narrow[i] = (int32_t)wide[i];
  }
  struct scene scene = {.geometry = geometry_of(1, 1, 128, 128), .freq = plain};
  for (size_t k = 0; k < COUNT(dtypes); k++) {
    scene.geometry.dtype = dtypes[k];
    scene.rows = (struct stg_step_rows){.rows = n, .batch = 1, .pos = narrow};
    run_scene(device, &scene, (struct rope_how){0});
    scene.rows.pos = wide;
    scene.rows.pos_is_64 = true;
    run_scene(device, &scene, (struct rope_how){0}); /* the CPU's bits are equal: so are these */
    run_scene(device, &scene, (struct rope_how){.always_map = true});
  }
  attn_close(&bed);
}

static void stretched_frequencies_and_tables_have_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  struct scene scene = {.geometry = geometry_of(2, 1, 64, 64), .rows = some_rows};
  scene.freq = (struct stg_rope_freq){.base = 500000,
                                      .scaling = STG_ROPE_SCALING_LLAMA3,
                                      .factor = 8,
                                      .low_freq = 1,
                                      .high_freq = 4,
                                      .original = 8192};
  run_scene(device, &scene, (struct rope_how){0});
  scene.freq.scaling = STG_ROPE_SCALING_LINEAR;
  run_scene(device, &scene, (struct rope_how){0});
  /* rows past the table are bad ones without a cache */
  struct attn_bed bed;
  attn_open(&bed, 1);
  scene.table = attn_random(&bed, STG_F32, (int64_t)256 * 64);
  scene.table_positions = 256;
  const struct stg_oracle_heads_report report = run_scene(device, &scene, (struct rope_how){0});
  assert_int_equal(report.rows_bad, 6);
  scene.geometry.rot = 24;
  scene.geometry.round = STG_ROPE_ROUND_EACH_OP;
  scene.geometry.dtype = STG_BF16;
  run_all_ways(device, &scene);
  attn_close(&bed);
}

/* Both pairings, which is where the scales of xPos differ. */
static void run_rounding(struct rope_device *device, enum stg_rope_trig trig,
                         enum stg_rope_round round, enum stg_rope_xpos xpos, stg_dtype dtype) {
  static const int32_t pos[] = {3, 700, 2, 9, 0, 1999};
  static const int32_t seq[] = {0, 1, -1, 0, 2, 1};
  for (int pairs = 0; pairs < 2; pairs++) {
    struct scene scene = {.geometry = geometry_of(2, 1, 32, 32), .freq = plain};
    scene.rows = (struct stg_step_rows){.rows = 6, .batch = 3, .seq = seq, .pos = pos};
    scene.geometry.trig = trig;
    scene.geometry.round = round;
    scene.geometry.xpos = xpos;
    scene.geometry.pairs = (enum stg_rope_pairs)pairs;
    scene.geometry.dtype = dtype;
    run_scene(device, &scene, (struct rope_how){.largest = xpos == STG_ROPE_XPOS_PAIRS});
  }
}

static void every_rounding_has_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  for (int i = 0; i < 54; i++) {
    const int trig = i % 3;
    const int round = i / 3 % 2;
    const int xpos = i / 6 % 3;
    const int dtype = i / 18;
    if (!test_is_quick() || (trig + round + xpos) % 3 == dtype) {
      run_rounding(device, (enum stg_rope_trig)trig, (enum stg_rope_round)round,
                   (enum stg_rope_xpos)xpos, dtypes[dtype]);
    }
  }
}

/* ---- invariance ---- */

static void a_rows_bits_do_not_depend_on_its_batch(void **state) {
  struct rope_device *device = *state;
  int32_t pos[64];
  for (int row = 0; row < 64; row++) {
    pos[row] = row * 31;
  }
  struct scene scene = {.geometry = geometry_of(32, 8, 128, 128), .freq = plain};
  scene.geometry.dtype = STG_BF16;
  scene.rows = (struct stg_step_rows){.rows = 64, .batch = 1, .pos = pos};
  struct stage many;
  struct stage few;
  device->how = (struct rope_how){.room = 64};
  stage_open(&scene, &many);
  attn_rope_run_by(&many.rope, rope_device_rotate, device);
  scene.rows.rows = 3;
  stage_open(&scene, &few);
  device->how.spread = true;
  attn_rope_run_by(&few.rope, rope_device_rotate, device);
  same_bytes(STG_BF16, few.rope.q, many.rope.q, (int64_t)3 * 32 * 128);
  same_bytes(STG_BF16, few.rope.k, many.rope.k, (int64_t)3 * 8 * 128);
  attn_close(&many.bed);
  attn_close(&few.bed);
}

/* Row 2 is padding, row 3 of no sequence. */
static const int32_t padded_seqs[] = {0, 1, -1, 3, 2};
static const int32_t padded_positions[] = {5, 36, 3, 1, 37};
static const struct stg_step_rows padded_rows = {
    .rows = COUNT(padded_seqs), .batch = 3, .seq = padded_seqs, .pos = padded_positions};

static void what_padding_holds_touches_no_other_row_and_v_keeps_its_bits(void **state) {
  struct rope_device *device = *state;
  struct scene scene = {.geometry = geometry_of(4, 2, 64, 64), .freq = plain, .rows = padded_rows};
  scene.geometry.dtype = STG_F16;
  struct stage clean;
  struct stage dirty;
  stage_open(&scene, &clean);
  stage_open(&scene, &dirty);
  uint16_t *packed = dirty.rope.qkv;
  const int64_t row_elems = stg_rope_row_elems(&scene.geometry);
  for (int64_t e = 0; e < row_elems; e++) {
    packed[2 * row_elems + e] = e % 2 == 0 ? 0x7e01 : 0xfc00; /* NaN, -Inf */
  }
  device->how = (struct rope_how){0};
  attn_rope_run_by(&clean.rope, rope_device_rotate, device);
  attn_rope_run_by(&dirty.rope, rope_device_rotate, device);
  same_results(&clean, &dirty);
  packed[row_elems - 1] = 0x7c5a; /* a NaN with a payload, signalling: V of row 0 */
  attn_rope_run_by(&dirty.rope, rope_device_rotate, device);
  assert_int_equal(((uint16_t *)dirty.rope.v)[2 * 64 - 1], 0x7c5a);
  attn_close(&clean.bed);
  attn_close(&dirty.bed);
}

/* ---- the way back, and heads ---- */

static void the_way_back_has_the_cpus_bits(void **state) {
  struct rope_device *device = *state;
  static const int64_t counts[] = {1, 19, 99};
  for (size_t i = 0; i < COUNT(counts) * 8; i++) {
    int32_t pos[99];
    int32_t seq[99];
    for (int row = 0; row < 99; row++) {
      pos[row] = row * 7;
      seq[row] = row == 4 ? -1 : row == 6 ? 9 : row % 3;
    }
    struct scene scene = {.geometry = geometry_of(4, 2, 64, i % 2 == 0 ? 64 : 24), .freq = plain};
    scene.geometry.round = (enum stg_rope_round)(i / 2 % 2);
    scene.geometry.xpos = (enum stg_rope_xpos)(i % 3);
    scene.geometry.pairs = (enum stg_rope_pairs)(i / 4 % 2);
    scene.geometry.layout = i % 4 == 3   ? STG_ROPE_LAYOUT_HEAD_FASTEST
                            : i % 4 == 2 ? STG_ROPE_LAYOUT_GROUPED
                                         : STG_ROPE_LAYOUT_CONCAT;
    scene.geometry.dtype = dtypes[i % COUNT(dtypes)];
    scene.rows = (struct stg_step_rows){.rows = counts[i / 8], .batch = 3, .seq = seq, .pos = pos};
    scene.v_stays = i % 3 == 1;
    struct stage stage;
    stage_open(&scene, &stage);
    const struct stg_cpu_rope_batch batch = attn_rope_batch(&stage.rope);
    const int64_t elems = scene.rows.rows * batch.qkv_stride;
    void *before = attn_copy(&stage.bed, scene.geometry.dtype, stage.rope.qkv, elems);
    void *expected = attn_copy(&stage.bed, scene.geometry.dtype, stage.rope.qkv, elems);
    attn_rope_run(&stage.rope);
    struct stg_cpu_rope_gradient gradient = {.geometry = &stage.rope.geometry,
                                             .angles = &stage.rope.angles,
                                             .rows = scene.rows,
                                             .q = batch.q,
                                             .k = batch.k,
                                             .v = batch.v,
                                             .qkv = expected,
                                             .qkv_stride = batch.qkv_stride};
    assert_int_equal(stg_cpu_rope_back(&gradient, NULL), STG_OK);
    gradient.qkv = stage.rope.qkv;
    device->how = (struct rope_how){.misaligned = i % 5 == 4, .spread = i % 7 == 0};
    rope_device_rotate_back(device, &gradient);
    same_bytes(scene.geometry.dtype, stage.rope.qkv, expected, elems);
    const struct stg_oracle_rope_gradient check = {
        .geometry = &stage.rope.geometry,
        .angles = {&scene.freq, (double)stage.rope.angles.xpos_base, NULL, 0},
        .rows = scene.rows,
        .q = {NULL, stage.rope.q, batch.q.stride},
        .k = {NULL, stage.rope.k, batch.k.stride},
        .v = {NULL, stage.rope.v, batch.v.stride},
        .qkv_before = before,
        .qkv = stage.rope.qkv,
        .qkv_stride = batch.qkv_stride};
    struct stg_oracle_heads_report report;
    stg_oracle_rope_back_check(&check, &report);
    attn_expect_ok(&report);
    attn_close(&stage.bed);
  }
}

static void heads_change_places_and_come_back(void **state) {
  struct rope_device *device = *state;
  static const uint32_t shapes[][3] = {{5, 4, 64}, {1, 32, 128}, {130, 3, 10}, {7, 1, 2}};
  for (size_t i = 0; i < COUNT(shapes) * COUNT(dtypes) * 2; i++) {
    const uint32_t *shape = shapes[i % COUNT(shapes)];
    const stg_dtype dtype = dtypes[i / COUNT(shapes) % COUNT(dtypes)];
    const int64_t elems = (int64_t)shape[0] * shape[1] * shape[2];
    struct attn_bed bed;
    attn_open(&bed, SEED);
    void *from = attn_random(&bed, dtype, elems);
    void *to = attn_nans(&bed, dtype, elems);
    void *expected = attn_nans(&bed, dtype, elems);
    void *back = attn_nans(&bed, dtype, elems);
    struct stg_cpu_transpose t = {dtype, shape[0], shape[1], shape[2], STG_HEADS_ROWS_FIRST,
                                  from,  0,        to,       0};
    t.from_stride = attn_stride(STG_HEADS_ROWS_FIRST, t.rows, t.heads, t.dim);
    t.to_stride = attn_stride(STG_HEADS_HEADS_FIRST, t.rows, t.heads, t.dim);
    device->how = (struct rope_how){.misaligned = i >= COUNT(shapes) * COUNT(dtypes)};
    rope_device_transpose(device, &t);
    t.to = expected;
    stg_cpu_transpose_heads(&t);
    same_bytes(dtype, to, expected, elems);
    struct stg_cpu_transpose home = {
        dtype, t.rows, t.heads, t.dim, STG_HEADS_HEADS_FIRST, to, t.to_stride, back, t.from_stride};
    rope_device_transpose(device, &home);
    same_bytes(dtype, back, from, elems);
    attn_close(&bed);
  }
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layout_and_pairing_has_the_cpus_bits),
      cmocka_unit_test(partial_rotations_and_odd_heads_have_the_cpus_bits),
      cmocka_unit_test(heads_come_first_where_they_are_to),
      cmocka_unit_test(v_stays_in_packed_rows_and_q_and_k_have_the_cpus_bits),
      cmocka_unit_test(positions_255_to_131071_have_the_same_bits_as_int32_and_int64),
      cmocka_unit_test(stretched_frequencies_and_tables_have_the_cpus_bits),
      cmocka_unit_test(every_rounding_has_the_cpus_bits),
      cmocka_unit_test(a_rows_bits_do_not_depend_on_its_batch),
      cmocka_unit_test(what_padding_holds_touches_no_other_row_and_v_keeps_its_bits),
      cmocka_unit_test(the_way_back_has_the_cpus_bits),
      cmocka_unit_test(heads_change_places_and_come_back),
      cmocka_unit_test(prints_times_where_asked_to),
  };
  return cmocka_run_group_tests(tests, rope_device_setup, rope_device_teardown);
}
