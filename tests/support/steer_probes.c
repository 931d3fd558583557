/*
 * steer_probes.c: what ops read of a row and give out: the op `probe`, and user ops of its kind.
 *
 * Every cell is held against the oracle; those that no op reaches must have the bytes that they
 * had, which the batch puts there.
 */
#include <math.h>
#include <string.h>

#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define HIDDEN 256
#define SLOTS 8
#define PROBES 4

static stg_steer_desc desc_of(void) {
  return (stg_steer_desc){.hidden_size = HIDDEN,
                          .dtype = STG_BF16,
                          .max_slots = SLOTS,
                          .max_chain = 16,
                          .probes = PROBES};
}

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = desc_of();
  return steer_bed_create(*state, &desc);
}

static void expect_near(double expected, float cell) {
  if (!(fabs(expected - (double)cell) <= 1e-3 * (1 + fabs(expected)))) {
    fail_msg("%g instead of %g", (double)cell, expected);
  }
}

/* Before, between and after ops, worked out by hand: v and w are unit vectors at an angle. */
static void a_probe_reads_the_row_where_it_stands_in_its_chain(void **state) {
  struct steer_bed *bed = bed_of(state);
  float values[HIDDEN] = {1};
  const stg_vector v = steer_bed_vector(bed, values);
  values[0] = 0.5F;
  values[1] = 0.75F;
  const stg_vector w = steer_bed_vector(bed, values);
  const stg_op_call calls[] = {steer_probe(v, 0),  steer_add(w, 8),   steer_probe(v, 1),
                               steer_ablate(v, 0), steer_probe(v, 2), steer_probe(w, 3)};
  steer_bed_set(bed, 0, calls, 6);
  struct steer_batch *batch = steer_batch_of(bed, 5, 0);
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 5; r++) {
    const double h0 = steer_batch_get(batch, batch->hidden, r, 0);
    const double h1 = steer_batch_get(batch, batch->hidden, r, 1);
    expect_near(h0, steer_batch_cell(batch, r, 0));
    expect_near(h0 + 4, steer_batch_cell(batch, r, 1));
    expect_near(0, steer_batch_cell(batch, r, 2));
    expect_near((h1 + 6) * 0.75, steer_batch_cell(batch, r, 3));
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_chain_of_probes_leaves_the_row(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call calls[] = {steer_probe(steer_bed_direction(bed, 11, 1), 1),
                               steer_probe(steer_bed_direction(bed, 12, 1), 3)};
  steer_bed_set(bed, 0, calls, 2);
  for (int out_of_place = 0; out_of_place < 2; out_of_place++) {
    struct steer_batch *batch = steer_batch_create(
        bed, &(struct steer_layout){.rows = 9, .out_of_place = out_of_place != 0});
    steer_batch_fill(batch, 22, 1);
    steer_batch_map(batch, 0, 9, 0);
    steer_batch_put(batch, batch->hidden, 3, 7, -0.0F);
    steer_batch_put(batch, batch->hidden, 4, 7, NAN);
    steer_batch_put(batch, batch->hidden, 5, 7, INFINITY);
    steer_batch_expect_ok(batch);
    for (int64_t r = 0; r < 9; r++) {
      assert_true(steer_batch_unchanged(batch, r));
      assert_int_equal(r == 4 || r == 5, !isfinite(steer_batch_cell(batch, r, 1)));
      assert_false(steer_batch_cell_untouched(batch, r, 3));
    }
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void cells_that_no_probe_reaches_are_not_written(void **state) {
  stg_steer_desc desc = desc_of();
  desc.windows = true;
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  const stg_op_call probe = steer_probe(steer_bed_direction(bed, 11, 1), 2);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 12, 1), 3);
  steer_bed_set_window(bed, 0, &probe, 1, &(stg_window){.phase = STG_PHASE_PROMPT});
  steer_bed_set(bed, 1, &add, 1);
  struct steer_batch *batch = steer_batch_of(bed, 20, STG_ROW_UNSTEERED);
  steer_batch_map(batch, 4, 12, 0);
  steer_batch_map(batch, 12, 15, 1);
  steer_batch_map(batch, 15, 17, STG_ROW_PADDING);
  steer_batch_map(batch, 17, 18, 2); /* an empty slot */
  steer_batch_place(batch, 4, 12, 10, 15);
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 20; r++) {
    for (uint32_t k = 0; k < PROBES; k++) {
      assert_int_equal(k == 2 && r >= 4 && r < 9, !steer_batch_cell_untouched(batch, r, k));
    }
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void the_last_probe_of_a_column_has_it(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_vector v = steer_bed_direction(bed, 11, 1);
  const stg_op_call calls[] = {steer_probe(v, 1), steer_add(v, 16), steer_probe(v, 1)};
  steer_bed_set(bed, 0, calls, 3);
  steer_bed_set(bed, 1, calls, 1);
  struct steer_batch *batch = steer_batch_of(bed, 2, 0);
  memcpy(steer_batch_row(batch, batch->hidden, 1), steer_batch_row(batch, batch->hidden, 0),
         batch->row_bytes);
  batch->row_map[1] = 1;
  steer_batch_expect_ok(batch);
  const double difference =
      (double)steer_batch_cell(batch, 0, 1) - (double)steer_batch_cell(batch, 1, 1);
  assert_true(fabs(difference - 16) < 0.5); /* v is a unit vector but for its rounding */
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Bits of a cell follow from the row and its chain, as those of the row do. */
static void the_tile_and_the_batch_do_not_change_a_cell(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_vector v = steer_bed_direction(bed, 11, 1), w = steer_bed_direction(bed, 12, 2);
  const stg_op_call calls[] = {steer_keep_norm(w, 3), steer_probe(v, 0), steer_add(v, 2),
                               steer_probe(w, 3)};
  steer_bed_set(bed, 0, calls, 4);
  steer_bed_set(bed, 1, calls, 2);
  struct steer_batch *alone = steer_batch_of(bed, 1, 0), *batch = steer_batch_of(bed, 70, 1);
  steer_batch_expect_ok(alone);
  memcpy(steer_batch_row(batch, batch->hidden, 66), steer_batch_row(alone, alone->hidden, 0),
         alone->row_bytes);
  batch->row_map[66] = 0;
  for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
    steer_batch_expect_ok(batch);
    for (uint32_t k = 0; k < PROBES; k += 3) {
      const float cells[] = {steer_batch_cell(alone, 0, k), steer_batch_cell(batch, 66, k)};
      assert_memory_equal(&cells[0], &cells[1], sizeof cells[0]);
    }
  }
  steer_batch_destroy(alone);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Random chains of all other ops, with probes among them. */
static void set_random_chains(struct steer_draws *draws, struct steer_bed *bed) {
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = 12};
  stg_op_call calls[12];
  steer_random_vectors(draws, bed, 12);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    size_t n = 0;
    for (uint32_t k = 0; k <= slot % 4; k++) {
      steer_random_chain(draws, bed, &menu, 1, &calls[n++]);
      calls[n++] = steer_probe(bed->vectors[steer_draw_below(draws, 12)].id,
                               steer_draw_below(draws, PROBES));
    }
    steer_bed_set(bed, slot, calls, n);
  }
}

static void cells_of_every_kind_of_table_meet_their_bound(void **state) {
  static const int64_t sizes[] = {1, 100, 512, 4097};
  struct steer_env *env = *state;
  for (uint32_t k = 0; k < 12; k++) {
    struct steer_draws draws = {.seed = 900 + k};
    stg_steer_desc desc = desc_of();
    desc.hidden_size = sizes[k % 4];
    desc.dtype = k % 3 == 0 ? STG_BF16 : k % 3 == 1 ? STG_F16 : STG_F32;
    desc.bank_dtype = k % 2 == 0 ? STG_F32 : desc.dtype;
    desc.state = k >= 4 ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN;
    desc.epilogue = k >= 8 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE;
    desc.epsilon = k >= 8 ? 1e-5F : 0;
    struct steer_bed *bed = steer_bed_create(env, &desc);
    set_random_chains(&draws, bed);
    struct steer_batch *batch = steer_batch_of(bed, 48, 0);
    for (int64_t r = 0; r < 48; r++) {
      batch->row_map[r] = (int32_t)steer_draw_below(&draws, SLOTS + 2) - 2;
    }
    for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
      steer_batch_expect_ok(batch);
    }
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
  }
}

