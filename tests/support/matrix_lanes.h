/*
 * matrix_lanes.h: which lane of a warp has what of matrices of 16-bit elements in shared memory, as
 * ldmatrix and mma have it and prelude/tile16.cuh has the addresses; for tests that need no GPU.
 */
#ifndef STG_TESTS_SUPPORT_MATRIX_LANES_H
#define STG_TESTS_SUPPORT_MATRIX_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define LANES 32
#define MAX_PITCH 67 /* of a row, in pieces of 8 elements */
#define BED_ELEMS (32 * MAX_PITCH * 8)

/* A bed of numbers that all differ. */
static inline void matrix_bed_fill(float bed[BED_ELEMS]) {
  for (uint32_t i = 0; i < BED_ELEMS; i++) {
    bed[i] = (float)i;
  }
}

static inline uint32_t lane_by_k(uint32_t lane, uint32_t pitch) {
  return ((lane & 15) * pitch + (lane >> 4)) * 16;
}
static inline uint32_t lane_by_n(uint32_t lane, uint32_t pitch) {
  return (((lane & 7) + (lane >> 4) * 8) * pitch + (lane >> 3 & 1)) * 16;
}

/* ldmatrix.x4, or of fewer matrices: lane l says where row l % 8 of matrix l / 8 is; lane 4g + t
 * has of each the elements (g, 2t) and (g, 2t + 1), or turned (2t, g) and (2t + 1, g). */
static inline void load_matrices(const float *bed, const uint32_t at[LANES], uint32_t matrices,
                                 bool turned, float ret[LANES][4][2]) {
  for (uint32_t lane = 0; lane < LANES; lane++) {
    for (uint32_t m = 0; m < matrices; m++) {
      for (uint32_t j = 0; j < 2; j++) {
        const uint32_t row = turned ? lane % 4 * 2 + j : lane / 4;
        const uint32_t column = turned ? lane / 4 : lane % 4 * 2 + j;
        ret[lane][m][j] = bed[at[m * 8 + row] / 2 + column];
      }
    }
  }
}

/* Element (row, column) of a first factor of 16 x 16, from the words of lanes. */
static inline float of_a(float (*words)[4][2], uint32_t row, uint32_t column) {
  return words[row % 8 * 4 + column % 8 / 2][row / 8 + 2 * (column / 8)][column % 2];
}
/* Element (k, n) of a second one of 16 x 8, from the words `first` and the one behind. */
static inline float of_strip(float (*words)[4][2], uint32_t first, uint32_t k, uint32_t n) {
  return words[n * 4 + k % 8 / 2][first + k / 8][k % 2];
}
/* Element (k, n) of one of 16 x 16, whose columns 0-7 are the words 0 and 1. */
static inline float of_b(float (*words)[4][2], uint32_t k, uint32_t n) {
  return of_strip(words, 2 * (n / 8), k, n % 8);
}

#endif
