/*
 * test_components_weights.c: gradients of components that are sums over rows, and dm, on a device:
 * parts and their sums within the oracle's bounds, with the same bits in every ring and at every
 * address.
 */
#include "tests/gpu/components_device.h"

#include <math.h>
#include <string.h>

#include "codegen/components_extents.h"
#include "runtime/base/dtype.h"
#include "tests/support/quick.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SEED 29
#define HOWS 48

/* A shape whose mask, dtype, bias, delta and share follow from `how`. */
static struct components_shape shape_of(const uint32_t sizes[4], size_t how) {
  static const int64_t shares[] = {1, 5, 0, 40};
  struct components_shape shape = components_shape(sizes[0], sizes[1], sizes[2], sizes[3]);
  shape.geometry.dtype = how % 2 == 0 ? STG_BF16 : STG_F16;
  shape.geometry.mask = (enum stg_components_mask)(how / 2 % 3);
  shape.geometry.bias = how / 6 % 2 != 0;
  shape.geometry.delta = how / 12 % 2 != 0;
  shape.share = shares[(how + how / 4) % 4];
  return shape;
}

/* The same of float32: in TF32, or of an odd `how` exact. */
static struct components_shape float_shape_of(const uint32_t sizes[4], size_t how) {
  struct components_shape shape = shape_of(sizes, how);
  shape.geometry.dtype = STG_F32;
  shape.geometry.tf32 = how % 2 == 0;
  return shape;
}
static bool has_room(const struct components_device *device, const struct components_shape *shape,
                     uint32_t sm) {
  const struct stg_components_kernel kernel = {.work = STG_COMPONENTS_WEIGHTS,
                                               .geometry = shape->geometry,
                                               .sm = sm != 0 ? sm : components_device_sm(device)};
  return stg_components_has_room(&kernel);
}

/* Those of the rows are the apply's. */
static void leave_sums(struct components_case *c) {
  c->out.dx = c->out.dd = NULL;
}

static void open_case(struct attn_bed *bed, const struct components_shape *shape,
                      struct components_case *ret) {
  components_open(bed, shape, ret);
  leave_sums(ret);
}

static void renew_case(struct components_case *c) {
  components_renew(c);
  leave_sums(c);
}

static void run(struct components_device *device, const struct components_case *c,
                struct components_how how) {
  device->how = how;
  components_device_back(device, c);
  components_expect_gaps(c);
}

static void run_well(struct components_device *device, const struct components_case *c,
                     struct components_how how) {
  run(device, c, how);
  const struct stg_oracle_components_report report = components_check_back(c);
  if (!report.ok) {
    const struct stg_components_geometry *g = &c->geometry;
    fail_msg("%u->%u->%u of %lld rows, %s, mask %d of %lld: %s[%lld][%lld] is the first of %llu "
             "violations; the worst is %g of its bound",
             g->d_in, g->components, g->d_out, (long long)c->inputs.rows.rows,
             stg_dtype_name(g->dtype), (int)g->mask, (long long)c->inputs.mask_share,
             report.first_in, (long long)report.first_row, (long long)report.first_element,
             (unsigned long long)report.violations, report.worst_ratio);
  }
}

static void expect_same(const struct components_case *a, const struct components_case *b) {
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(a, k);
    if (result.data != NULL) {
      components_expect_same(a, b, k, result.rows);
    }
  }
}

/* ---- sizes ---- */

static const uint32_t widths[] = {1, 5, 32, 128, 341, 512};
static const uint32_t counts[] = {1, 7, 40, 1200, 2048};
static const uint32_t rows_of[] = {1, 3, 64, 129, 700};

/* What the oracle takes of a call: one of more would be seconds of it. */
#define MOST_PRODUCTS 2e7

static double products_of(const struct components_shape *shape) {
  const struct stg_components_geometry *g = &shape->geometry;
  const double both = (double)g->d_in + g->d_out;
  const double delta = g->delta ? (double)g->d_in * g->d_out : 0;
  return (double)shape->rows * (g->components * both + delta);
}

