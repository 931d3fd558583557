/*
 * test_components_kernel.c: kernels of the components family on a device: within the oracle's
 * bounds, and with the same bits in every tile, ring and company.
 */
#include "tests/gpu/components_applied.h"

#include <string.h>

#include "codegen/components_extents.h"
#include "runtime/base/dtype.h"
#include "tests/gpu/components_timing.h"
#include "tests/support/quick.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SEED 17

static const uint32_t tiles[] = {32, 64, 128};

/* ---- sizes ---- */

/* d_in, components, d_out, rows */
static const uint32_t odd_sizes[][4] = {
    {1, 1, 1, 1},        {5, 7, 4, 6},        {3, 40, 2, 33},       {16, 16, 16, 32},
    {17, 65, 15, 31},    {128, 64, 128, 128}, {100, 1200, 60, 65},  {128, 1200, 341, 70},
    {341, 100, 128, 40}, {64, 2048, 64, 20},  {352, 33, 353, 129},  {511, 130, 512, 66},
    {512, 72, 511, 33},  {8, 1, 8, 257},      {127, 129, 129, 127},
};

static void odd_sizes_are_within_the_bounds(void **state) {
  struct components_device *device = *state;
  const size_t hows = test_is_quick() ? 1 : 3;
  for (size_t i = 0; i < COUNT(odd_sizes) * hows; i++) {
    const struct components_shape shape = applied_shape(odd_sizes[i / hows], i * 7 % APPLIED_HOWS);
    struct attn_bed bed;
    struct components_case c;
    attn_open(&bed, SEED + i);
    applied_open(&bed, &shape, &c);
    applied_run_well(device, &c,
                     (struct components_how){.tile = tiles[i % 3], .aligned = i % 2 != 0});
    attn_close(&bed);
  }
}

/* A lower part of exact products that is lost is seen at small sizes alone. */
static void float32_of_odd_sizes(struct components_device *device, size_t exact) {
  for (size_t i = 0; i < COUNT(odd_sizes); i++) {
    const struct components_shape shape =
        applied_float_shape(odd_sizes[i], i * 14 % APPLIED_HOWS + exact);
    const struct stg_components_kernel kernel = {
        .geometry = shape.geometry, .tile = 32, .sm = components_device_sm(device)};
    struct attn_bed bed;
    struct components_case c;
    if (!stg_components_has_room(&kernel)) {
      continue;
    }
    attn_open(&bed, SEED + i);
    applied_open(&bed, &shape, &c);
    applied_run_well(device, &c,
                     (struct components_how){
                         .tile = tiles[i % 3], .aligned = i % 2 != 0, .misaligned = i % 4 == 2});
    attn_close(&bed);
  }
}
static void tf32_of_odd_sizes_is_within_the_bounds(void **state) {
  float32_of_odd_sizes(*state, 0);
}
static void exact_float32_of_odd_sizes_is_within_the_bounds(void **state) {
  float32_of_odd_sizes(*state, 1);
}

static const uint32_t widths[] = {1, 5, 32, 128, 341, 512};
static const uint32_t counts[] = {1, 7, 40, 1200, 2048};
static const uint32_t rows_of[] = {1, 3, 64, 129};

/* What the oracle takes of a call: one of more would be seconds of it. */
#define MOST_PRODUCTS 2e7

static bool is_quick_to_check(const uint32_t n[4]) {
  return (double)n[3] * n[1] * (n[0] + n[2]) <= MOST_PRODUCTS;
}

/* From one width to each, over whole and odd addresses. */
static void sweep(struct components_device *device, size_t from) {
  for (size_t i = 0; i < COUNT(widths) * COUNT(rows_of); i++) {
    const size_t to = i / COUNT(rows_of);
    const size_t nth = i % COUNT(rows_of);
    const uint32_t n[] = {widths[from], counts[(from + 2 * to) % COUNT(counts)], widths[to],
                          rows_of[nth]};
    const struct components_shape shape = applied_shape(n, (from * 7 + to * 5) % APPLIED_HOWS);
    struct attn_bed bed;
    struct components_case c;
    if (!is_quick_to_check(n)) {
      continue;
    }
    attn_open(&bed, SEED + i);
    applied_open(&bed, &shape, &c);
    applied_run_well(device, &c,
                     (struct components_how){.tile = tiles[(from + to) % 3],
                                             .aligned = nth % 2 != 0,
                                             .misaligned = nth == 2});
    attn_close(&bed);
  }
}

