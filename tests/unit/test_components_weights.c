/*
 * test_components_weights.c: the text of the parts of weights' gradients, its extents, what
 * addresses allow, and which lane reads what of the matrices that only this work has.
 *
 * What texts say is pinned by tests/golden/cuda-components; whether they compile by tests/nvrtc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/components_args.h"
#include "codegen/components_extents.h"
#include "codegen/components_text.h"
#include "tests/support/matrix_lanes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WARPS 8

static const uint32_t archs[] = {80, 86, 87, 89, 90, 100, 103, 120, 75};

static struct stg_components_kernel usual(void) {
  return (struct stg_components_kernel){
      .work = STG_COMPONENTS_WEIGHTS,
      .geometry = {.d_in = 128,
                   .d_out = 341,
                   .components = 1200,
                   .dtype = STG_BF16,
                   .mask = STG_COMPONENTS_MASK_DTYPE},
      .sm = 90,
  };
}

static struct stg_strbuf must_generate(const struct stg_components_kernel *kernel,
                                       struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  stg_error err = STG_ERROR_INIT;
  const stg_status status = stg_components_generate(kernel, &source, ret_rule, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return source;
}

/* The last is equal to the first. */
static void every_part_of_the_geometry_changes_the_text(void **state) {
  (void)state;
  struct stg_components_kernel variants[13];
  struct stg_strbuf texts[COUNT(variants)];
  struct stg_launch_rule rule;
  const size_t last = COUNT(variants) - 1;
  for (size_t i = 0; i < COUNT(variants); i++) {
    variants[i] = usual();
  }
  variants[1].geometry.d_in = 64;
  variants[2].geometry.d_out = 128;
  variants[3].geometry.components = 1201;
  variants[4].geometry.dtype = STG_F16;
  variants[5].geometry.mask = STG_COMPONENTS_MASK_NONE;
  variants[6].geometry.mask = STG_COMPONENTS_MASK_BOOL;
  variants[7].geometry.bias = true;
  variants[8].geometry.delta = true;
  variants[9].sm = 89;
  variants[10].geometry.dtype = STG_F32;
  variants[10].geometry.tf32 = true;
  variants[11].geometry.dtype = STG_F32;
  for (size_t i = 0; i < COUNT(variants); i++) {
    texts[i] = must_generate(&variants[i], &rule);
    for (size_t k = i == last ? 1 : 0; k < i; k++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[k]));
    }
  }
  assert_string_equal(stg_strbuf_text(&texts[last]), stg_strbuf_text(&texts[0]));
  for (size_t i = 0; i < COUNT(variants); i++) {
    stg_strbuf_finish(&texts[i]);
  }
}

/* An apply's members are none of this work's. */
static void the_tile_and_the_direction_of_an_apply_change_no_text(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf without = must_generate(&kernel, &rule);
  kernel.tile = 128;
  kernel.turned = true;
  struct stg_strbuf with = must_generate(&kernel, &rule);
  assert_string_equal(stg_strbuf_text(&with), stg_strbuf_text(&without));
  stg_strbuf_finish(&with);
  stg_strbuf_finish(&without);
}

/* ---- extents ---- */

static uint32_t tiles_of_warp(uint32_t size) {
  const uint32_t rows = WARPS / 2 * 16;
  return (size + rows - 1) / rows;
}

static void check_extents(const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  const struct stg_components_weights_extents e = stg_components_weights_extents_of(kernel);
  assert_true(e.static_bytes + e.dynamic_bytes <= stg_components_shared_bytes(kernel->sm));
  assert_int_equal(e.threads, WARPS * LANES);
  assert_int_equal(e.warps_n, 2);
  assert_int_equal(e.block % 16, 0); /* in two parts of whole strips */
  assert_in_range(e.block, 16, STG_COMPONENTS_BLOCK);
  assert_int_equal(e.tile % e.s_rows, 0);
  assert_true(WARPS % (e.tile / e.s_rows) == 0);
  assert_in_range(e.stages, 1, 2);
  const uint32_t sums = (tiles_of_warp(g->d_in) + tiles_of_warp(g->d_out)) * (e.block / 16) * 4;
  assert_in_range(sums, 4, 160);
}

