/*
 * steer_invariance.c: a row's result depends on its own bits and its chain alone.
 *
 * A table has some atoms, a row and a slot each, whose results are taken once: each alone in a
 * batch. Then any batch put together from them, whatever its size, order, padding, tile or
 * alignment, must give each row the bits of its atom. Atoms that hold NaN or Inf are among them.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define ATOMS 24
#define SLOTS 16
#define MAX_ROWS 2048

struct atoms {
  struct steer_bed *bed;
  struct steer_draws draws;
  int32_t slot[ATOMS];
  size_t row_bytes;
  unsigned char *hidden[ATOMS], *residual[ATOMS], *result[ATOMS];
  unsigned char *residual_result[ATOMS]; /* with an epilogue */
};

static unsigned char *copy_row(const struct steer_batch *batch, unsigned char *image, int64_t row) {
  unsigned char *copy = stg_malloc(batch->row_bytes);
  assert_non_null(copy);
  memcpy(copy, steer_batch_row(batch, image, row), batch->row_bytes);
  return copy;
}

/* Rows of any batch, of which two hold what is not finite. */
static void make_rows(struct atoms *atoms) {
  struct steer_batch *batch = steer_batch_create(atoms->bed, &(struct steer_layout){.rows = ATOMS});
  steer_batch_fill(batch, 31, 1);
  steer_batch_put(batch, batch->hidden, 4, atoms->bed->hidden_size / 2, nanf(""));
  steer_batch_put(batch, batch->hidden, 9, 0, -INFINITY);
  atoms->row_bytes = batch->row_bytes;
  for (int64_t k = 0; k < ATOMS; k++) {
    atoms->hidden[k] = copy_row(batch, batch->hidden, k);
    atoms->residual[k] = atoms->bed->pair ? copy_row(batch, batch->residual, k) : NULL;
  }
  steer_batch_destroy(batch);
}

static void put_atom(const struct atoms *atoms, struct steer_batch *batch, int64_t row, int atom) {
  memcpy(steer_batch_row(batch, batch->hidden, row), atoms->hidden[atom], atoms->row_bytes);
  if (batch->residual != NULL) {
    memcpy(steer_batch_row(batch, batch->residual, row), atoms->residual[atom], atoms->row_bytes);
  }
  batch->row_map[row] = atoms->slot[atom];
}

/* Each atom alone, in the decode tile. */
static void take_results(struct atoms *atoms) {
  struct steer_batch *batch = steer_batch_create(atoms->bed, &(struct steer_layout){.rows = 1});
  batch->longest = 1;
  for (int k = 0; k < ATOMS; k++) {
    put_atom(atoms, batch, 0, k);
    steer_batch_run(batch);
    atoms->result[k] = copy_row(batch, batch->result, 0);
    atoms->residual_result[k] =
        atoms->bed->norm ? copy_row(batch, batch->residual_result, 0) : NULL;
  }
  steer_batch_destroy(batch);
}

static void atoms_open(struct steer_env *env, stg_steer_desc desc, struct atoms *ret_atoms) {
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = 20};
  stg_op_call calls[8];
  desc.max_rows = MAX_ROWS;
  desc.max_slots = SLOTS;
  desc.max_chain = 8;
  *ret_atoms = (struct atoms){.bed = steer_bed_create(env, &desc), .draws = {.seed = 41}};
  steer_random_vectors(&ret_atoms->draws, ret_atoms->bed, 20);
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) { /* the last one stays empty */
    const size_t n = 1 + slot % 8;
    steer_random_chain(&ret_atoms->draws, ret_atoms->bed, &menu, n, calls);
    steer_bed_set(ret_atoms->bed, slot, calls, n);
  }
  for (int k = 0; k < ATOMS; k++) {
    ret_atoms->slot[k] = k % 8 == 7 ? STG_ROW_UNSTEERED : k % SLOTS;
  }
  make_rows(ret_atoms);
  take_results(ret_atoms);
}

static void atoms_close(struct atoms *atoms) {
  for (int k = 0; k < ATOMS; k++) {
    stg_free(atoms->hidden[k]);
    stg_free(atoms->residual[k]);
    stg_free(atoms->result[k]);
    stg_free(atoms->residual_result[k]);
  }
  steer_bed_destroy(atoms->bed);
}