static void from_1_to_each_width(void **state) {
  sweep(*state, 0);
}
static void from_5_to_each_width(void **state) {
  sweep(*state, 1);
}
static void from_32_to_each_width(void **state) {
  sweep(*state, 2);
}
static void from_128_to_each_width(void **state) {
  sweep(*state, 3);
}
static void from_341_to_each_width(void **state) {
  sweep(*state, 4);
}
static void from_512_to_each_width(void **state) {
  sweep(*state, 5);
}

static void the_models_shapes_are_within_the_bounds(void **state) {
  struct components_device *device = *state;
  static const uint32_t sizes[][4] = {
      {128, 1200, 128, 140}, {128, 1200, 64, 140}, {128, 1200, 341, 140}, {341, 1200, 128, 140}};
  for (size_t i = 0; i < COUNT(sizes) * 2; i++) {
    const struct components_shape shape = applied_shape(sizes[i / 2], i % 2 == 0 ? 2 : 14);
    struct attn_bed bed;
    struct components_case c;
    attn_open(&bed, SEED + i);
    applied_open(&bed, &shape, &c);
    applied_run_well(device, &c,
                     (struct components_how){.tile = 128, .aligned = true, .early = true});
    attn_close(&bed);
  }
}

/* ---- invariance ---- */

/* Tiles, rings of smaller devices, and addresses at whole elements. */
static void compare_bits(struct components_device *device, struct components_shape shape) {
  static const uint32_t archs[] = {0, 80, 120};
  struct attn_bed bed;
  struct components_case first;
  struct components_case other;
  device->how = (struct components_how){0};
  const uint32_t room = stg_components_shared_bytes(components_device_sm(device));
  attn_open(&bed, SEED);
  applied_open(&bed, &shape, &first);
  applied_run_well(device, &first, (struct components_how){.aligned = true});
  for (size_t k = 0; k < COUNT(tiles) * COUNT(archs); k += test_is_quick() ? 2 : 1) {
    const uint32_t sm = archs[k / COUNT(tiles)];
    const struct stg_components_kernel kernel = {
        .geometry = shape.geometry, .tile = 32, .sm = sm != 0 ? sm : 90};
    other = first;
    applied_renew(&other);
    if (sm != 0 && (stg_components_shared_bytes(sm) > room || !stg_components_has_room(&kernel))) {
      continue;
    }
    applied_run(device, &other,
                (struct components_how){.tile = tiles[k % COUNT(tiles)],
                                        .sm = sm,
                                        .aligned = k % 2 == 0,
                                        .misaligned = k % 3 == 2});
    applied_expect_same(&first, &other, shape.rows);
  }
  attn_close(&bed);
}

static void bits_of_128_to_128_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_shape((uint32_t[4]){128, 300, 128, 140}, 20));
}
static void bits_of_128_to_341_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_shape((uint32_t[4]){128, 200, 341, 140}, 15));
}
static void bits_of_341_to_128_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_shape((uint32_t[4]){341, 100, 128, 70}, 23));
}
static void bits_of_512_to_512_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_shape((uint32_t[4]){512, 90, 512, 70}, 12));
}
static void bits_of_tf32_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_float_shape((uint32_t[4]){128, 100, 341, 140}, 14));
}
static void bits_of_exact_float32_are_those_of_any_tile_and_ring(void **state) {
  compare_bits(*state, applied_float_shape((uint32_t[4]){128, 100, 200, 140}, 15));
}

static void a_rows_bits_do_not_depend_on_its_company(void **state) {
  struct components_device *device = *state;
  static const int64_t fewer[] = {64, 3, 1};
  for (size_t how = 0; how < APPLIED_HOWS; how += test_is_quick() ? 5 : 1) {
    const struct components_shape shape = applied_shape((uint32_t[4]){50, 70, 40, 150}, how);
    struct attn_bed bed;
    struct components_case many;
    attn_open(&bed, SEED + how);
    applied_open(&bed, &shape, &many);
    applied_run(device, &many, (struct components_how){.tile = 64});
    for (size_t i = 0; i < COUNT(fewer); i++) {
      struct components_case few = many;
      applied_renew(&few);
      few.inputs.rows.rows = fewer[i];
      applied_run(device, &few, (struct components_how){.tile = 64});
      applied_expect_same(&many, &few, fewer[i]);
    }
    attn_close(&bed);
  }
}

