/*
 * test_components_codegen.c: the texts of the components family, their extents, what addresses
 * allow, and which lane reads what of a matrix in shared memory.
 *
 * What texts say is pinned by tests/golden/cuda-components; whether they compile by tests/nvrtc.
 */
#include "codegen/components_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/components_args.h"
#include "codegen/components_extents.h"
#include "tests/support/matrix_lanes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE_CHARS 100
#define WARPS 8
#define BANKS 32

static const uint32_t archs[] = {80, 86, 87, 89, 90, 100, 103, 120, 75};

static struct stg_components_kernel usual(void) {
  return (struct stg_components_kernel){
      .geometry = {.d_in = 128,
                   .d_out = 341,
                   .components = 1200,
                   .dtype = STG_BF16,
                   .mask = STG_COMPONENTS_MASK_DTYPE},
      .sm = 90,
      .tile = 128,
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

static void equal_arguments_give_equal_bytes(void **state) {
  (void)state;
  const struct stg_components_kernel kernel = usual();
  const struct stg_components_kernel same = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf a = must_generate(&kernel, &rule);
  struct stg_strbuf b = must_generate(&same, &rule);
  assert_string_equal(stg_strbuf_text(&a), stg_strbuf_text(&b));
  stg_strbuf_finish(&a);
  stg_strbuf_finish(&b);
}

static void every_part_of_the_kernel_changes_the_text(void **state) {
  (void)state;
  struct stg_components_kernel variants[14];
  struct stg_strbuf texts[COUNT(variants)];
  struct stg_launch_rule rule;
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
  variants[9].turned = true;
  variants[10].tile = 64;
  variants[11].sm = 80;
  variants[12].geometry.dtype = STG_F32;
  variants[12].geometry.tf32 = true;
  variants[13].geometry.dtype = STG_F32;
  for (size_t i = 0; i < COUNT(variants); i++) {
    texts[i] = must_generate(&variants[i], &rule);
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[k]));
    }
  }
  for (size_t i = 0; i < COUNT(variants); i++) {
    stg_strbuf_finish(&texts[i]);
  }
}

/* The way back has no bias, so that both directions of it share a kernel. */
static void a_bias_changes_no_text_of_the_way_back(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  struct stg_launch_rule rule;
  kernel.turned = true;
  struct stg_strbuf without = must_generate(&kernel, &rule);
  kernel.geometry.bias = true;
  struct stg_strbuf with = must_generate(&kernel, &rule);
  assert_string_equal(stg_strbuf_text(&with), stg_strbuf_text(&without));
  stg_strbuf_finish(&with);
  stg_strbuf_finish(&without);
}

static void no_line_is_long_and_each_ends_where_it_should(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  struct stg_launch_rule rule;
  kernel.geometry.components = STG_COMPONENTS_MAX_COMPONENTS;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  for (const char *line = stg_strbuf_text(&text); *line != '\0';) {
    const size_t len = strcspn(line, "\n");
    assert_true(len <= MAX_LINE_CHARS);
    assert_true(len == 0 || (line[len - 1] != ' ' && memchr(line, '\t', len) == NULL));
    assert_int_equal(line[len], '\n');
    line += len + 1;
  }
  stg_strbuf_finish(&text);
}

static void each_work_has_its_name_its_argument_and_its_files(void **state) {
  (void)state;
  static const struct {
    const char *name, *arg, *run;
    size_t bytes;
  } expected[] = {
      [STG_COMPONENTS_APPLY] = {"stg_components_apply", "struct stg_components_apply_args {",
                                "void stg_components_apply_run(",
                                sizeof(struct stg_components_apply_args)},
      [STG_COMPONENTS_WEIGHTS] = {"stg_components_weights", "struct stg_components_weights_args {",
                                  "void stg_components_weights_run(",
                                  sizeof(struct stg_components_weights_args)},
      [STG_COMPONENTS_SUM] = {"stg_components_sum", "struct stg_components_sum_args {",
                              "void stg_components_sum_run(",
                              sizeof(struct stg_components_sum_args)},
  };
  for (size_t i = 0; i < COUNT(expected); i++) {
    const enum stg_components_work work = (enum stg_components_work)i;
    struct stg_strbuf prelude = {0};
    stg_components_prelude(work, &prelude);
    assert_int_equal(stg_strbuf_status(&prelude, NULL), STG_OK);
    assert_string_equal(stg_components_kernel_name(work), expected[i].name);
    assert_int_equal(stg_components_args_bytes(work), expected[i].bytes);
    for (size_t k = 0; k < COUNT(expected); k++) {
      assert_true((strstr(stg_strbuf_text(&prelude), expected[k].arg) != NULL) == (k == i));
      assert_true((strstr(stg_strbuf_text(&prelude), expected[k].run) != NULL) == (k == i));
    }
    stg_strbuf_finish(&prelude);
  }
}

