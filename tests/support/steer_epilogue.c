/*
 * steer_epilogue.c: the RMSNorm behind the chain.
 *
 * The weight of a batch and the guards around every tensor are in steer_batch.c; that no byte of a
 * padding row is written is seen whenever a batch is fetched.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define HIDDEN 200
#define SLOTS 16
#define VECTORS 20
#define MAX_OPS 8
#define BATCH_ELEMS 30000
#define MAX_ROWS 100

static const int64_t sizes[] = {1, 7, 100, 256, 4096, 4097, 16384, 40000};
static const struct {
  stg_dtype dtype, bank;
} types[] = {{STG_BF16, STG_BF16}, {STG_F16, STG_F16}, {STG_F32, STG_F32}, {STG_BF16, STG_F32}};

#define N_SIZES (sizeof sizes / sizeof sizes[0])
#define N_TYPES (sizeof types / sizeof types[0])

static stg_steer_desc desc_of(int64_t hidden_size, stg_dtype dtype, stg_dtype bank) {
  return (stg_steer_desc){.hidden_size = hidden_size,
                          .dtype = dtype,
                          .bank_dtype = bank,
                          .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
                          .max_rows = MAX_ROWS,
                          .max_slots = SLOTS,
                          .max_chain = MAX_OPS,
                          .epilogue = STG_EPILOGUE_ADD_RMSNORM,
                          .epsilon = 1e-5F};
}

static struct steer_bed *bed_of(void **state, int64_t hidden_size, stg_dtype dtype) {
  const stg_steer_desc desc = desc_of(hidden_size, dtype, dtype);
  return steer_bed_create(*state, &desc);
}

/* Random chains of every length in all slots but the last, which stays empty. */
static void set_random_chains(struct steer_draws *draws, struct steer_bed *bed) {
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = VECTORS};
  stg_op_call calls[MAX_OPS];
  steer_random_vectors(draws, bed, VECTORS);
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) {
    const size_t n = 1 + slot % MAX_OPS;
    steer_random_chain(draws, bed, &menu, n, calls);
    steer_bed_set(bed, slot, calls, n);
  }
}

/* Slots and unsteered rows, now and then padding. */
static void random_map(struct steer_draws *draws, struct steer_batch *batch) {
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    const uint32_t kind = steer_draw_below(draws, 8);
    const int32_t slot = kind == 0   ? STG_ROW_PADDING
                         : kind <= 2 ? STG_ROW_UNSTEERED
                                     : (int32_t)steer_draw_below(draws, SLOTS);
    steer_batch_map(batch, r, r + 1, slot);
  }
}

static struct steer_layout layout_of(int64_t hidden_size, int64_t rows, unsigned variant) {
  const bool skewed = (variant & 2U) != 0;
  return (struct steer_layout){
      .rows = rows,
      .spare_rows = variant % 3,
      .row_stride = skewed ? hidden_size + 3 : 0,
      .shift = skewed ? 1 + variant % 4 : 0,
      .out_of_place = (variant & 1U) != 0,
  };
}