/* ---- masks ---- */

/* The mask of each row, by copies of the rows that are shared. */
static void expand_mask(struct components_case *c) {
  const size_t unit =
      c->geometry.mask == STG_COMPONENTS_MASK_BOOL ? 1 : stg_dtype_bytes(c->geometry.dtype);
  const size_t row_bytes = (size_t)c->inputs.mask_stride * unit;
  const int64_t rows = c->inputs.rows.rows;
  unsigned char *expanded = attn_filled(c->bed, row_bytes * (size_t)rows, 0);
  for (int64_t row = 0; row < rows; row++) {
    const size_t from = (size_t)stg_components_mask_row(&c->inputs, row);
    memcpy(expanded + row_bytes * (size_t)row,
           (const unsigned char *)c->inputs.mask + row_bytes * from, row_bytes);
  }
  c->inputs.mask = expanded;
  c->inputs.mask_share = 1;
}

static void masks_that_rows_share_equal_the_expanded_one(void **state) {
  struct components_device *device = *state;
  static const int64_t shares[] = {1, 2, 7, 33, 64, 0};
  for (size_t i = 0; i < COUNT(shares) * 2; i++) {
    struct components_shape shape = components_shape(24, 90, 40, 100);
    shape.geometry.dtype = i % 2 == 0 ? STG_BF16 : STG_F16;
    shape.geometry.mask = i % 2 == 0 ? STG_COMPONENTS_MASK_DTYPE : STG_COMPONENTS_MASK_BOOL;
    shape.share = shares[i / 2];
    struct attn_bed bed;
    struct components_case shared;
    attn_open(&bed, SEED + i);
    applied_open(&bed, &shape, &shared);
    applied_run_well(device, &shared, (struct components_how){.aligned = i % 4 < 2});
    struct components_case expanded = shared;
    expand_mask(&expanded);
    applied_renew(&expanded);
    applied_run(device, &expanded, (struct components_how){.tile = 64});
    applied_expect_same(&shared, &expanded, shape.rows);
    attn_close(&bed);
  }
}

/* ---- padding ---- */

static void fill_row(stg_dtype dtype, const void *tensor, int64_t row, int64_t stride, int64_t n) {
  uint16_t *const elements = (uint16_t *)(uintptr_t)tensor + row * stride;
  for (int64_t j = 0; j < n; j++) {
    elements[j] = j % 2 == 0 ? 0x7fff : dtype == STG_F16 ? 0xfc00 : 0xff80; /* NaN, -Inf */
  }
}

/* NaN wherever a row of padding stands. */
static void soil_padding(const struct components_case *c) {
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  for (int64_t row = 0; row < in->rows.rows; row++) {
    if (stg_components_is_live(&in->rows, row)) {
      continue;
    }
    fill_row(g->dtype, in->x, row, in->x_stride, g->d_in);
    fill_row(g->dtype, c->dy, row, c->dy_stride, g->d_out);
    if (g->mask == STG_COMPONENTS_MASK_DTYPE) {
      fill_row(g->dtype, in->mask, row, in->mask_stride, g->components);
    }
    if (g->delta) {
      fill_row(g->dtype, in->d, row, 1, 1);
    }
  }
}

static void expect_zeros(const struct components_case *c, size_t result) {
  const struct components_result r = components_result(c, result);
  for (int64_t row = 0; row < r.rows; row++) {
    for (int64_t j = 0; j < r.columns && !stg_components_is_live(&c->inputs.rows, row); j++) {
      assert_true(stg_load_f32(c->geometry.dtype, r.data, (size_t)(row * r.stride + j)) == 0);
    }
  }
}

