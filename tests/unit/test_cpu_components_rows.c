/*
 * test_cpu_components_rows.c: what rows of the components family have to do with each other on the
 * CPU: masks that they share, padding among them, company; and gradients that nobody wants.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"
#include "tests/support/components_case.h"

#define ROWS 40
#define SEQUENCE 8
#define ALL_BUT_DM 4 /* results 0..3 are y, dx, dv, du */
#define DM 4

static const struct {
  stg_dtype dtype;
  bool tf32;
} kinds[] = {{STG_F32, false}, {STG_F32, true}, {STG_BF16, false}, {STG_F16, false}};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void open_kind(struct attn_bed *bed, size_t kind, struct components_shape shape,
                      struct components_case *ret) {
  shape.geometry.dtype = kinds[kind].dtype;
  shape.geometry.tf32 = kinds[kind].tf32;
  attn_open(bed, 100 + kind);
  components_open(bed, &shape, ret);
}

static struct components_shape usual(void) {
  struct components_shape shape = components_shape(21, 35, 17, ROWS);
  shape.geometry.bias = shape.geometry.delta = true;
  return shape;
}

/* The mask that `c` has, a row for each row. */
static const void *expand_mask(const struct components_case *c) {
  const size_t unit =
      c->geometry.mask == STG_COMPONENTS_MASK_BOOL ? 1 : stg_dtype_bytes(c->geometry.dtype);
  const size_t row_bytes = (size_t)c->inputs.mask_stride * unit;
  unsigned char *expanded = attn_filled(c->bed, ROWS * row_bytes, 0);
  for (size_t row = 0; row < ROWS; row++) {
    const size_t from = row / (size_t)c->inputs.mask_share;
    memcpy(expanded + row * row_bytes, (const unsigned char *)c->inputs.mask + from * row_bytes,
           row_bytes);
  }
  return expanded;
}

/* dm of a row of the mask against the sum of what its rows have by themselves. */
static void expect_sum(const struct components_case *shared, const struct components_case *alone) {
  const stg_dtype dtype = shared->geometry.dtype;
  const struct components_result sums = components_result(shared, DM);
  const int64_t share = shared->inputs.mask_share;
  for (int64_t group = 0; group < sums.rows; group++) {
    for (int64_t c = 0; c < sums.columns; c++) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t row = group * share; row < ROWS && row < (group + 1) * share; row++) {
        const size_t at = (size_t)(row * alone->out.dm_stride + c);
        const double term = (double)stg_load_f32(dtype, alone->out.dm, at);
        sum += term;
        magnitude += fabs(term);
      }
      const size_t at = (size_t)(group * sums.stride + c);
      const double ours = (double)stg_load_f32(dtype, sums.data, at);
      assert_true(fabs(ours - sum) <=
                  1.01 * stg_dtype_unit(dtype) * (magnitude + fabs(sum)) + 0x1p-20 * magnitude);
    }
  }
}

static void a_mask_of_every_form_equals_the_expanded_one(void **state) {
  static const int64_t shares[] = {SEQUENCE, 7, 0};
  for (size_t kind = 0; kind < KINDS; kind++) {
    for (size_t k = 0; k < 6; k++) {
      struct components_shape shape = usual();
      struct attn_bed bed;
      struct components_case shared;
      shape.share = shares[k % 3];
      shape.geometry.mask = k < 3 ? STG_COMPONENTS_MASK_DTYPE : STG_COMPONENTS_MASK_BOOL;
      open_kind(&bed, kind, shape, &shared);
      struct components_case alone = shared;
      alone.inputs.mask = expand_mask(&shared);
      alone.inputs.mask_share = 1;
      components_renew(&alone);
      components_run_well(&shared);
      components_run_well(&alone);
      for (size_t result = 0; result < ALL_BUT_DM; result++) {
        components_expect_same(&shared, &alone, result, components_result(&shared, result).rows);
      }
      if (k < 3) {
        expect_sum(&shared, &alone);
      }
      attn_close(&bed);
    }
  }
  (void)state;
}

