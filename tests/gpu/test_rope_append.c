/*
 * test_rope_append.c: what kernels of the rope family do to a cache: rows appended, refusals noted,
 * lengths advanced, as the CPU backend does it.
 */
#include "tests/gpu/rope_stage.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct stg_rope_freq plain = {.base = 10000};
static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};

/* Padding, no such sequence, no such position, at capacity and past it. */
static const int32_t mixed_seqs[] = {0, 1, -1, 2, 3, 1, 2, 0, -5, 1, 0};
static const int32_t mixed_positions[] = {5, 36, 3, 37, 1, -1, 0, 2147483647, 0, 100, 36};
static const struct stg_step_rows mixed_rows = {
    .rows = COUNT(mixed_seqs), .batch = 3, .seq = mixed_seqs, .pos = mixed_positions};

static void appends_what_has_room_and_says_which_rows_had_none(void **state) {
  struct rope_device *device = *state;
  struct attn_bed bed;
  attn_open(&bed, 1);
  const float *table = attn_random(&bed, STG_F32, (int64_t)38 * 64);
  for (size_t k = 0; k < COUNT(dtypes); k++) {
    for (uint32_t block = 0; block <= 8; block += 8) {
      struct scene scene = {
          .geometry = geometry_of(4, 2, 64, 64), .freq = plain, .rows = mixed_rows};
      scene.geometry.dtype = dtypes[k];
      scene.cache = (struct attn_kv_shape){3, 2, 64, 37, dtypes[k], block};
      run_all_ways(device, &scene);
      const struct stg_oracle_heads_report report =
          run_scene(device, &scene, (struct rope_how){.room = 32});
      assert_int_equal(report.rows_refused, 2);
      assert_int_equal(report.rows_bad, 3);
      scene.missing = block == 0 ? 0 : 1; /* positions 0 to 7 of sequence 0 */
      run_scene(device, &scene, (struct rope_how){0});
      scene.table = table; /* which ends before some rows that have no room */
      scene.table_positions = 38;
      run_scene(device, &scene, (struct rope_how){0});
    }
  }
  attn_close(&bed);
}

static void appends_at_lengths_and_advances_them(void **state) {
  struct rope_device *device = *state;
  static const int32_t seq[] = {2, -1, 0, 3, 1};
  static const int32_t lens[] = {0, 31, 32, 7};
  for (uint32_t block = 0; block <= 16; block += 16) {
    struct scene scene = {.geometry = geometry_of(4, 2, 64, 64), .freq = plain, .lens = lens};
    scene.rows = (struct stg_step_rows){.rows = 5, .batch = 4, .seq = seq};
    scene.geometry.xpos = STG_ROPE_XPOS_HALVES; /* whose centre is half of each row's own */
    scene.cache = (struct attn_kv_shape){4, 2, 64, 32, STG_F32, block};
    run_all_ways(device, &scene);
    struct stage stage;
    stage_open(&scene, &stage);
    device->how = (struct rope_how){.room = 8};
    rope_device_advance(device, &stage.rope.rows, &stage.kv.view, false);
    assert_memory_equal(stage.kv.len, lens, sizeof lens);
    for (int step = 0; step < 3; step++) {
      int32_t expected[4];
      memcpy(expected, stage.kv.len, sizeof expected);
      stg_cpu_kv_advance(&stage.rope.rows, &stage.kv.view, expected);
      rope_device_advance(device, &stage.rope.rows, &stage.kv.view, true);
      assert_memory_equal(stage.kv.len, expected, sizeof expected);
    }
    assert_int_equal(stage.kv.len[2], 32);
    assert_int_equal(stage.kv.len[0], 3);
    attn_close(&stage.bed);
  }
}

static void advances_by_the_rows_that_had_room(void **state) {
  struct rope_device *device = *state;
  struct scene scene = {.geometry = geometry_of(4, 2, 64, 64), .freq = plain, .rows = mixed_rows};
  scene.cache = (struct attn_kv_shape){3, 2, 64, 37, STG_F32, 8};
  struct stage stage;
  stage_open(&scene, &stage);
  stage.rope.rows.len = stage.kv.len;
  int32_t expected[3] = {0, 0, 0};
  stg_cpu_kv_advance(&stage.rope.rows, &stage.kv.view, expected);
  device->how = (struct rope_how){.room = 300};
  rope_device_advance(device, &stage.rope.rows, &stage.kv.view, true);
  assert_memory_equal(stage.kv.len, expected, sizeof expected);
  assert_int_equal(expected[0], 2);
  attn_close(&stage.bed);
}

/* Launches of which each may begin before the one ahead has ended, past the end of a sequence. */
static void steps_that_follow_closely_see_what_those_before_wrote(void **state) {
  struct rope_device *device = *state;
  static const int32_t seq[] = {2, 0, 1, -1};
  static const int32_t lens[] = {0, 20, 5};
  const int steps = 20;
  for (uint32_t block = 0; block <= 8; block += 8) {
    struct scene scene = {.geometry = geometry_of(32, 8, 128, 128), .freq = plain, .lens = lens};
    struct stage on_device;
    struct stage on_cpu;
    scene.geometry.dtype = STG_BF16;
    scene.rows = (struct stg_step_rows){.rows = 4, .batch = 3, .seq = seq};
    scene.cache = (struct attn_kv_shape){3, 8, 128, 32, STG_BF16, block};
    stage_open(&scene, &on_device);
    stage_open(&scene, &on_cpu);
    const struct stg_cpu_rope_batch batch = attn_rope_batch(&on_device.rope);
    device->how = (struct rope_how){.early = true};
    rope_device_steps(device, &batch, steps);
    const struct stg_cpu_rope_batch twin = attn_rope_batch(&on_cpu.rope);
    for (int step = 0; step < steps; step++) {
      assert_int_equal(stg_cpu_rope(&twin, NULL), STG_OK);
      stg_cpu_kv_advance(&twin.rows, twin.kv, on_cpu.kv.len);
    }
    same_results(&on_device, &on_cpu);
    assert_memory_equal(on_device.kv.len, on_cpu.kv.len, sizeof lens);
    assert_int_equal(on_device.kv.len[0], 20);
    assert_int_equal(on_device.kv.len[1], 32);
    assert_int_equal(on_device.rope.words.full_rows, 8);
    attn_close(&on_device.bed);
    attn_close(&on_cpu.bed);
  }
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends_what_has_room_and_says_which_rows_had_none),
      cmocka_unit_test(appends_at_lengths_and_advances_them),
      cmocka_unit_test(advances_by_the_rows_that_had_room),
      cmocka_unit_test(steps_that_follow_closely_see_what_those_before_wrote),
  };
  return cmocka_run_group_tests(tests, rope_device_setup, rope_device_teardown);
}