static bool has_bits(const struct atoms *atoms, const struct steer_batch *batch, int64_t row,
                     int atom) {
  return memcmp(steer_batch_row(batch, batch->result, row), atoms->result[atom],
                atoms->row_bytes) == 0 &&
         (!atoms->bed->norm || memcmp(steer_batch_row(batch, batch->residual_result, row),
                                      atoms->residual_result[atom], atoms->row_bytes) == 0);
}

/*
 * A batch of random atoms, `live` of its rows at random places and the others padding, in the tile
 * that `longest` picks. Padding is NaN, and comes back as it was (steer_batch_fetch).
 */
static void expect_bits(struct atoms *atoms, const struct steer_layout *layout, int64_t live,
                        uint32_t longest) {
  struct steer_batch *batch = steer_batch_create(atoms->bed, layout);
  int *placed = stg_calloc((size_t)layout->rows + 1, sizeof *placed);
  assert_non_null(placed);
  batch->longest = longest;
  steer_batch_map(batch, 0, layout->rows, STG_ROW_PADDING);
  for (int64_t r = 0, left = live; r < layout->rows; r++) {
    const uint32_t rest = (uint32_t)(layout->rows - r);
    if (steer_draw_below(&atoms->draws, rest) < (uint32_t)left) {
      placed[r] = (int)steer_draw_below(&atoms->draws, ATOMS);
      put_atom(atoms, batch, r, placed[r]);
      left--;
    }
  }
  steer_batch_run(batch);
  for (int64_t r = 0; r < layout->rows; r++) {
    if (batch->row_map[r] != STG_ROW_PADDING && !has_bits(atoms, batch, r, placed[r])) {
      fail_msg("hidden=%lld %s: row %lld of %lld (slot %d, longest %u, shift %zu, stride %lld) "
               "differs from the same row alone",
               (long long)atoms->bed->hidden_size, stg_dtype_name(atoms->bed->dtype), (long long)r,
               (long long)layout->rows, batch->row_map[r], longest, layout->shift,
               (long long)layout->row_stride);
    }
  }
  stg_free(placed);
  steer_batch_destroy(batch);
}

static void expect_bits_in_buckets(struct atoms *atoms) {
  static const int64_t buckets[] = {1,  2,  4,   8,   16,  24,  32,  40,  48,  56,   64,
                                    80, 96, 112, 128, 160, 192, 224, 256, 512, 1024, 2048};
  for (size_t b = 0; b < sizeof buckets / sizeof buckets[0]; b++) {
    const int64_t size = buckets[b];
    for (uint32_t longest = 1; longest <= 2; longest++) {
      const struct steer_layout full = {.rows = size};
      const struct steer_layout but_one = {.rows = size - 1, .spare_rows = 1};
      expect_bits(atoms, &full, 0, longest);
      expect_bits(atoms, &full, 1, longest);
      expect_bits(atoms, &full, size - 1, longest);
      expect_bits(atoms, &full, size, longest);
      expect_bits(atoms, &but_one, size - 1, longest);
    }
  }
}

/* In float32 as well, where no rounding at the store hides a last bit. */
static void a_row_has_its_bits_in_every_bucket_and_tile(void **state) {
  static const stg_dtype dtypes[] = {STG_BF16, STG_F32};
  for (size_t t = 0; t < 2; t++) {
    struct atoms atoms;
    atoms_open(*state, (stg_steer_desc){.hidden_size = 136, .dtype = dtypes[t]}, &atoms);
    expect_bits_in_buckets(&atoms);
    atoms_close(&atoms);
  }
}

/* Alignment, place in memory, in place or not: none of it is in the bits. */
static void expect_bits_anywhere(struct atoms *atoms, int64_t rows) {
  const int64_t hidden_size = atoms->bed->hidden_size;
  for (uint32_t longest = 1; longest <= 2; longest++) {
    for (unsigned variant = 0; variant < 8; variant++) {
      const struct steer_layout layout = {
          .rows = rows,
          .row_stride = (variant & 1U) != 0 ? hidden_size + 5 : 0,
          .shift = (variant & 2U) != 0 ? 3 : 0,
          .out_of_place = (variant & 4U) != 0,
      };
      expect_bits(atoms, &layout, rows, longest);
      expect_bits(atoms, &layout, rows / 2, longest);
    }
  }
}