static void sweep_geometry(struct steer_env *env, const stg_steer_desc *desc, uint32_t seed) {
  struct steer_draws draws = {.seed = seed};
  struct steer_bed *bed = steer_bed_create(env, desc);
  int64_t rows = BATCH_ELEMS / desc->hidden_size;
  rows = rows < 4 ? 4 : rows > MAX_ROWS ? MAX_ROWS : rows;
  set_random_chains(&draws, bed);
  for (unsigned variant = 0; variant < 8; variant++) {
    const struct steer_layout layout = layout_of(desc->hidden_size, rows, variant % 4);
    struct steer_batch *batch = steer_batch_create(bed, &layout);
    batch->longest = variant < 4 ? 1 : 9; /* both tiles */
    steer_batch_fill(batch, seed + variant, variant % 3 == 0 ? 1.0F : 0.01F);
    random_map(&draws, batch);
    steer_batch_expect_ok(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void every_size_dtype_and_alignment_meets_the_bound(void **state) {
  struct steer_env *env = *state;
  for (size_t k = 0; k < N_SIZES * N_TYPES; k++) {
    const size_t size = k / N_TYPES, type = k % N_TYPES;
    /* quick: one geometry per size, its dtypes going round */
    if (!env->quick || type == size % N_TYPES) {
      stg_steer_desc desc = desc_of(sizes[size], types[type].dtype, types[type].bank);
      desc.epsilon = k % 2 == 0 ? 1e-6F : 1e-3F;
      sweep_geometry(env, &desc, (uint32_t)k + 101);
    }
  }
}

/* Chains that leave every row: nothing to add, bounds that no row reaches, an ablation by 1. */
static void set_idle_chains(struct steer_bed *bed) {
  const stg_vector v = steer_bed_direction(bed, 1, 1), w = steer_bed_direction(bed, 2, 3);
  const stg_op_call idle[] = {steer_add(v, 0), steer_cap_max(w, 1e6F), steer_ablate(v, 1)};
  const stg_op_call busy[] = {steer_add(w, 2), steer_ablate(v, 0)};
  steer_bed_set(bed, 0, idle, 3);
  steer_bed_set(bed, 1, busy, 2);
}

/* The same rows with no row steered, and with unsteered rows, an idle chain and an empty slot among
 * steered ones. */
static void expect_bits_of_the_norm_alone(struct steer_bed *bed, bool out_of_place,
                                          uint32_t longest) {
  static const int32_t slots[] = {STG_ROW_UNSTEERED, 1, 0, SLOTS - 1, 1};
  const struct steer_layout layout = {.rows = 40, .out_of_place = out_of_place};
  struct steer_batch *plain = steer_batch_create(bed, &layout);
  struct steer_batch *mixed = steer_batch_create(bed, &layout);
  plain->longest = mixed->longest = longest;
  steer_batch_fill(plain, 5, 1);
  steer_batch_fill(mixed, 5, 1);
  for (int64_t r = 0; r < 40; r++) {
    steer_batch_map(mixed, r, r + 1, slots[r % 5]);
  }
  steer_batch_expect_ok(plain);
  steer_batch_expect_ok(mixed);
  for (int64_t r = 0; r < 40; r++) {
    if (steer_batch_same(plain, r, mixed, r) != (slots[r % 5] != 1)) {
      fail_msg("hidden=%lld: row %lld (slot %d)", (long long)bed->hidden_size, (long long)r,
               slots[r % 5]);
    }
  }
  steer_batch_destroy(plain);
  steer_batch_destroy(mixed);
}

static void rows_that_nothing_acts_on_get_the_bits_of_the_norm_alone(void **state) {
  static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  for (unsigned k = 0; k < 12; k++) {
    struct steer_bed *bed = bed_of(state, k % 2 == 0 ? HIDDEN : 4097, dtypes[k % 3]);
    set_idle_chains(bed);
    expect_bits_of_the_norm_alone(bed, k % 4 >= 2, k < 6 ? 1 : 7);
    steer_bed_destroy(bed);
  }
}

/* s = (3, 0, 0, 4): the mean of the squares is 6.25, with an epsilon of 2.75 the root is 3. */
static void a_row_worked_out_by_hand(void **state) {
  static const float hidden[] = {1, 2, -1, 4}, residual[] = {2, -2, 1, 0};
  static const float weight[] = {1, 5, 5, 0.75F};
  stg_steer_desc desc = desc_of(4, STG_F32, STG_F32);
  desc.epsilon = 2.75F;
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 2});
  const float axis[] = {1, 0, 0, 0};
  const stg_op_call add = steer_add(steer_bed_vector(bed, axis), -3);
  steer_bed_set(bed, 0, &add, 1);
  for (int64_t j = 0; j < 4; j++) {
    steer_batch_put(batch, batch->weight, 0, j, weight[j]);
    for (int64_t r = 0; r < 2; r++) {
      steer_batch_put(batch, batch->hidden, r, j, hidden[j]);
      steer_batch_put(batch, batch->residual, r, j, residual[j]);
    }
  }
  steer_batch_map(batch, 1, 2, 0);
  steer_batch_expect_ok(batch);
  static const double sums[] = {3, 0, 0, 4};
  for (int64_t j = 0; j < 4; j++) {
    assert_true(steer_batch_get(batch, batch->residual_result, 0, j) == sums[j]);
    assert_true(steer_batch_get(batch, batch->residual_result, 1, j) == (j == 0 ? 0 : sums[j]));
  }
  assert_true(fabs(steer_batch_get(batch, batch->result, 0, 0) - 1) <= 1e-6);
  assert_true(fabs(steer_batch_get(batch, batch->result, 0, 3) - 1) <= 1e-6);
  /* without the 3 the mean is 4, the root of 6.75 is not whole */
  assert_true(fabs(steer_batch_get(batch, batch->result, 1, 3) - 3 / sqrt(6.75)) <= 1e-6);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* float16 cannot hold the sum, but the norm is taken before it is stored. */
static void a_sum_beyond_the_range_is_infinite_in_the_residual_alone(void **state) {
  struct steer_bed *bed = bed_of(state, HIDDEN, STG_F16);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 3});
  steer_batch_fill(batch, 6, 1);
  for (int64_t j = 0; j < HIDDEN; j += 2) {
    steer_batch_put(batch, batch->hidden, 1, j, 60000);
    steer_batch_put(batch, batch->residual, 1, j, 60000);
  }
  steer_batch_run(batch);
  const struct stg_oracle_report report = steer_batch_check(batch);
  assert_int_equal(HIDDEN / 2, report.overflows);
  for (int64_t j = 0; j < HIDDEN; j++) {
    assert_int_equal(j % 2 == 0, isinf(steer_batch_get(batch, batch->residual_result, 1, j)));
    assert_true(isfinite(steer_batch_get(batch, batch->result, 1, j)));
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Rows that hold NaN or Inf stay among themselves. */
static void rows_that_are_not_finite_harm_no_other_row(void **state) {
  struct steer_bed *bed = bed_of(state, HIDDEN, STG_BF16);
  struct steer_draws draws = {.seed = 7};
  set_random_chains(&draws, bed);
  for (uint32_t longest = 1; longest <= 9; longest += 8) {
    struct steer_batch *clean = steer_batch_create(bed, &(struct steer_layout){.rows = 24});
    struct steer_batch *mixed = steer_batch_create(bed, &(struct steer_layout){.rows = 24});
    clean->longest = mixed->longest = longest;
    steer_batch_fill(clean, 8, 1);
    steer_batch_fill(mixed, 8, 1);
    for (int64_t r = 0; r < 24; r++) {
      const int32_t slot = r % 4 == 0 ? STG_ROW_UNSTEERED : (int32_t)r % SLOTS;
      steer_batch_map(clean, r, r + 1, slot);
      steer_batch_map(mixed, r, r + 1, slot);
    }
    steer_batch_put(mixed, mixed->hidden, 3, 17, NAN);
    steer_batch_put(mixed, mixed->residual, 8, 0, INFINITY);
    steer_batch_put(mixed, mixed->hidden, 13, HIDDEN - 1, -INFINITY);
    steer_batch_expect_ok(clean);
    steer_batch_expect_ok(mixed);
    for (int64_t r = 0; r < 24; r++) {
      assert_int_equal(r != 3 && r != 8 && r != 13, steer_batch_same(clean, r, mixed, r));
    }
    steer_batch_destroy(clean);
    steer_batch_destroy(mixed);
  }
  steer_bed_destroy(bed);
}

/* Requests by their lengths; rows behind the last one are padding. */
static void the_one_shot_form_normalises_the_rows_of_requests(void **state) {
  static const int64_t lengths[] = {7, 5};
  struct steer_bed *bed = bed_of(state, HIDDEN, STG_BF16);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 16});
  const stg_op_call add = steer_add(steer_bed_direction(bed, 3, 1), 4);
  const stg_chain chains[] = {{.ops = &add, .n_ops = 1}, {0}};
  stg_error error = STG_ERROR_INIT;
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(batch),
                         .rows = 16,
                         .n_requests = 2,
                         .lengths = lengths,
                         .chains = chains};
  steer_batch_fill(batch, 9, 1);
  steer_batch_map(batch, 0, 7, 0);
  steer_batch_map(batch, 12, 16, STG_ROW_PADDING);
  steer_batch_send(batch);
  batch->chains[0] = steer_bed_chain(bed, &add, 1);
  expect_status(STG_OK, stg_steer_once(bed->steer, &once, batch->stream, &error), &error);
  steer_batch_fetch(batch);
  const struct stg_oracle_report report = steer_batch_check(batch);
  assert_int_equal(7, report.rows_steered);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void no_rows_are_fine(void **state) {
  struct steer_bed *bed = bed_of(state, HIDDEN, STG_BF16);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.spare_rows = 3});
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void expect_apply_refused(struct steer_batch *batch, const stg_apply *apply,
                                 const char *part) {
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_INVALID, part, stg_steer_apply(batch->frame, apply, batch->stream, &error),
               &error);
}