/* A thread for each element of each result. */
static void a_sum_has_blocks_for_all_its_results(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  struct stg_components_geometry *const g = &kernel.geometry;
  struct stg_launch_rule rule;
  kernel.work = STG_COMPONENTS_SUM;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  assert_int_equal(rule.threads, 256);
  assert_int_equal(stg_launch_stage_bytes(&rule, false), 0);
  stg_strbuf_finish(&text);
  g->d_in = 8;
  g->d_out = 8;
  g->components = 16; /* 256 elements of dv and du */
  assert_int_equal(stg_components_sum_blocks(g, 100, 1, false), 1);
  g->bias = true;
  assert_int_equal(stg_components_sum_blocks(g, 100, 1, false), 2);
  g->delta = true; /* 328 */
  assert_int_equal(stg_components_sum_blocks(g, 100, 9, false), 2);
  assert_int_equal(stg_components_sum_blocks(g, 100, 10, true), 2); /* 10 groups: 488 */
  assert_int_equal(stg_components_sum_blocks(g, 100, 9, true), 3);  /* 12 groups: 520 */
}

static void expect(stg_status status, const struct stg_components_kernel *kernel,
                   const char *message) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule = {.threads = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_components_generate(kernel, &source, &rule, &err), status);
  assert_string_equal(err.message, message);
  assert_int_equal(rule.threads, 7);
  assert_int_equal(source.len, 0);
  stg_strbuf_finish(&source);
}

static void expect_refusal(const struct stg_components_kernel *kernel, const char *message) {
  expect(STG_E_INVALID, kernel, message);
}
static void expect_unsupported(const struct stg_components_kernel *kernel, const char *message) {
  expect(STG_E_UNSUPPORTED, kernel, message);
}

static void refuses_what_it_has_no_kernel_for(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  kernel.geometry.d_in = 0;
  expect_refusal(&kernel, "d_in: 0 is not in 1..512");
  kernel = usual();
  kernel.geometry.d_out = 513;
  expect_refusal(&kernel, "d_out: 513 is not in 1..512");
  kernel = usual();
  kernel.geometry.components = 1048577;
  expect_refusal(&kernel, "components: 1048577 is not in 1..1048576");
  kernel = usual();
  kernel.geometry.dtype = (stg_dtype)9;
  expect_refusal(&kernel, "dtype: 9 is none of bf16 (1), f16 (2), f32 (3)");
  kernel.work = STG_COMPONENTS_SUM;
  expect_refusal(&kernel, "dtype: 9 is none of bf16 (1), f16 (2), f32 (3)");
  kernel = usual();
  kernel.geometry.tf32 = true;
  expect_refusal(&kernel, "tf32: needs float32, not bf16");
  kernel = usual();
  kernel.tile = 96;
  expect_refusal(&kernel, "tile: 96 is none of 32, 64, 128");
}

static void refuses_float32_that_has_no_room(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  kernel.geometry.dtype = STG_F32;
  kernel.geometry.d_in = 512;
  kernel.geometry.d_out = 512;
  kernel.sm = 89;
  expect_unsupported(&kernel,
                     "components: f32 of 512 -> 512 needs more shared memory than sm_89 has");
  kernel.geometry.tf32 = true;
  expect_unsupported(&kernel,
                     "components: f32 of 512 -> 512 needs more shared memory than sm_89 has");
  kernel.work = STG_COMPONENTS_WEIGHTS;
  expect_unsupported(&kernel,
                     "components: f32 of 512 -> 512 needs more shared memory than sm_89 has");
}

/* ---- extents ---- */