/* From one width to each, over whole and odd addresses. */
static void sweep(struct components_device *device, size_t from) {
  for (size_t i = 0; i < COUNT(widths) * COUNT(rows_of); i++) {
    const size_t to = i / COUNT(rows_of);
    const size_t nth = i % COUNT(rows_of);
    const uint32_t n[] = {widths[from], counts[(from + 2 * to + 1) % COUNT(counts)], widths[to],
                          rows_of[nth]};
    struct components_shape shape = shape_of(n, (from * 7 + to * 5) % HOWS);
    struct attn_bed bed;
    struct components_case c;
    if (products_of(&shape) > MOST_PRODUCTS) {
      continue;
    }
    shape.share = shape_of(n, from + to + nth).share; /* is in no text */
    attn_open(&bed, SEED + i);
    open_case(&bed, &shape, &c);
    run_well(device, &c,
             (struct components_how){
                 .aligned = nth % 2 != 0, .misaligned = nth == 2, .early = nth == 4});
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

/* A lower part of exact products that is lost is seen at small sizes alone. */
static void float32_of_odd_sizes(struct components_device *device, size_t exact) {
  static const uint32_t sizes[][4] = {{1, 1, 1, 1},        {5, 7, 4, 6},        {3, 40, 2, 33},
                                      {17, 65, 15, 31},    {128, 90, 128, 700}, {100, 300, 60, 65},
                                      {128, 100, 341, 70}, {341, 100, 128, 40}, {511, 33, 500, 66}};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    const struct components_shape shape = float_shape_of(sizes[i], i * 10 % HOWS + exact);
    struct attn_bed bed;
    struct components_case c;
    if (!has_room(device, &shape, 0)) {
      continue;
    }
    attn_open(&bed, SEED + i);
    open_case(&bed, &shape, &c);
    run_well(device, &c, (struct components_how){.aligned = i % 2 != 0, .misaligned = i % 4 == 2});
    attn_close(&bed);
  }
}
static void tf32_of_odd_sizes_is_within_the_bounds(void **state) {
  float32_of_odd_sizes(*state, 0);
}
static void exact_float32_of_odd_sizes_is_within_the_bounds(void **state) {
  float32_of_odd_sizes(*state, 1);
}

static void the_models_shapes_are_within_the_bounds(void **state) {
  struct components_device *device = *state;
  static const uint32_t sizes[][4] = {
      {128, 1200, 128, 70}, {128, 1200, 64, 70}, {128, 1200, 341, 70}, {341, 1200, 128, 70}};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    struct components_shape shape = shape_of(sizes[i], i % 2 == 0 ? 2 : 20);
    struct attn_bed bed;
    struct components_case c;
    shape.share = i == 1 ? 16 : 1;
    attn_open(&bed, SEED + i);
    open_case(&bed, &shape, &c);
    run_well(device, &c, (struct components_how){.aligned = true, .early = true});
    attn_close(&bed);
  }
}

/* ---- invariance ---- */

/* Rings of smaller devices, and addresses at whole elements. */
static void bits_do_not_depend_on_ring_or_addresses(void **state) {
  struct components_device *device = *state;
  static const uint32_t archs[] = {0, 80, 120, 0};
  static const struct {
    uint32_t sizes[4];
    size_t how;
    bool wide;
  } cases[] = {{{128, 200, 128, 300}, 20, false},
               {{128, 100, 341, 140}, 15, false},
               {{512, 90, 512, 70}, 14, false},
               {{128, 100, 200, 140}, 14, true},
               {{128, 100, 200, 140}, 15, true}};
  device->how = (struct components_how){0};
  const uint32_t room = stg_components_shared_bytes(components_device_sm(device));
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct components_shape shape =
        (cases[i].wide ? float_shape_of : shape_of)(cases[i].sizes, cases[i].how);
    struct attn_bed bed;
    struct components_case first;
    shape.share = i == 0 ? 1 : 11;
    attn_open(&bed, SEED + i);
    open_case(&bed, &shape, &first);
    run_well(device, &first, (struct components_how){.aligned = true});
    for (size_t k = 0; k < COUNT(archs); k++) {
      struct components_case other = first;
      renew_case(&other);
      if (archs[k] != 0 &&
          (stg_components_shared_bytes(archs[k]) > room || !has_room(device, &shape, archs[k]))) {
        continue;
      }
      run(device, &other,
          (struct components_how){
              .sm = archs[k], .aligned = k % 2 == 0, .misaligned = k % 3 == 2, .early = k == 3});
      expect_same(&first, &other);
    }
    attn_close(&bed);
  }
}