/* There is room unless both sizes are above `wide` and the card is not large. */
static void check_float_extents(const struct stg_components_kernel *kernel, uint32_t wide) {
  const struct stg_components_geometry *g = &kernel->geometry;
  assert_int_equal(stg_components_has_room(kernel),
                   stg_components_weights_extents_of(kernel).tile != 0);
  if (stg_components_has_room(kernel)) {
    check_extents(kernel);
    /* exact sums have parts of so many */
    assert_true(g->tf32 ||
                stg_components_weights_extents_of(kernel).tile % STG_COMPONENTS_PART == 0);
  } else {
    assert_true(stg_components_shared_bytes(kernel->sm) < 200000);
    assert_true(g->d_in + g->d_out > wide);
  }
}

static void extents_fit_each_device_for_every_geometry(void **state) {
  (void)state;
  static const uint32_t sizes[] = {1,   7,   16,  64,  100, 127, 128, 129,
                                   255, 256, 341, 352, 353, 500, 511, 512};
  struct stg_components_kernel kernel = usual();
  for (size_t i = 0; i < COUNT(sizes) * COUNT(sizes) * COUNT(archs); i++) {
    kernel.geometry.d_in = sizes[i % COUNT(sizes)];
    kernel.geometry.d_out = sizes[i / COUNT(sizes) % COUNT(sizes)];
    kernel.sm = archs[i / COUNT(sizes) / COUNT(sizes)];
    for (uint32_t how = 0; how < 6; how++) {
      kernel.geometry.delta = how % 2 != 0;
      kernel.geometry.mask = (enum stg_components_mask)(how / 2);
      kernel.geometry.dtype = STG_BF16;
      kernel.geometry.tf32 = false;
      check_extents(&kernel);
      kernel.geometry.dtype = STG_F32;
      check_float_extents(&kernel, 384);
      kernel.geometry.tf32 = true;
      check_float_extents(&kernel, 512);
    }
  }
}

/* So that blocks and spans are as many as they were meant to be. */
static void the_model_of_the_design_has_whole_blocks_on_a_large_card(void **state) {
  (void)state;
  static const uint32_t shapes[][2] = {{128, 128}, {128, 64}, {128, 341}, {341, 128}};
  for (size_t i = 0; i < COUNT(shapes) * 2; i++) {
    struct stg_components_kernel kernel = usual();
    kernel.geometry.d_in = shapes[i / 2][0];
    kernel.geometry.d_out = shapes[i / 2][1];
    kernel.geometry.delta = i % 2 != 0;
    const struct stg_components_weights_extents e = stg_components_weights_extents_of(&kernel);
    assert_int_equal(e.block, STG_COMPONENTS_BLOCK);
    assert_int_equal(e.stages, 2);
    assert_int_equal(e.tile, shapes[i / 2][0] + shapes[i / 2][1] <= 256 ? 64 : 32);
  }
}

/* Float32 takes twice the room. */
static void float32_has_smaller_blocks_where_a_side_is_wide(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  kernel.geometry.dtype = STG_F32;
  kernel.geometry.tf32 = true;
  kernel.geometry.d_out = 128;
  struct stg_components_weights_extents e = stg_components_weights_extents_of(&kernel);
  assert_int_equal(e.block, STG_COMPONENTS_BLOCK);
  assert_int_equal(e.tile, 32);
  kernel.geometry.d_out = 341;
  e = stg_components_weights_extents_of(&kernel);
  assert_int_equal(e.block, 64);
  assert_int_equal(e.tile, 16);
  assert_int_equal(e.stages, 2);
}

static void a_span_has_blocks_of_components_of_delta_and_of_the_bias(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  assert_int_equal(stg_components_weights_blocks(&kernel, 16384), 120); /* 15 by 8 spans */
  kernel.geometry.bias = true;
  assert_int_equal(stg_components_weights_blocks(&kernel, 16384), 128);
  kernel.geometry.delta = true; /* 128 columns are 2 blocks */
  assert_int_equal(stg_components_weights_blocks(&kernel, 16384), 144);
  kernel.geometry.components = 1;
  assert_int_equal(stg_components_weights_blocks(&kernel, 33), 2 * 4);
  kernel.geometry.components = 1200;
  kernel.sm = 89; /* blocks of 48: 25, and 3 of the columns */
  assert_int_equal(stg_components_weights_blocks(&kernel, 16384), 29 * 8);
}

static void the_launch_rule_says_what_the_extents_are(void **state) {
  (void)state;
  const struct stg_components_kernel kernel = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  const struct stg_components_weights_extents e = stg_components_weights_extents_of(&kernel);
  assert_int_equal(rule.threads, e.threads);
  assert_int_equal(rule.rows_per_block, e.tile);
  assert_int_equal(rule.resident_blocks, 1);
  assert_int_equal(stg_launch_stage_bytes(&rule, false), e.dynamic_bytes);
  assert_int_equal(stg_launch_stage_bytes(&rule, true), e.dynamic_bytes);
  stg_strbuf_finish(&text);
}