/* An op of the test's own, and the built-in one, in one table. */
static void users_write_ops_that_give_something_out(void **state) {
  static const char cosine[] =
      "{\"op\": \"cosine_out\", \"vectors\": [\"v\"], \"params\": {\"scale\": {\"default\": 1}, "
      "\"column\": {}}, \"output\": \"norm(h) > 0 ? scale * dot(h, v) / norm(h) : 0\"}";
  static const char *const ops[] = {"add", "cosine_out", "probe"};
  struct steer_env *env = *state;
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK,
                stg_op_register(env->engine, "cosine.json", cosine, sizeof cosine - 1, &error),
                &error);
  stg_steer_desc desc = desc_of();
  desc.ops = ops;
  desc.n_ops = 3;
  struct steer_bed *bed = steer_bed_create(env, &desc);
  const stg_vector v = steer_bed_direction(bed, 11, 1);
  const stg_op_call calls[] = {
      steer_add(v, 50),
      steer_probe(v, 0),
      {.op = "cosine_out", .vectors = {v}, .params = {2, 1}, .params_given = 3}};
  steer_bed_set(bed, 0, calls, 3);
  struct steer_batch *batch = steer_batch_of(bed, 6, 0);
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 6; r++) {
    assert_true(steer_batch_cell(batch, r, 1) > 1.5F && steer_batch_cell(batch, r, 1) < 2.0F);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_column_is_a_parameter_like_others(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_probe(steer_bed_direction(bed, 11, 1), 0);
  steer_bed_set(bed, 0, &call, 1);
  struct steer_batch *batch = steer_batch_of(bed, 2, 0);
  steer_bed_params(bed, 0, 0, 0, (const float[]){3}, 1);
  steer_batch_expect_ok(batch);
  assert_true(steer_batch_cell_untouched(batch, 0, 0));
  assert_false(steer_batch_cell_untouched(batch, 0, 3));
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_NOT_DECLARED, "column 4 is not below the 4 probes",
               stg_steer_set_params(bed->steer, 0, 0, 0, (const float[]){4}, 1, &error), &error);
  expect_error(STG_E_INVALID, "column 1.5 is no integer from 0 to 65535",
               stg_steer_set_params(bed->steer, 0, 0, 0, (const float[]){1.5F}, 1, &error), &error);
  expect_error(STG_E_INVALID, "column -1 is no integer",
               stg_steer_set_params(bed->steer, 0, 0, 0, (const float[]){-1}, 1, &error), &error);
  steer_batch_expect_ok(batch);
  assert_false(steer_batch_cell_untouched(batch, 0, 3));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void expect_apply_refused(struct steer_batch *batch, const stg_apply *apply,
                                 const char *part) {
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_INVALID, part, stg_steer_apply(batch->frame, apply, batch->stream, &error),
               &error);
}