static void padding_is_zeros_and_what_it_holds_touches_no_other_row(void **state) {
  struct components_device *device = *state;
  static const int32_t valid[] = {5, 0, 13, 12, -1, 40, 1, 3};
  for (size_t how = 0; how < APPLIED_HOWS; how += test_is_quick() ? 5 : 1) {
    const struct components_shape shape = applied_shape((uint32_t[4]){33, 70, 41, 100}, how);
    struct attn_bed bed;
    struct components_case clean;
    attn_open(&bed, SEED + how);
    applied_open(&bed, &shape, &clean);
    clean.inputs.rows.sequence = 13; /* the last of 8 is cut short */
    clean.inputs.rows.valid = valid;
    applied_run_well(device, &clean, (struct components_how){.tile = tiles[how % 3]});
    struct components_case dirty = clean;
    applied_renew(&dirty);
    soil_padding(&dirty);
    applied_run(device, &dirty, (struct components_how){.aligned = true});
    applied_expect_same(&clean, &dirty, shape.rows);
    expect_zeros(&dirty, APPLIED_Y);
    expect_zeros(&dirty, APPLIED_DX);
    if (shape.geometry.delta) {
      expect_zeros(&dirty, APPLIED_DD);
    }
    attn_close(&bed);
  }
}

/* A NaN in a live row is that row's alone. */
static void a_bad_row_spoils_no_other_one(void **state) {
  struct components_device *device = *state;
  const struct components_shape shape = applied_shape((uint32_t[4]){40, 90, 24, 70}, 2);
  struct attn_bed bed;
  struct components_case clean;
  attn_open(&bed, SEED);
  applied_open(&bed, &shape, &clean);
  applied_run(device, &clean, (struct components_how){.tile = 64});
  struct components_case dirty = clean;
  applied_renew(&dirty);
  fill_row(shape.geometry.dtype, dirty.inputs.x, 17, dirty.inputs.x_stride, 40);
  fill_row(shape.geometry.dtype, dirty.dy, 17, dirty.dy_stride, 24);
  applied_run(device, &dirty, (struct components_how){.tile = 64});
  applied_expect_same(&clean, &dirty, 17);
  applied_check(&dirty);
  attn_close(&bed);
}

/* One of dx and dd alone has the bits that it has with the other. */
static void what_is_not_wanted_changes_no_other(void **state) {
  struct components_device *device = *state;
  const struct components_shape shape = applied_shape((uint32_t[4]){128, 90, 64, 70}, 14);
  struct attn_bed bed;
  struct components_case both;
  attn_open(&bed, SEED);
  applied_open(&bed, &shape, &both);
  applied_run_well(device, &both, (struct components_how){0});
  struct components_case one = both;
  applied_renew(&one);
  one.out.dd = NULL;
  components_device_turn(device, &one);
  components_expect_same(&both, &one, APPLIED_DX, shape.rows);
  applied_renew(&one);
  one.out.dx = NULL;
  components_device_turn(device, &one);
  components_expect_same(&both, &one, APPLIED_DD, shape.rows);
  attn_close(&bed);
}

/* ---- sums of parts ---- */

/* Sums in the order of the spans, from parts of `step` elements each. */
static void expect_sums(const struct components_case *c, const char *name, const void *result,
                        const float *parts, int64_t n_parts, int64_t step) {
  const stg_dtype dtype = c->geometry.dtype;
  for (int64_t at = 0; at < step; at++) {
    float sum = parts[at];
    for (int64_t part = 1; part < n_parts; part++) {
      sum += parts[part * step + at];
    }
    uint32_t rounded = 0;
    stg_store_f32(dtype, &rounded, 0, sum);
    const float there = stg_load_f32(dtype, result, (size_t)at);
    if (there != stg_load_f32(dtype, &rounded, 0)) {
      fail_msg("%s[%lld] is %.9g and not %.9g", name, (long long)at, (double)there, (double)sum);
    }
  }
}