static void alignment_and_place_do_not_change_bits(void **state) {
  static const struct {
    int64_t hidden_size;
    stg_dtype dtype, bank;
    stg_state state;
  } tables[] = {
      {4096, STG_BF16, STG_BF16, STG_STATE_HIDDEN},
      {4097, STG_F16, STG_F32, STG_STATE_HIDDEN_PLUS_RESIDUAL},
      {7, STG_F32, STG_F32, STG_STATE_HIDDEN},
      {1, STG_F16, STG_F16, STG_STATE_HIDDEN},
      {100, STG_BF16, STG_F32, STG_STATE_HIDDEN_PLUS_RESIDUAL},
      {40000, STG_BF16, STG_BF16, STG_STATE_HIDDEN},
  };
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    struct atoms atoms;
    atoms_open(*state,
               (stg_steer_desc){.hidden_size = tables[t].hidden_size,
                                .dtype = tables[t].dtype,
                                .bank_dtype = tables[t].bank,
                                .state = tables[t].state},
               &atoms);
    expect_bits_anywhere(&atoms, tables[t].hidden_size > 10000 ? 10 : 37);
    atoms_close(&atoms);
  }
}

static void a_row_among_2048_has_the_bits_of_the_row_alone(void **state) {
  struct steer_env *env = *state;
  struct atoms atoms;
  const struct steer_layout layout = {.rows = 2048};
  atoms_open(env, (stg_steer_desc){.hidden_size = env->quick ? 512 : 4096, .dtype = STG_F32},
             &atoms);
  expect_bits(&atoms, &layout, 2048, 64);
  expect_bits(&atoms, &layout, 2048, 1);
  expect_bits(&atoms, &layout, 2047, 64);
  atoms_close(&atoms);
}

static stg_steer_desc with_norm(int64_t hidden_size, stg_dtype dtype, stg_dtype bank) {
  return (stg_steer_desc){.hidden_size = hidden_size,
                          .dtype = dtype,
                          .bank_dtype = bank,
                          .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
                          .epilogue = STG_EPILOGUE_ADD_RMSNORM,
                          .epsilon = 1e-6F};
}

static void a_normalised_row_has_its_bits_in_every_bucket_and_tile(void **state) {
  static const stg_dtype dtypes[] = {STG_BF16, STG_F32};
  for (size_t t = 0; t < 2; t++) {
    struct atoms atoms;
    atoms_open(*state, with_norm(136, dtypes[t], dtypes[t]), &atoms);
    expect_bits_in_buckets(&atoms);
    atoms_close(&atoms);
  }
}

static void alignment_and_place_do_not_change_a_normalised_row(void **state) {
  static const struct {
    int64_t hidden_size;
    stg_dtype dtype, bank;
  } tables[] = {
      {4096, STG_BF16, STG_BF16}, {4097, STG_F16, STG_F32}, {7, STG_F32, STG_F32},
      {1, STG_F16, STG_F16},      {100, STG_BF16, STG_F32}, {40000, STG_BF16, STG_BF16},
  };
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    struct atoms atoms;
    atoms_open(*state, with_norm(tables[t].hidden_size, tables[t].dtype, tables[t].bank), &atoms);
    expect_bits_anywhere(&atoms, tables[t].hidden_size > 10000 ? 10 : 37);
    atoms_close(&atoms);
  }
}

int steer_epilogue_invariance_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_normalised_row_has_its_bits_in_every_bucket_and_tile),
      cmocka_unit_test(alignment_and_place_do_not_change_a_normalised_row),
  };
  return cmocka_run_group_tests_name("steer epilogue invariance", tests, open, steer_env_close);
}

int steer_invariance_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_has_its_bits_in_every_bucket_and_tile),
      cmocka_unit_test(alignment_and_place_do_not_change_bits),
      cmocka_unit_test(a_row_among_2048_has_the_bits_of_the_row_alone),
  };
  return cmocka_run_group_tests_name("steer invariance", tests, open, steer_env_close);
}