static void tensors_that_cannot_be_are_refused_and_nothing_is_written(void **state) {
  struct steer_bed *bed = bed_of(state, HIDDEN, STG_BF16);
  struct steer_batch *batch =
      steer_batch_create(bed, &(struct steer_layout){.rows = 10, .out_of_place = true});
  steer_batch_fill(batch, 10, 1);
  steer_batch_send(batch);
  steer_batch_step(batch);
  const stg_apply good = steer_batch_args(batch);
  char *out = good.out, *residual = good.residual, *hidden = (char *)(uintptr_t)good.hidden;
  stg_apply bad = good;
  bad.weight = NULL;
  expect_apply_refused(batch, &bad, "weight is NULL, but the table's epilogue is add_rmsnorm");
  bad = good;
  bad.residual = NULL;
  expect_apply_refused(batch, &bad, "residual is NULL, but the table's state is hidden+residual");
  bad.residual = out;
  expect_apply_refused(batch, &bad, "overlap; the residual is written on its own");
  bad.residual = out + 2;
  expect_apply_refused(batch, &bad, "overlap; the residual is written on its own");
  bad.residual = hidden;
  expect_apply_refused(batch, &bad, "overlap; the epilogue writes the residual");
  bad.residual = hidden + 10 * batch->row_bytes - 2;
  expect_apply_refused(batch, &bad, "overlap; the epilogue writes the residual");
  bad = good;
  bad.weight = out + 10 * batch->row_bytes - 2;
  expect_apply_refused(batch, &bad, "the weight is read while out is written");
  bad.weight = residual - batch->row_bytes + 2;
  expect_apply_refused(batch, &bad, "the weight is read while residual is written");
  bad.weight = residual + 3 * batch->row_bytes;
  expect_apply_refused(batch, &bad, "the weight is read while residual is written");
  bad = good;
  bad.out = NULL;
  bad.weight = hidden;
  expect_apply_refused(batch, &bad, "the weight is read while out is written");
  steer_batch_fetch(batch);
  assert_memory_equal(batch->out, batch->result, batch->image_bytes);
  assert_memory_equal(batch->residual, batch->residual_result, batch->image_bytes);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_weight_without_an_epilogue_is_refused(void **state) {
  stg_steer_desc desc = desc_of(HIDDEN, STG_BF16, STG_BF16);
  desc.epilogue = STG_EPILOGUE_NONE;
  desc.epsilon = 0;
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 2});
  steer_batch_fill(batch, 11, 1);
  steer_batch_send(batch);
  steer_batch_step(batch);
  stg_apply bad = steer_batch_args(batch);
  bad.weight = (const char *)bad.hidden + 4096;
  expect_apply_refused(batch, &bad, "weight is given, but the table's epilogue is none");
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void expect_desc_refused(struct steer_env *env, const stg_steer_desc *desc,
                                const char *part) {
  stg_error error = STG_ERROR_INIT;
  stg_steer_desc sized = *desc;
  stg_steer *steer = NULL;
  sized.struct_size = sizeof sized;
  expect_error(STG_E_INVALID, part, stg_steer_create(env->engine, &sized, &steer, &error), &error);
  assert_null(steer);
}