static void check_sums(const struct components_case *c, const float *parts,
                       const struct stg_components_parts *layout) {
  const struct stg_components_geometry *g = &c->geometry;
  const int64_t rows = c->inputs.rows.rows;
  const int64_t share = c->inputs.mask_share;
  const int64_t spans = stg_components_spans(g->components, rows);
  const int64_t span = stg_components_span(g->components, rows);
  expect_sums(c, "dv", c->out.dv, parts + layout->dv, spans, (int64_t)g->d_in * g->components);
  expect_sums(c, "du", c->out.du, parts + layout->du, spans, (int64_t)g->components * g->d_out);
  if (g->delta) {
    expect_sums(c, "ddelta", c->out.ddelta, parts + layout->ddelta, spans,
                (int64_t)g->d_out * g->d_in);
  }
  if (g->bias) {
    expect_sums(c, "dbias", c->out.dbias, parts + layout->dbias, spans, g->d_out);
  }
  for (int64_t group = 0; c->out.dm != NULL && group < stg_components_groups(rows, share);
       group++) {
    const int64_t first = group * share / span;
    const int64_t end = (group + 1) * share < rows ? (group + 1) * share : rows;
    const unsigned char *const row = (const unsigned char *)c->out.dm +
                                     (size_t)(group * c->out.dm_stride) * stg_dtype_bytes(g->dtype);
    expect_sums(c, "dm", row, parts + layout->dm + (first + group) * g->components,
                (end - 1) / span - first + 1, g->components);
  }
}

static void sums_of_parts_go_in_the_order_of_the_spans(void **state) {
  struct components_device *device = *state;
  static const stg_dtype all[] = {STG_BF16, STG_F16, STG_F32};
  static const uint32_t sizes[][4] = {
      {5, 7, 4, 6}, {17, 91, 33, 500}, {128, 1200, 64, 300}, {3, 13, 2, 9000}};
  static const int64_t shares[] = {2, 40, 0};
  for (size_t i = 0; i < COUNT(sizes) * COUNT(all) * COUNT(shares); i++) {
    const uint32_t *n = sizes[i % COUNT(sizes)];
    struct components_shape shape = components_shape(n[0], n[1], n[2], n[3]);
    shape.geometry.dtype = all[i / COUNT(sizes) % COUNT(all)];
    shape.geometry.bias = i % 2 != 0;
    shape.geometry.delta = i % 3 != 0;
    shape.share = shares[i / COUNT(sizes) / COUNT(all)];
    struct attn_bed bed;
    struct components_case c;
    struct stg_components_parts layout;
    attn_open(&bed, SEED + i);
    components_open(&bed, &shape, &c);
    assert_true(
        stg_components_parts_of(&c.geometry, shape.rows, c.inputs.mask_share, true, &layout));
    const float *parts = attn_random(&bed, STG_F32, (int64_t)layout.floats);
    device->how = (struct components_how){.early = i % 2 == 0};
    components_device_sum(device, &c, parts);
    check_sums(&c, parts, &layout);
    components_expect_gaps(&c);
    attn_close(&bed);
  }
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(odd_sizes_are_within_the_bounds),
      cmocka_unit_test(tf32_of_odd_sizes_is_within_the_bounds),
      cmocka_unit_test(exact_float32_of_odd_sizes_is_within_the_bounds),
      cmocka_unit_test(from_1_to_each_width),
      cmocka_unit_test(from_5_to_each_width),
      cmocka_unit_test(from_32_to_each_width),
      cmocka_unit_test(from_128_to_each_width),
      cmocka_unit_test(from_341_to_each_width),
      cmocka_unit_test(from_512_to_each_width),
      cmocka_unit_test(the_models_shapes_are_within_the_bounds),
      cmocka_unit_test(bits_of_128_to_128_are_those_of_any_tile_and_ring),
      cmocka_unit_test(bits_of_128_to_341_are_those_of_any_tile_and_ring),
      cmocka_unit_test(bits_of_341_to_128_are_those_of_any_tile_and_ring),
      cmocka_unit_test(bits_of_512_to_512_are_those_of_any_tile_and_ring),
      cmocka_unit_test(bits_of_tf32_are_those_of_any_tile_and_ring),
      cmocka_unit_test(bits_of_exact_float32_are_those_of_any_tile_and_ring),
      cmocka_unit_test(a_rows_bits_do_not_depend_on_its_company),
      cmocka_unit_test(masks_that_rows_share_equal_the_expanded_one),
      cmocka_unit_test(padding_is_zeros_and_what_it_holds_touches_no_other_row),
      cmocka_unit_test(a_bad_row_spoils_no_other_one),
      cmocka_unit_test(what_is_not_wanted_changes_no_other),
      cmocka_unit_test(sums_of_parts_go_in_the_order_of_the_spans),
      cmocka_unit_test(prints_times_where_asked_to),
  };
  return cmocka_run_group_tests(tests, components_device_setup, components_device_teardown);
}
