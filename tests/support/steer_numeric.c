/*
 * steer_numeric.c: ranges, cancellation, signs of zero, and rows that are not finite.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define ROWS 12

static struct steer_bed *bed_of(void **state, int64_t hidden_size, stg_dtype dtype) {
  const stg_steer_desc desc = {
      .hidden_size = hidden_size, .dtype = dtype, .max_rows = 64, .max_chain = 8};
  return steer_bed_create(*state, &desc);
}

static struct steer_batch *batch_of(struct steer_bed *bed, float scale) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  steer_batch_fill(batch, 51, scale);
  steer_batch_map(batch, 0, ROWS, 0);
  return batch;
}

static void expect_finite(const struct steer_batch *batch) {
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t j = 0; j < batch->bed->hidden_size; j++) {
      assert_true(isfinite(steer_batch_get(batch, batch->result, r, j)));
    }
  }
}

static double norm_of(const struct steer_batch *batch, unsigned char *image, int64_t row) {
  double square = 0;
  for (int64_t j = 0; j < batch->bed->hidden_size; j++) {
    square += pow(steer_batch_get(batch, image, row, j), 2);
  }
  return sqrt(square);
}

/* 12 000 is the norm of a real row; its square does not fit float16. */
static void large_float16_rows_keep_their_norm_over_five_ops(void **state) {
  struct steer_bed *bed = bed_of(state, 4096, STG_F16);
  stg_op_call calls[5];
  for (size_t k = 0; k < 5; k++) {
    calls[k] = steer_keep_norm(steer_bed_direction(bed, 60 + k, 1), 500);
  }
  steer_bed_set(bed, 0, calls, 5);
  struct steer_batch *batch = batch_of(bed, 12000.0F / 64);
  steer_batch_expect_ok(batch);
  expect_finite(batch);
  for (int64_t r = 0; r < ROWS; r++) {
    const double kept = norm_of(batch, batch->result, r) / norm_of(batch, batch->hidden, r);
    assert_true(fabs(kept - 1) <= 1e-3);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_float16_vector_of_thousands_meets_the_bound(void **state) {
  struct steer_bed *bed = bed_of(state, 4096, STG_F16);
  float *values = stg_calloc(4096, sizeof *values);
  assert_non_null(values);
  for (size_t j = 0; j < 4096; j++) {
    values[j] = 1000;
  }
  const stg_vector v = steer_bed_vector(bed, values);
  stg_free(values);
  const stg_op_call calls[] = {steer_add(v, 0.5F), steer_keep_norm(v, 1), steer_add(v, -0.25F)};
  steer_bed_set(bed, 0, calls, 3);
  struct steer_batch *batch = batch_of(bed, 1);
  steer_batch_expect_ok(batch);
  expect_finite(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/*
 * Rows that are -scale*v but for a little: the norm of the sum is all cancellation. The bound grows
 * with what is left over, so what the op is for is checked too: the norm is kept. The Gram form
 * alone would be off by a hundredth where a hundredth is left, and by everything from a thousandth
 * on.
 */
static void a_norm_that_cancels_is_taken_from_the_row(void **state) {
  static const stg_dtype dtypes[] = {STG_F32, STG_BF16};
  for (size_t t = 0; t < 2; t++) {
    struct steer_bed *bed = bed_of(state, 1000, dtypes[t]);
    const stg_vector v = steer_bed_direction(bed, 70, 30);
    const double *wide = steer_bed_wide(bed, v);
    const stg_op_call calls[] = {steer_keep_norm(v, 4)};
    steer_bed_set(bed, 0, calls, 1);
    struct steer_batch *batch = batch_of(bed, 1);
    for (int64_t r = 0; r < ROWS; r++) {
      const double left = pow(10, -1 - (double)r / 2);
      for (int64_t j = 0; j < 1000; j++) {
        const double noise = steer_batch_get(batch, batch->hidden, r, j);
        steer_batch_put(batch, batch->hidden, r, j, (float)(-4 * wide[j] + left * noise));
      }
    }
    steer_batch_expect_ok(batch);
    for (int64_t r = 0; r <= 6; r++) { /* a tenth to a ten thousandth */
      const double kept = norm_of(batch, batch->result, r) / norm_of(batch, batch->hidden, r);
      assert_true(fabs(kept - 1) <= (dtypes[t] == STG_F32 ? 1e-3 : 1e-2));
    }
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
  }
}

/* A norm may be taken from the row in memory, which is also where the result goes: no part of it
 * may be stored before all of it was read. One row a block, as in decode, and many of them. */
static void a_norm_taken_from_the_row_reads_all_of_it_before_it_is_stored(void **state) {
  enum { HIDDEN = 4096, MANY = 256, TIMES = 20 };
  const stg_steer_desc desc = {.hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = MANY};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  const stg_vector v = steer_bed_direction(bed, 77, 30);
  const double *wide = steer_bed_wide(bed, v);
  const stg_op_call call = steer_keep_norm(v, 4);
  struct steer_batch *batches[2];
  steer_bed_set(bed, 0, &call, 1);
  for (int k = 0; k < 2; k++) {
    batches[k] =
        steer_batch_create(bed, &(struct steer_layout){.rows = MANY, .out_of_place = k == 0});
    batches[k]->longest = 1;
    batches[k]->requests = MANY;
    steer_batch_fill(batches[k], 78, 1);
    steer_batch_map(batches[k], 0, MANY, 0);
    for (int64_t r = 0; r < MANY; r++) {
      for (int64_t j = 0; j < HIDDEN; j++) {
        const double noise = steer_batch_get(batches[k], batches[k]->hidden, r, j);
        steer_batch_put(batches[k], batches[k]->hidden, r, j, (float)(-4 * wide[j] + noise / 100));
      }
    }
  }
  steer_batch_expect_ok(batches[0]);
  for (int time = 0; time < (bed->env->quick ? 1 : TIMES); time++) {
    steer_batch_run(batches[1]);
    for (int64_t r = 0; r < MANY; r++) {
      assert_true(steer_batch_same(batches[0], r, batches[1], r));
    }
  }
  steer_batch_destroy(batches[0]);
  steer_batch_destroy(batches[1]);
  steer_bed_destroy(bed);
}

/* The sum is zero to the last bit: the op leaves the row. */
static void a_norm_of_zero_leaves_the_row(void **state) {
  struct steer_bed *bed = bed_of(state, 1000, STG_F32);
  const stg_vector v = steer_bed_direction(bed, 71, 30);
  const double *wide = steer_bed_wide(bed, v);
  const stg_op_call call = steer_keep_norm(v, 2);
  steer_bed_set(bed, 0, &call, 1);
  struct steer_batch *batch = batch_of(bed, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t j = 0; j < 1000; j++) {
      steer_batch_put(batch, batch->hidden, r, j, (float)(-2 * wide[j]));
    }
  }
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < ROWS; r++) {
    assert_true(steer_batch_unchanged(batch, r));
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Coefficients that are 0 must be skipped: 0*v added to -0.0 is +0.0. */
static void negative_zeros_stay_where_nothing_is_added(void **state) {
  static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  for (size_t t = 0; t < 3; t++) {
    struct steer_bed *bed = bed_of(state, 100, dtypes[t]);
    const stg_vector v = steer_bed_direction(bed, 72, 1);
    const stg_op_call in_bounds[] = {steer_add(v, 0), steer_cap_max(v, 1000), steer_ablate(v, 1)};
    const stg_op_call doubled[] = {steer_add(v, 0), steer_scale(2), steer_cap_max(v, 1000)};
    steer_bed_set(bed, 0, in_bounds, 3);
    steer_bed_set(bed, 1, doubled, 3);
    struct steer_batch *batch = batch_of(bed, 1);
    steer_batch_map(batch, ROWS / 2, ROWS, 1);
    for (int64_t r = 0; r < ROWS; r++) {
      for (int64_t j = 0; j < 100; j += 3) {
        steer_batch_put(batch, batch->hidden, r, j, -0.0F);
      }
    }
    steer_batch_expect_ok(batch);
    for (int64_t r = 0; r < ROWS; r++) {
      assert_int_equal(r < ROWS / 2, steer_batch_unchanged(batch, r));
      for (int64_t j = 0; j < 100; j += 3) {
        const double x = steer_batch_get(batch, batch->result, r, j);
        assert_true(x == 0 && signbit(x));
      }
    }
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
  }
}

/* Put something that is not finite into some rows: the others keep the bits they had without. */
static void rows_that_are_not_finite_harm_no_other_row(void **state) {
  static const struct {
    int64_t row;
    float value;
  } spoilt[] = {{1, NAN}, {4, INFINITY}, {7, -INFINITY}, {11, NAN}};
  for (uint32_t longest = 1; longest <= ROWS; longest += ROWS - 1) {
    struct steer_bed *bed = bed_of(state, 300, STG_BF16);
    struct steer_draws draws = {.seed = 73};
    const struct steer_menu menu = {
        .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = 8};
    stg_op_call calls[4];
    steer_random_vectors(&draws, bed, 8);
    struct steer_batch *clean = batch_of(bed, 1);
    struct steer_batch *mixed = batch_of(bed, 1);
    clean->longest = mixed->longest = longest;
    for (uint32_t slot = 0; slot < ROWS; slot++) {
      steer_random_chain(&draws, bed, &menu, 1 + slot % 4, calls);
      steer_bed_set(bed, slot, calls, 1 + slot % 4);
      /* rows 10 and 11 are not steered: NaN must come back as it went in */
      clean->row_map[slot] = mixed->row_map[slot] = slot < 10 ? (int32_t)slot : -1;
    }
    for (size_t k = 0; k < sizeof spoilt / sizeof spoilt[0]; k++) {
      steer_batch_put(mixed, mixed->hidden, spoilt[k].row, 17, spoilt[k].value);
    }
    steer_batch_expect_ok(clean);
    steer_batch_expect_ok(mixed);
    for (int64_t r = 0; r < ROWS; r++) {
      if (r % 3 != 1 && r != 11) {
        assert_memory_equal(steer_batch_row(clean, clean->result, r),
                            steer_batch_row(mixed, mixed->result, r), clean->row_bytes);
      }
    }
    assert_true(steer_batch_unchanged(mixed, 11));
    steer_batch_destroy(clean);
    steer_batch_destroy(mixed);
    steer_bed_destroy(bed);
  }
}

/* Beyond the storage's range +-Inf is right, and the report says so. */
static void results_beyond_the_range_become_infinite(void **state) {
  struct steer_bed *bed = bed_of(state, 64, STG_F16);
  float values[64] = {1};
  const stg_op_call add = steer_add(steer_bed_vector(bed, values), 1e6F);
  steer_bed_set(bed, 0, &add, 1);
  struct steer_batch *batch = batch_of(bed, 1);
  steer_batch_run(batch);
  const struct stg_oracle_report report = steer_batch_check(batch);
  assert_int_equal(ROWS, report.overflows);
  for (int64_t r = 0; r < ROWS; r++) {
    assert_true(isinf(steer_batch_get(batch, batch->result, r, 0)));
    assert_true(isfinite(steer_batch_get(batch, batch->result, r, 1)));
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

int steer_numeric_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_float16_rows_keep_their_norm_over_five_ops),
      cmocka_unit_test(a_float16_vector_of_thousands_meets_the_bound),
      cmocka_unit_test(a_norm_that_cancels_is_taken_from_the_row),
      cmocka_unit_test(a_norm_taken_from_the_row_reads_all_of_it_before_it_is_stored),
      cmocka_unit_test(a_norm_of_zero_leaves_the_row),
      cmocka_unit_test(negative_zeros_stay_where_nothing_is_added),
      cmocka_unit_test(rows_that_are_not_finite_harm_no_other_row),
      cmocka_unit_test(results_beyond_the_range_become_infinite),
  };
  return cmocka_run_group_tests_name("steer numeric", tests, open, steer_env_close);
}
