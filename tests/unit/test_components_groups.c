/*
 * test_components_groups.c: products of four warps at once, in C: where prelude/gmma16.cuh says
 * that elements of a second factor are, and what lanes have of first ones that lie as it does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/matrix_lanes.h"

#define PIECES 6
#define MOST_ROWS 48

/* stg_place of matrices by columns of pieces. */
static uint32_t place(uint32_t rows, uint32_t row, uint32_t piece) {
  return (piece * (rows + 1) + row) * 16;
}

/* Elements of `unit` bytes, each its row and column, and where there is none -1. */
static float bed[PIECES * (MOST_ROWS + 1) * 8];

static float number(uint32_t row, uint32_t column) {
  return (float)(row * 1000 + column);
}

static void fill(uint32_t rows, uint32_t unit) {
  const uint32_t of_piece = 16 / unit;
  for (size_t i = 0; i < sizeof bed / sizeof bed[0]; i++) {
    bed[i] = -1;
  }
  for (uint32_t row = 0; row < rows; row++) {
    for (uint32_t column = 0; column < PIECES * of_piece; column++) {
      bed[place(rows, row, column / of_piece) / unit + column % of_piece] = number(row, column);
    }
  }
}

/* What hardware takes for (k, n) of a second factor: cores of 8 rows of 16 bytes, `by_k` bytes from
 * 8 of k, or of float32 from 4, to the next, and `by_n` from 8 columns. */
static float of_second(uint32_t at, uint32_t by_k, uint32_t by_n, uint32_t unit, bool rows_of_k,
                       uint32_t k, uint32_t n) {
  const uint32_t of_piece = 16 / unit;
  const uint32_t core =
      rows_of_k ? at + k / 8 * by_k + n / 8 * by_n : at + k / of_piece * by_k + n / 8 * by_n;
  const uint32_t in_core = rows_of_k ? k % 8 * 16 + n % 8 * unit : n % 8 * 16 + k % of_piece * unit;
  return bed[(core + in_core) / unit];
}

static void second_factors_are_where_products_look(void **state) {
  (void)state;
  for (uint32_t rows = 16; rows <= MOST_ROWS; rows += 16) {
    const uint32_t apart = place(rows, 0, 1);
    fill(rows, 2);
    for (uint32_t step = 0; step < PIECES / 2; step++) { /* 16 of k are two pieces */
      for (uint32_t i = 0; i < 16 * rows; i++) {
        const uint32_t k = i % 16;
        const uint32_t n = i / 16;
        assert_true(of_second(step * 2 * apart, apart, 128, 2, false, k, n) ==
                    number(n, step * 16 + k));
      }
    }
    for (uint32_t step = 0; step < rows / 16; step++) { /* or 16 rows */
      for (uint32_t i = 0; i < 16 * PIECES * 8; i++) {
        const uint32_t k = i % 16;
        const uint32_t n = i / 16;
        assert_true(of_second(step * 256, 128, apart, 2, true, k, n) == number(step * 16 + k, n));
      }
    }
    fill(rows, 4);
    for (uint32_t i = 0; i < 8 * rows; i++) {
      assert_true(of_second(2 * apart, apart, 128, 4, false, i % 8, i / 8) ==
                  number(i / 8, 8 + i % 8));
    }
  }
}

/* Of rows, and turned of columns, as a warp's first factor of 16 by 16. */
static void first_factors_are_what_lanes_load(void **state) {
  (void)state;
  const uint32_t rows = 32;
  uint32_t straight[LANES];
  uint32_t turned[LANES];
  float a[LANES][4][2];
  fill(rows, 2);
  for (uint32_t lane = 0; lane < LANES; lane++) {
    straight[lane] = place(rows, 16 + lane % 16, 2 + lane / 16);
    turned[lane] = place(rows, 16 + lane % 8 + lane / 16 * 8, 2 + lane / 8 % 2);
  }
  load_matrices(bed, straight, 4, false, a);
  for (uint32_t i = 0; i < 256; i++) {
    assert_true(of_a(a, i / 16, i % 16) == number(16 + i / 16, 16 + i % 16));
  }
  load_matrices(bed, turned, 4, true, a);
  for (uint32_t i = 0; i < 256; i++) {
    assert_true(of_a(a, i / 16, i % 16) == number(16 + i % 16, 16 + i / 16));
  }
}

/* Groups of 4 banks, of which 8 lanes read or write one each. */
static void expect_apart(const uint32_t at[8]) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < 8; i++) {
    seen |= 1U << at[i] / 16 % 8;
  }
  assert_int_equal(seen, 0xff);
}

static void neither_a_row_nor_a_column_of_pieces_has_two_in_a_bank(void **state) {
  (void)state;
  for (uint32_t rows = 16; rows <= 512; rows += 16) {
    uint32_t row[8];
    uint32_t column[8];
    for (uint32_t i = 0; i < 8; i++) {
      row[i] = place(rows, 5, i);
      column[i] = place(rows, 8 + i, 3);
    }
    expect_apart(row);
    expect_apart(column);
  }
}

/* Sums of neighbours 2t and 2t + 1 are of columns t and t + 4, which a first factor in TF32 wants.
 */
static void slots_bring_columns_together_that_a_lane_multiplies(void **state) {
  (void)state;
  for (uint32_t t = 0; t < 4; t++) {
    for (uint32_t j = 0; j < 2; j++) {
      const uint32_t slot = 24 + 2 * t + j;
      assert_int_equal(slot / 8 * 8 + slot % 8 / 2 + slot % 2 * 4, 24 + t + 4 * j);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(second_factors_are_where_products_look),
      cmocka_unit_test(first_factors_are_what_lanes_load),
      cmocka_unit_test(neither_a_row_nor_a_column_of_pieces_has_two_in_a_bank),
      cmocka_unit_test(slots_bring_columns_together_that_a_lane_multiplies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