static void check_extents(const struct stg_components_kernel *kernel) {
  const struct stg_components_extents e = stg_components_extents_of(kernel);
  const uint32_t out = kernel->turned ? kernel->geometry.d_in : kernel->geometry.d_out;
  assert_true(e.static_bytes + e.dynamic_bytes <= stg_components_shared_bytes(kernel->sm));
  assert_true(e.tile <= kernel->tile);
  assert_int_equal(e.threads, WARPS * LANES);
  /* warps have the result between them, and it is not much larger */
  assert_int_equal(e.warp_rows * (WARPS / e.warps_n), e.tile);
  assert_true(e.warp_columns * e.warps_n >= out);
  assert_true((e.warp_columns - 16) * e.warps_n < out);
  assert_int_equal(e.warp_rows % 16, 0);
  assert_int_equal(e.warp_columns % 16, 0);
  assert_true(e.warp_rows * e.warp_columns <= 32 * 176); /* sums of a thread */
  /* as many as there are have the intermediate */
  assert_int_equal(e.tile % e.s_rows, 0);
  assert_int_equal(e.chunk % e.s_columns, 0);
  assert_int_equal(e.s_rows % 16, 0);
  assert_int_equal(e.s_columns % 16, 0);
  assert_true(e.tile / e.s_rows * (e.chunk / e.s_columns) <= WARPS);
  assert_in_range(e.stages, 1, 3);
  /* the result goes out by way of memory that the ring had, 16 rows of each warp at a time */
  assert_true(WARPS * 16 * (e.warp_columns / 8 | 1) * 16 <= e.dynamic_bytes);
  /* what comes by words has a piece behind each row, and as many rows of either parity */
  assert_int_equal(e.chunk % 16, 0);
  assert_int_equal(e.tile % 2, 0);
}

/* There is room unless a size is above `wide` and the card is not large. */
static void check_float_extents(const struct stg_components_kernel *kernel, uint32_t wide) {
  const struct stg_components_geometry *g = &kernel->geometry;
  assert_int_equal(stg_components_has_room(kernel), stg_components_extents_of(kernel).tile != 0);
  if (stg_components_has_room(kernel)) {
    check_extents(kernel);
    /* exact sums have parts of so many */
    assert_true(g->tf32 || stg_components_extents_of(kernel).chunk % STG_COMPONENTS_PART == 0);
  } else {
    assert_true(stg_components_shared_bytes(kernel->sm) < 200000);
    assert_true(g->d_in > wide || g->d_out > wide);
  }
}

static void extents_cover_every_geometry_and_fit_each_device(void **state) {
  (void)state;
  static const uint32_t sizes[] = {1,   7,   16,  64,  100, 127, 128, 129,
                                   255, 256, 341, 352, 353, 500, 511, 512};
  struct stg_components_kernel kernel = usual();
  for (size_t i = 0; i < COUNT(sizes) * COUNT(sizes) * COUNT(archs); i++) {
    kernel.geometry.d_in = sizes[i % COUNT(sizes)];
    kernel.geometry.d_out = sizes[i / COUNT(sizes) % COUNT(sizes)];
    kernel.sm = archs[i / COUNT(sizes) / COUNT(sizes)];
    for (uint32_t how = 0; how < 36; how++) {
      kernel.turned = how % 2 != 0;
      kernel.geometry.delta = how / 2 % 2 != 0;
      kernel.geometry.mask = (enum stg_components_mask)(how / 4 % 3);
      kernel.tile = 32U << how / 12;
      kernel.geometry.dtype = STG_BF16;
      kernel.geometry.tf32 = false;
      check_extents(&kernel);
      kernel.geometry.dtype = STG_F32;
      check_float_extents(&kernel, 128);
      kernel.geometry.tf32 = true;
      check_float_extents(&kernel, 256);
    }
  }
}

static void the_model_of_the_design_has_whole_tiles_on_a_large_card(void **state) {
  (void)state;
  static const uint32_t shapes[][2] = {{128, 128}, {128, 64}, {128, 341}, {341, 128}};
  for (size_t i = 0; i < COUNT(shapes) * 4; i++) {
    struct stg_components_kernel kernel = usual();
    kernel.geometry.d_in = shapes[i / 4][0];
    kernel.geometry.d_out = shapes[i / 4][1];
    kernel.turned = i % 2 != 0;
    kernel.geometry.delta = i / 2 % 2 != 0;
    const struct stg_components_extents e = stg_components_extents_of(&kernel);
    /* dd takes registers that sums of 341 columns leave none of */
    const bool dd = kernel.turned && kernel.geometry.delta && kernel.geometry.d_in == 341;
    assert_int_equal(e.tile, dd ? 64 : 128);
    assert_true(e.stages >= 2 && e.chunk >= 32);
  }
}