static void an_epilogue_wants_a_pair_and_a_sound_epsilon(void **state) {
  static const float wrong[] = {0, -1e-6F, INFINITY, -INFINITY, NAN, 1e-40F};
  stg_steer_desc desc = desc_of(HIDDEN, STG_BF16, STG_BF16);
  desc.state = STG_STATE_HIDDEN;
  expect_desc_refused(*state, &desc,
                      "epilogue: add_rmsnorm adds a residual, but the state is hidden");
  desc.state = STG_STATE_HIDDEN_PLUS_RESIDUAL;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    desc.epsilon = wrong[i];
    expect_desc_refused(*state, &desc, "is no normal float32 above 0");
  }
  desc.epilogue = (stg_epilogue)2;
  expect_desc_refused(*state, &desc, "epilogue: 2 is neither none (0) nor add_rmsnorm (1)");
  desc.epilogue = STG_EPILOGUE_NONE;
  desc.epsilon = 1e-6F;
  expect_desc_refused(*state, &desc, "epsilon: 1e-06 without an epilogue");
}

int steer_epilogue_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_dtype_and_alignment_meets_the_bound),
      cmocka_unit_test(rows_that_nothing_acts_on_get_the_bits_of_the_norm_alone),
      cmocka_unit_test(a_row_worked_out_by_hand),
      cmocka_unit_test(a_sum_beyond_the_range_is_infinite_in_the_residual_alone),
      cmocka_unit_test(rows_that_are_not_finite_harm_no_other_row),
      cmocka_unit_test(the_one_shot_form_normalises_the_rows_of_requests),
      cmocka_unit_test(no_rows_are_fine),
      cmocka_unit_test(an_epilogue_wants_a_pair_and_a_sound_epsilon),
      cmocka_unit_test(tensors_that_cannot_be_are_refused_and_nothing_is_written),
      cmocka_unit_test(a_weight_without_an_epilogue_is_refused),
  };
  return cmocka_run_group_tests_name("steer epilogue", tests, open, steer_env_close);
}