/* ---- what addresses allow ---- */

static void flags_say_what_is_aligned_one_by_one(void **state) {
  (void)state;
  struct stg_components_geometry g = usual().geometry;
  const struct stg_components_weights_args all = {.x = 4096,
                                                  .dy = 4096,
                                                  .v = 4096,
                                                  .u = 4096,
                                                  .mask = 4096,
                                                  .dm = 4096,
                                                  .x_stride = 128,
                                                  .dy_stride = 344,
                                                  .mask_stride = 1200,
                                                  .dm_stride = 1200};
  const uint32_t rows = STG_COMPONENTS_ALIGNED_X | STG_COMPONENTS_ALIGNED_DY |
                        STG_COMPONENTS_ALIGNED_MASK | STG_COMPONENTS_ALIGNED_DM;
  /* U has rows of 341 */
  assert_int_equal(stg_components_weights_flags(&g, false, &all), rows | STG_COMPONENTS_ALIGNED_V);
  assert_int_equal(stg_components_weights_flags(&g, true, &all),
                   rows | STG_COMPONENTS_ALIGNED_V | STG_COMPONENTS_SHARED_DM);
  g.d_out = 344;
  g.components = 1201;
  assert_int_equal(stg_components_weights_flags(&g, false, &all), rows | STG_COMPONENTS_ALIGNED_U);
  struct stg_components_weights_args some = all;
  some.x = 4104;
  some.dy_stride = 341;
  some.dm_stride = 1202; /* pairs are enough */
  g.d_out = 341;
  assert_int_equal(stg_components_weights_flags(&g, false, &some),
                   STG_COMPONENTS_ALIGNED_MASK | STG_COMPONENTS_ALIGNED_DM);
  g.dtype = STG_F32; /* of 8 bytes, there */
  some.dm = 4100;
  assert_int_equal(stg_components_weights_flags(&g, false, &some), STG_COMPONENTS_ALIGNED_MASK);
  g.dtype = STG_BF16;
  some.dm = 4096;
  some.dm_stride = 1201;
  some.mask_stride = 1201;
  assert_int_equal(stg_components_weights_flags(&g, false, &some), 0);
  some.dm_stride = 1200;
  some.dm = 4098;
  g.mask = STG_COMPONENTS_MASK_BOOL; /* counts in bytes */
  some.mask_stride = 1208;
  assert_int_equal(stg_components_weights_flags(&g, false, &some), 0);
  some.mask_stride = 1216;
  assert_int_equal(stg_components_weights_flags(&g, false, &some), STG_COMPONENTS_ALIGNED_MASK);
}

/* ---- lanes: what prelude/strips16.cuh does, in C ---- */

static uint32_t strip_by_k(uint32_t lane, uint32_t pitch) {
  return lane * pitch * 16;
}
static uint32_t strip_by_n(uint32_t lane, uint32_t pitch) {
  return ((lane & 7) * pitch + (lane >> 3)) * 16;
}

static void fill(uint32_t (*of_lane)(uint32_t lane, uint32_t pitch), uint32_t pitch,
                 uint32_t ret[LANES]) {
  for (uint32_t lane = 0; lane < LANES; lane++) {
    ret[lane] = of_lane(lane, pitch);
  }
}

static void lanes_read_strips_for_32_of_k(void **state) {
  (void)state;
  static float bed[BED_ELEMS];
  matrix_bed_fill(bed);
  for (uint32_t pitch = 5; pitch <= MAX_PITCH; pitch += 2) {
    uint32_t by_k[LANES];
    uint32_t by_n[LANES];
    fill(strip_by_k, pitch, by_k);
    fill(strip_by_n, pitch, by_n);
    for (uint32_t halves = 1; halves <= 2; halves++) {
      float k_words[LANES][4][2];
      float n_words[LANES][4][2];
      load_matrices(bed, by_k, 2 * halves, true, k_words);
      load_matrices(bed, by_n, 2 * halves, false, n_words);
      for (uint32_t i = 0; i < 16 * halves * 8; i++) {
        const uint32_t k = i / 8;
        const uint32_t n = i % 8;
        const uint32_t first = k / 16 * 2;
        assert_true(of_strip(k_words, first, k % 16, n) == bed[k * pitch * 8 + n]);
        assert_true(of_strip(n_words, first, k % 16, n) == bed[n * pitch * 8 + k]);
      }
    }
  }
}