static bool has_choice(struct stg_components_choice choice, uint32_t tile, uint32_t d_out) {
  struct stg_components_kernel kernel = usual();
  kernel.tile = tile;
  kernel.geometry.d_out = d_out;
  kernel.choice = choice;
  return stg_components_has_room(&kernel);
}

static void a_choice_is_kept_or_refused(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  kernel.tile = 128;
  kernel.geometry.d_out = 128;
  for (uint32_t rows = 16; rows <= 32; rows += 16) {
    kernel.choice = (struct stg_components_choice){.rows = rows, .columns = 32};
    const struct stg_components_extents e = stg_components_extents_of(&kernel);
    assert_true(e.own);
    assert_int_equal(e.threads, 128 / rows * LANES);
    assert_int_equal(e.warp_rows, rows);
    assert_int_equal(e.warps_n, 1);
    assert_int_equal(e.warp_columns, kernel.geometry.d_out);
    assert_int_equal(e.s_columns, 32);
  }
  kernel.choice = (struct stg_components_choice){.chunk = 32, .stages = 2};
  assert_int_equal(stg_components_extents_of(&kernel).chunk, 32);
  assert_int_equal(stg_components_extents_of(&kernel).stages, 2);
  assert_false(stg_components_extents_of(&kernel).own);
  assert_false(has_choice((struct stg_components_choice){16, 24, 0, 0}, 128, 128)); /* columns */
  assert_false(has_choice((struct stg_components_choice){48, 32, 0, 0}, 128, 128)); /* rows */
  assert_false(has_choice((struct stg_components_choice){16, 32, 0, 0}, 32, 128));  /* few warps */
  assert_false(has_choice((struct stg_components_choice){32, 32, 0, 0}, 128, 341)); /* sums */
  assert_true(has_choice((struct stg_components_choice){16, 32, 0, 0}, 128, 341));
  kernel.choice = (struct stg_components_choice){.rows = 16, .columns = 24};
  expect_unsupported(&kernel, "components: what is chosen of bf16 128 -> 128 is not to be had");
}

static void the_launch_rule_says_what_the_extents_are(void **state) {
  (void)state;
  struct stg_components_kernel kernel = usual();
  struct stg_launch_rule rule;
  kernel.tile = 64;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  const struct stg_components_extents e = stg_components_extents_of(&kernel);
  assert_int_equal(rule.threads, e.threads);
  assert_int_equal(rule.rows_per_block, e.tile);
  assert_int_equal(rule.resident_blocks, 1);
  assert_int_equal(stg_launch_stage_bytes(&rule, false), e.dynamic_bytes);
  assert_int_equal(stg_launch_stage_bytes(&rule, true), e.dynamic_bytes);
  stg_strbuf_finish(&text);
}

static void tiles_grow_with_the_rows(void **state) {
  (void)state;
  assert_int_equal(stg_components_tile_of(1), 32);
  assert_int_equal(stg_components_tile_of(4224), 32);
  assert_int_equal(stg_components_tile_of(4225), 64);
  assert_int_equal(stg_components_tile_of(8448), 64);
  assert_int_equal(stg_components_tile_of(8449), 128);
  assert_int_equal(stg_components_tile_of(INT32_MAX), 128);
}

/* ---- lanes: what prelude/tile16.cuh does, in C ---- */

static void lanes_read_the_elements_that_products_want(void **state) {
  (void)state;
  static float bed[BED_ELEMS];
  matrix_bed_fill(bed);
  for (uint32_t pitch = 3; pitch <= MAX_PITCH; pitch += 2) {
    uint32_t by_k[LANES];
    uint32_t by_n[LANES];
    float a[LANES][4][2];
    float b_by_k[LANES][4][2];
    float b_by_n[LANES][4][2];
    for (uint32_t lane = 0; lane < LANES; lane++) {
      by_k[lane] = lane_by_k(lane, pitch);
      by_n[lane] = lane_by_n(lane, pitch);
    }
    load_matrices(bed, by_k, 4, false, a);
    load_matrices(bed, by_k, 4, true, b_by_k);
    load_matrices(bed, by_n, 4, false, b_by_n);
    for (uint32_t row = 0; row < 16; row++) {
      for (uint32_t column = 0; column < 16; column++) {
        const float there = bed[row * pitch * 8 + column];
        assert_true(of_a(a, row, column) == there);
        assert_true(of_b(b_by_k, row, column) == there); /* rows of k */
        assert_true(of_b(b_by_n, column, row) == there); /* rows of n */
      }
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
        groups_by_k |= 1U << lane_by_k(lane, pitch) / 16 % 8;
        groups_by_n |= 1U << lane_by_n(lane, pitch) / 16 % 8;
      }
      assert_int_equal(groups_by_k, 0xff);
      assert_int_equal(groups_by_n, 0xff);
    }
  }
}