static void a_mask_of_bytes_equals_one_of_zeros_and_ones(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct components_shape shape = usual();
    struct attn_bed bed;
    struct components_case bytes;
    shape.geometry.mask = STG_COMPONENTS_MASK_BOOL;
    open_kind(&bed, kind, shape, &bytes);
    struct components_case numbers = bytes;
    const int64_t elems = ROWS * bytes.inputs.mask_stride;
    void *mask =
        attn_nans(&bed, shape.geometry.dtype == STG_F32 ? STG_F32 : kinds[kind].dtype, elems);
    uint64_t kept = 0;
    for (int64_t j = 0; j < elems; j++) {
      const bool one = ((const uint8_t *)bytes.inputs.mask)[j] != 0;
      kept += one;
      stg_store_f32(kinds[kind].dtype, mask, (size_t)j, one ? 1 : 0);
    }
    assert_true(kept > 0 && kept < (uint64_t)elems);
    numbers.inputs.mask = mask;
    numbers.geometry.mask = STG_COMPONENTS_MASK_DTYPE;
    components_renew(&numbers);
    components_run_well(&bytes);
    components_run_well(&numbers);
    for (size_t result = 0; result < ALL_BUT_DM; result++) {
      components_expect_same(&bytes, &numbers, result, components_result(&bytes, result).rows);
    }
    attn_close(&bed);
  }
  (void)state;
}

/* NaN in everything that a padding row has. */
static void poison_padding(struct components_case *c) {
  const stg_dtype dtype = c->geometry.dtype;
  void *x = attn_copy(c->bed, dtype, c->inputs.x, ROWS * c->inputs.x_stride);
  void *dy = attn_copy(c->bed, dtype, c->dy, ROWS * c->dy_stride);
  void *d = attn_copy(c->bed, dtype, c->inputs.d, ROWS);
  void *mask = attn_copy(c->bed, dtype, c->inputs.mask, ROWS * c->inputs.mask_stride);
  for (int64_t row = 0; row < ROWS; row++) {
    if (stg_components_is_live(&c->inputs.rows, row)) {
      continue;
    }
    for (int64_t j = 0; j < c->inputs.x_stride; j++) {
      stg_store_f32(dtype, x, (size_t)(row * c->inputs.x_stride + j), NAN);
    }
    for (int64_t j = 0; j < c->dy_stride; j++) {
      stg_store_f32(dtype, dy, (size_t)(row * c->dy_stride + j), NAN);
    }
    for (int64_t j = 0; j < c->inputs.mask_stride; j++) {
      stg_store_f32(dtype, mask, (size_t)(row * c->inputs.mask_stride + j), INFINITY);
    }
    stg_store_f32(dtype, d, (size_t)row, NAN);
  }
  c->inputs.x = x;
  c->inputs.d = d;
  c->inputs.mask = mask;
  c->dy = dy;
}

static void expect_zeros(const struct components_case *c, size_t k, int64_t row) {
  const struct components_result result = components_result(c, k);
  for (int64_t j = 0; j < result.columns; j++) {
    const size_t at = (size_t)(row * result.stride + j);
    assert_true(stg_load_f32(c->geometry.dtype, result.data, at) == 0.0F);
  }
}

/* At the end of all rows, and at the end of each sequence. */
static void nan_in_padding_poisons_nothing(void **state) {
  static const int32_t tail[] = {27};
  static const int32_t ends[] = {8, 0, 3, 7, 1};
  static const struct stg_components_rows forms[] = {{ROWS, ROWS, tail}, {ROWS, SEQUENCE, ends}};
  static const int64_t live[] = {27, 19};
  for (size_t k = 0; k < 2 * KINDS; k++) {
    struct attn_bed bed;
    struct components_case clean;
    open_kind(&bed, k / 2, usual(), &clean);
    clean.inputs.rows = forms[k % 2];
    struct components_case poisoned = clean;
    components_renew(&poisoned);
    poison_padding(&poisoned);
    components_run_well(&clean);
    components_run_well(&poisoned);
    int64_t n_live = 0;
    for (int64_t row = 0; row < ROWS; row++) {
      n_live += stg_components_is_live(&clean.inputs.rows, row);
      if (!stg_components_is_live(&clean.inputs.rows, row)) {
        expect_zeros(&poisoned, 0, row);
        expect_zeros(&poisoned, 1, row);
        expect_zeros(&poisoned, DM, row);
        expect_zeros(&poisoned, 6, row);
      }
    }
    assert_int_equal(live[k % 2], n_live);
    for (size_t result = 0; result < COMPONENTS_RESULTS; result++) {
      components_expect_same(&clean, &poisoned, result, components_result(&clean, result).rows);
    }
    attn_close(&bed);
  }
  (void)state;
}