static void cells_that_cannot_be_are_refused(void **state) {
  static const char *const probe[] = {"probe"};
  struct steer_bed *bed = bed_of(state);
  stg_steer_desc desc = desc_of();
  desc.probes = 0;
  struct steer_bed *without = steer_bed_create(*state, &desc);
  struct steer_batch *batch = steer_batch_of(bed, 4, 0), *other = steer_batch_of(without, 4, 0);
  const stg_op_call call = steer_probe(steer_bed_direction(without, 11, 1), 0);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_NOT_DECLARED, "op 'probe' is not among the 8",
               stg_steer_slot_set(without->steer, 0, &chain, 1, &error), &error);
  steer_batch_step(batch);
  steer_batch_step(other);
  stg_apply apply = steer_batch_args(other);
  apply.probes = batch->on_probes;
  expect_apply_refused(other, &apply, "probes is given, but the table declares 0");
  apply = steer_batch_args(batch);
  apply.probes = NULL;
  expect_apply_refused(batch, &apply, "probes is NULL, but the table declares 4");
  apply = steer_batch_args(batch);
  apply.probe_stride = 3;
  expect_apply_refused(batch, &apply, "probe_stride 3 is below the declared 4");
  apply.probe_stride = 0;
  apply.probes = (float *)(uintptr_t)apply.hidden;
  expect_apply_refused(batch, &apply, "overlap");
  apply.probes = (float *)(void *)((char *)batch->on_probes + 2);
  expect_apply_refused(batch, &apply, "between elements of 4 bytes");
  desc.ops = probe;
  desc.n_ops = 1;
  desc.struct_size = sizeof desc;
  stg_steer *steer = NULL;
  expect_error(STG_E_INVALID, "ops[0]: 'probe' gives something out, but probes is 0",
               stg_steer_create(bed->engine, &desc, &steer, &error), &error);
  desc.probes = 65537;
  expect_error(STG_E_INVALID, "probes: 65537 is more than 65536",
               stg_steer_create(bed->engine, &desc, &steer, &error), &error);
  steer_batch_destroy(batch);
  steer_batch_destroy(other);
  steer_bed_destroy(without);
  steer_bed_destroy(bed);
}

int steer_probes_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_probe_reads_the_row_where_it_stands_in_its_chain),
      cmocka_unit_test(a_chain_of_probes_leaves_the_row),
      cmocka_unit_test(cells_that_no_probe_reaches_are_not_written),
      cmocka_unit_test(the_last_probe_of_a_column_has_it),
      cmocka_unit_test(the_tile_and_the_batch_do_not_change_a_cell),
      cmocka_unit_test(cells_of_every_kind_of_table_meet_their_bound),
      cmocka_unit_test(users_write_ops_that_give_something_out),
      cmocka_unit_test(a_column_is_a_parameter_like_others),
      cmocka_unit_test(cells_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests_name("steer probes", tests, open, steer_env_close);
}