/* Masks and s go as words of the lanes that have the sums: (g, 2t) and its neighbour. */
static void no_two_lanes_read_or_write_words_of_one_bank(void **state) {
  (void)state;
  for (uint32_t pitch = 1; pitch <= MAX_PITCH; pitch += 2) {
    uint32_t banks = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
      banks |= 1U << (lane / 4 * pitch * 4 + lane % 4) % BANKS;
    }
    assert_int_equal(banks, UINT32_MAX);
  }
}

/* Of float32 a piece has 4 elements: what is a word of two above is one of them. Rows of k are read
 * by words: lane 4g + t has (t, g) and (t + 4, g), for which rows are 8 or 24 banks apart. */
static void lanes_read_float32_by_rows_of_k_from_all_banks(void **state) {
  (void)state;
  for (uint32_t pieces = 1; pieces <= MAX_PITCH; pieces++) {
    const uint32_t pitch = (pieces + 1) / 4 * 4 + 2;
    uint32_t banks = 0;
    assert_true(pitch >= pieces && pitch < pieces + 4);
    for (uint32_t lane = 0; lane < LANES; lane++) {
      const uint32_t at = (lane & 3) * (pitch * 16) + (lane >> 2) * 4;
      banks |= 1U << at / 4 % BANKS;
      assert_int_equal(at, (lane % 4 * pitch * 4 + lane / 4) * 4);
    }
    assert_int_equal(banks, UINT32_MAX);
  }
}

/* What is simulated above is what the device has. */
static void the_prelude_has_these_lanes(void **state) {
  (void)state;
  struct stg_strbuf prelude = {0};
  stg_components_prelude(STG_COMPONENTS_APPLY, &prelude);
  const char *const text = stg_strbuf_text(&prelude);
  assert_non_null(strstr(text, "return ((lane & 15u) * Pitch + (lane >> 4)) * 16u;"));
  assert_non_null(
      strstr(text, "return (((lane & 7u) + (lane >> 4) * 8u) * Pitch + (lane >> 3 & 1u)) * 16u;"));
  assert_non_null(strstr(text, "return pieces | 1;"));
  assert_non_null(strstr(text, "return (pieces + 1) / 4 * 4 + 2;"));
  assert_non_null(strstr(text, "return (lane & 3u) * (Pitch * 16u) + (lane >> 2) * 4u;"));
  stg_strbuf_finish(&prelude);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_arguments_give_equal_bytes),
      cmocka_unit_test(every_part_of_the_kernel_changes_the_text),
      cmocka_unit_test(a_bias_changes_no_text_of_the_way_back),
      cmocka_unit_test(no_line_is_long_and_each_ends_where_it_should),
      cmocka_unit_test(each_work_has_its_name_its_argument_and_its_files),
      cmocka_unit_test(a_sum_has_blocks_for_all_its_results),
      cmocka_unit_test(refuses_what_it_has_no_kernel_for),
      cmocka_unit_test(refuses_float32_that_has_no_room),
      cmocka_unit_test(extents_cover_every_geometry_and_fit_each_device),
      cmocka_unit_test(the_model_of_the_design_has_whole_tiles_on_a_large_card),
      cmocka_unit_test(a_choice_is_kept_or_refused),
      cmocka_unit_test(the_launch_rule_says_what_the_extents_are),
      cmocka_unit_test(tiles_grow_with_the_rows),
      cmocka_unit_test(lanes_read_the_elements_that_products_want),
      cmocka_unit_test(no_two_of_eight_lanes_read_one_group_of_banks),
      cmocka_unit_test(no_two_lanes_read_or_write_words_of_one_bank),
      cmocka_unit_test(lanes_read_float32_by_rows_of_k_from_all_banks),
      cmocka_unit_test(the_prelude_has_these_lanes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