/* ---- padding ---- */

static void soil_row(stg_dtype dtype, const void *tensor, int64_t row, int64_t stride, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    stg_store_f32(dtype, (void *)(uintptr_t)tensor, (size_t)(row * stride + j),
                  j % 2 == 0 ? NAN : -INFINITY);
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
    soil_row(g->dtype, in->x, row, in->x_stride, g->d_in);
    soil_row(g->dtype, c->dy, row, c->dy_stride, g->d_out);
    if (g->mask == STG_COMPONENTS_MASK_DTYPE && in->mask_share == 1) {
      soil_row(g->dtype, in->mask, row, in->mask_stride, g->components);
    }
    if (g->delta) {
      soil_row(g->dtype, in->d, row, 1, 1);
    }
  }
}

static void padding_is_in_no_sum(void **state) {
  struct components_device *device = *state;
  static const int32_t valid[] = {5, 0, 13, 12, -1, 40, 1, 3};
  for (size_t how = 0; how < HOWS; how += test_is_quick() ? 5 : 1) {
    const struct components_shape shape = shape_of((uint32_t[4]){33, 70, 41, 100}, how);
    struct attn_bed bed;
    struct components_case clean;
    attn_open(&bed, SEED + how);
    open_case(&bed, &shape, &clean);
    clean.inputs.rows.sequence = 13; /* the last of 8 is cut short */
    clean.inputs.rows.valid = valid;
    run_well(device, &clean, (struct components_how){0});
    struct components_case dirty = clean;
    renew_case(&dirty);
    soil_padding(&dirty);
    run(device, &dirty, (struct components_how){.aligned = true});
    expect_same(&clean, &dirty);
    attn_close(&bed);
  }
}

/* A mask that rows have in common gives the sum of what each row would have had. */
static void every_way_to_share_a_mask_is_within_the_bounds(void **state) {
  struct components_device *device = *state;
  static const int64_t shares[] = {1, 2, 7, 16, 33, 64, 100, 300, 0};
  for (size_t i = 0; i < COUNT(shares) * 2; i++) {
    struct components_shape shape = shape_of((uint32_t[4]){24, 90, 40, 300}, 2 + i % 2);
    struct attn_bed bed;
    struct components_case c;
    shape.share = shares[i / 2];
    attn_open(&bed, SEED + i);
    open_case(&bed, &shape, &c);
    run_well(device, &c, (struct components_how){.aligned = i % 4 < 2});
    attn_close(&bed);
  }
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tf32_of_odd_sizes_is_within_the_bounds),
      cmocka_unit_test(exact_float32_of_odd_sizes_is_within_the_bounds),
      cmocka_unit_test(from_1_to_each_width),
      cmocka_unit_test(from_5_to_each_width),
      cmocka_unit_test(from_32_to_each_width),
      cmocka_unit_test(from_128_to_each_width),
      cmocka_unit_test(from_341_to_each_width),
      cmocka_unit_test(from_512_to_each_width),
      cmocka_unit_test(the_models_shapes_are_within_the_bounds),
      cmocka_unit_test(bits_do_not_depend_on_ring_or_addresses),
      cmocka_unit_test(padding_is_in_no_sum),
      cmocka_unit_test(every_way_to_share_a_mask_is_within_the_bounds),
  };
  return cmocka_run_group_tests(tests, components_device_setup, components_device_teardown);
}