/* 27 rows by themselves, and before 13 that are padding: the sums as well, in spans of 32 rows. */
static void padding_at_the_end_is_as_if_it_were_not_there(void **state) {
  static const int32_t tail[] = {27};
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case padded;
    open_kind(&bed, kind, usual(), &padded);
    struct components_case few = padded;
    padded.inputs.rows = (struct stg_components_rows){ROWS, ROWS, tail};
    few.inputs.rows.rows = 27;
    components_renew(&few);
    components_run_well(&padded);
    components_run_well(&few);
    for (size_t result = 0; result < COMPONENTS_RESULTS; result++) {
      components_expect_same(&padded, &few, result, components_result(&few, result).rows);
    }
    attn_close(&bed);
  }
  (void)state;
}

static void a_mask_of_padding_alone_has_a_gradient_of_zeros(void **state) {
  static const int32_t ends[] = {8, 0, 3, 7, 1};
  struct components_shape shape = usual();
  struct attn_bed bed;
  struct components_case c;
  shape.share = SEQUENCE;
  open_kind(&bed, 0, shape, &c);
  c.inputs.rows = (struct stg_components_rows){ROWS, SEQUENCE, ends};
  components_run_well(&c);
  expect_zeros(&c, DM, 1);
  assert_true(stg_load_f32(STG_F32, c.out.dm, 0) != 0.0F);
  attn_close(&bed);
  (void)state;
}

static void a_row_has_the_same_bits_in_any_company(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case all;
    open_kind(&bed, kind, usual(), &all);
    components_run_well(&all);
    struct components_case one = all;
    one.inputs.rows.rows = 1;
    components_renew(&one);
    components_run_well(&one);
    components_expect_same(&all, &one, 0, 1);
    components_expect_same(&all, &one, 1, 1);
    components_expect_same(&all, &one, DM, 1);
    attn_close(&bed);
  }
  (void)state;
}

/* Each gradient by itself, and the others left out. */
static void a_gradient_that_is_not_wanted_changes_no_other(void **state) {
  struct attn_bed bed;
  struct components_case all;
  open_kind(&bed, 2, usual(), &all);
  components_run_well(&all);
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    struct components_case one = all;
    components_renew(&one);
    void **const places[] = {&one.out.dx,    &one.out.dv, &one.out.du,    &one.out.dm,
                             &one.out.dbias, &one.out.dd, &one.out.ddelta};
    for (size_t other = 0; other < COMPONENTS_RESULTS - 1; other++) {
      *places[other] = other == k - 1 ? *places[other] : NULL;
    }
    components_run_well(&one);
    components_expect_same(&all, &one, k, components_result(&all, k).rows);
  }
  attn_close(&bed);
  (void)state;
}

/* Spans of 32 rows and of 224, the last of which is not full. */
static void sums_over_many_rows_are_within_their_bounds(void **state) {
  static const int64_t shares[] = {1, 100, 0};
  for (size_t k = 0; k < 3 * KINDS; k++) {
    struct components_shape shape = components_shape(4, k == 0 ? 2000 : 6, 3, 1000);
    struct attn_bed bed;
    struct components_case c;
    shape.geometry.bias = shape.geometry.delta = true;
    shape.share = shares[k % 3];
    open_kind(&bed, k / 3, shape, &c);
    components_run_well(&c);
    attn_close(&bed);
  }
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mask_of_every_form_equals_the_expanded_one),
      cmocka_unit_test(a_mask_of_bytes_equals_one_of_zeros_and_ones),
      cmocka_unit_test(nan_in_padding_poisons_nothing),
      cmocka_unit_test(padding_at_the_end_is_as_if_it_were_not_there),
      cmocka_unit_test(a_mask_of_padding_alone_has_a_gradient_of_zeros),
      cmocka_unit_test(a_row_has_the_same_bits_in_any_company),
      cmocka_unit_test(a_gradient_that_is_not_wanted_changes_no_other),
      cmocka_unit_test(sums_over_many_rows_are_within_their_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