/* Strips in pairs, of which the last may be alone. */
static void lanes_read_pairs_of_strips_for_16_of_k(void **state) {
  (void)state;
  static float bed[BED_ELEMS];
  matrix_bed_fill(bed);
  for (uint32_t pitch = 3; pitch <= MAX_PITCH; pitch += 2) {
    uint32_t at[LANES];
    float both[LANES][4][2];
    float one[LANES][4][2];
    fill(lane_by_k, pitch, at);
    load_matrices(bed, at, 4, true, both);
    load_matrices(bed, at, 2, true, one);
    for (uint32_t i = 0; i < 16 * 16; i++) {
      const uint32_t k = i / 16;
      const uint32_t n = i % 16;
      assert_true(of_b(both, k, n) == bed[k * pitch * 8 + n]);
      assert_true(n >= 8 || of_strip(one, 0, k, n) == bed[k * pitch * 8 + n]);
    }
  }
}

/* x and dy stand by rows of k where rows are summed over. */
static void lanes_read_a_first_factor_turned(void **state) {
  (void)state;
  static float bed[BED_ELEMS];
  matrix_bed_fill(bed);
  for (uint32_t pitch = 3; pitch <= MAX_PITCH; pitch += 2) {
    uint32_t at[LANES];
    float words[LANES][4][2];
    fill(lane_by_n, pitch, at);
    load_matrices(bed, at, 4, true, words);
    for (uint32_t i = 0; i < 16 * 16; i++) {
      assert_true(of_a(words, i / 16, i % 16) == bed[i % 16 * pitch * 8 + i / 16]);
    }
  }
}

static void no_two_of_eight_lanes_read_one_group_of_banks(void **state) {
  (void)state;
  for (uint32_t pitch = 1; pitch <= MAX_PITCH; pitch += 2) {
    for (uint32_t first = 0; first < LANES; first += 8) {
      uint32_t groups_by_k = 0;
      uint32_t groups_by_n = 0;
      for (uint32_t lane = first; lane < first + 8; lane++) {
        groups_by_k |= 1U << strip_by_k(lane, pitch) / 16 % 8;
        groups_by_n |= 1U << strip_by_n(lane, pitch) / 16 % 8;
      }
      assert_int_equal(groups_by_k, 0xff);
      assert_int_equal(groups_by_n, 0xff);
    }
  }
}

/* What is simulated above is what the device has. */
static void the_prelude_has_these_lanes(void **state) {
  (void)state;
  struct stg_strbuf prelude = {0};
  stg_components_prelude(STG_COMPONENTS_WEIGHTS, &prelude);
  const char *const text = stg_strbuf_text(&prelude);
  assert_non_null(strstr(text, "return lane * Pitch * 16u;"));
  assert_non_null(strstr(text, "return ((lane & 7u) * Pitch + (lane >> 3)) * 16u;"));
  assert_non_null(strstr(text, "return Turned ? stg_lane_by_n<Pitch>(lane) : "
                               "stg_lane_by_k<Pitch>(lane);"));
  assert_non_null(strstr(text, "stg_load_matrices<Turned>(at, r);"));
  assert_non_null(strstr(text, "return Turned ? stg_lane_of_words<Pitch>(lane) : "
                               "stg_lane_by_k<Pitch>(lane);"));
  stg_strbuf_finish(&prelude);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_of_the_geometry_changes_the_text),
      cmocka_unit_test(the_tile_and_the_direction_of_an_apply_change_no_text),
      cmocka_unit_test(extents_fit_each_device_for_every_geometry),
      cmocka_unit_test(the_model_of_the_design_has_whole_blocks_on_a_large_card),
      cmocka_unit_test(float32_has_smaller_blocks_where_a_side_is_wide),
      cmocka_unit_test(a_span_has_blocks_of_components_of_delta_and_of_the_bias),
      cmocka_unit_test(the_launch_rule_says_what_the_extents_are),
      cmocka_unit_test(flags_say_what_is_aligned_one_by_one),
      cmocka_unit_test(lanes_read_strips_for_32_of_k),
      cmocka_unit_test(lanes_read_pairs_of_strips_for_16_of_k),
      cmocka_unit_test(lanes_read_a_first_factor_turned),
      cmocka_unit_test(no_two_of_eight_lanes_read_one_group_of_banks),
      cmocka_unit_test(the_prelude_has_these_lanes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
