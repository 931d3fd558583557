/*
 * steer_refusals.c: what is refused: status and message, nothing written, and the engine goes on.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define HIDDEN 64

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .layers = 2, .dtype = STG_BF16, .max_rows = 32, .max_slots = 4};
  return steer_bed_create(*state, &desc);
}

/* Ten rows of slot 0, which adds. */
static struct steer_batch *working_batch(struct steer_bed *bed) {
  const stg_op_call add = steer_add(steer_bed_direction(bed, 1, 3), 1);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 10});
  steer_bed_set(bed, 0, &add, 1);
  steer_batch_fill(batch, 91, 1);
  steer_batch_map(batch, 0, 10, 0);
  return batch;
}

/* A vector of ones on the bed's engine, of any length and dtype. */
static stg_vector ones(const struct steer_bed *bed, stg_dtype dtype, size_t length) {
  stg_error error = STG_ERROR_INIT;
  stg_vector id = 0;
  void *data = stg_calloc(length, stg_dtype_bytes(dtype));
  assert_non_null(data);
  for (size_t j = 0; j < length; j++) {
    stg_store_f32(dtype, data, j, 1);
  }
  expect_status(STG_OK, stg_vector_intern(bed->engine, dtype, data, length, &id, &error), &error);
  stg_free(data);
  return id;
}

/* Slot 0 must refuse the chain and go on doing what it did. */
static void expect_refused(struct steer_batch *batch, const stg_chain *chains, size_t n_chains,
                           stg_status wanted, const char *part) {
  stg_error error = STG_ERROR_INIT;
  unsigned char before[16], after[16];
  expect_status(STG_OK, stg_steer_digest(batch->bed->steer, 0, before, &error), &error);
  expect_error(wanted, part, stg_steer_slot_set(batch->bed->steer, 0, chains, n_chains, &error),
               &error);
  expect_status(STG_OK, stg_steer_digest(batch->bed->steer, 0, after, &error), &error);
  assert_memory_equal(before, after, 16);
  steer_batch_expect_ok(batch);
  assert_false(steer_batch_unchanged(batch, 0));
}

static void expect_call_refused(struct steer_batch *batch, stg_op_call call, stg_status wanted,
                                const char *part) {
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  expect_refused(batch, &chain, 1, wanted, part);
}

static void expect_vector_refused(struct steer_batch *batch, stg_dtype dtype, size_t length,
                                  const char *part) {
  stg_error error = STG_ERROR_INIT;
  const stg_vector v = ones(batch->bed, dtype, length);
  expect_call_refused(batch, steer_add(v, 1), STG_E_INVALID, part);
  expect_status(STG_OK, stg_vector_release(batch->bed->engine, v, &error), &error);
}

static void vectors_that_do_not_fit_are_refused_with_both_numbers(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  expect_vector_refused(batch, STG_BF16, HIDDEN + 1,
                        "slot 0: chains[0]: ops[0]: add: vector 'v' has 65 elements, hidden_size "
                        "is 64");
  expect_vector_refused(batch, STG_BF16, HIDDEN - 1, "has 63 elements, hidden_size is 64");
  expect_vector_refused(batch, STG_BF16, 1, "has 1 elements, hidden_size is 64");
  expect_vector_refused(batch, STG_F32, HIDDEN, "vector 'v' is f32, the table's bank is bf16");
  expect_vector_refused(batch, STG_F16, HIDDEN, "vector 'v' is f16, the table's bank is bf16");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void vectors_that_are_no_direction_are_not_interned(void **state) {
  struct steer_env *env = *state;
  stg_error error = STG_ERROR_INIT;
  float values[4] = {0};
  stg_vector id = 77;
  expect_error(STG_E_INVALID, "0 elements",
               stg_vector_intern(env->engine, STG_F32, values, 0, &id, &error), &error);
  expect_error(STG_E_INVALID, "dtype 9",
               stg_vector_intern(env->engine, (stg_dtype)9, values, 4, &id, &error), &error);
  expect_error(STG_E_INVALID, "norm of its 4 elements is 0",
               stg_vector_intern(env->engine, STG_F32, values, 4, &id, &error), &error);
  values[2] = NAN;
  expect_error(STG_E_NON_FINITE, "element 2 is ",
               stg_vector_intern(env->engine, STG_F32, values, 4, &id, &error), &error);
  values[2] = -INFINITY;
  expect_error(STG_E_NON_FINITE, "element 2 is -inf",
               stg_vector_intern(env->engine, STG_F32, values, 4, &id, &error), &error);
  expect_error(STG_E_NOT_FOUND, "id 12345", stg_vector_release(env->engine, 12345, &error), &error);
  assert_int_equal(77, id);
}

static void chains_beyond_the_declaration_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  const stg_vector v = steer_bed_direction(bed, 2, 1);
  const stg_op_call calls[5] = {steer_add(v, 1), steer_add(v, 1), steer_add(v, 1), steer_add(v, 1),
                                steer_add(v, 1)};
  expect_refused(batch, &(stg_chain){.ops = calls, .n_ops = 5}, 1, STG_E_NOT_DECLARED,
                 "chains[0]: 5 ops, the table declares chains of up to 4");
  expect_refused(batch, &(stg_chain){.layer = 2, .ops = calls, .n_ops = 1}, 1, STG_E_INVALID,
                 "layer 2 is not below the declared 2");
  expect_refused(batch, &(stg_chain){.ops = calls}, 1, STG_E_INVALID, "no ops");
  expect_refused(batch,
                 (const stg_chain[]){{.layer = 1, .ops = calls, .n_ops = 1},
                                     {.layer = 1, .ops = calls, .n_ops = 2}},
                 2, STG_E_INVALID, "layer 1 has two chains");
  expect_refused(batch, NULL, 1, STG_E_INVALID, "chains is NULL with a count of 1");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void calls_that_make_no_sense_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  const stg_vector v = steer_bed_direction(bed, 3, 1);
  stg_op_call call = steer_add(v, 1);
  call.op = "twirl";
  expect_call_refused(batch, call, STG_E_NOT_DECLARED, "op 'twirl' is not among");
  call.op = NULL;
  expect_call_refused(batch, call, STG_E_INVALID, "ops[0]: op is NULL");
  expect_call_refused(batch, steer_add(v, NAN), STG_E_INVALID, "'scale'");
  expect_call_refused(batch, steer_add(v, INFINITY), STG_E_INVALID, "'scale'");
  expect_call_refused(batch, steer_add(0, 1), STG_E_NOT_FOUND, "vector 'v': vector: id 0 is not");
  call = steer_add(v, 1);
  call.params_given = 2;
  expect_call_refused(batch, call, STG_E_INVALID, "params_given is 0x2");
  call = steer_cap_max(v, 1);
  call.params_given = 0;
  expect_call_refused(batch, call, STG_E_INVALID, "min > -inf || max < inf");
  call.params[0] = 2;
  call.params_given = 3;
  expect_call_refused(batch, call, STG_E_INVALID, "min <= max");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void ops_that_were_not_declared_are_refused(void **state) {
  static const char *const only_add[] = {"add"};
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 32, .ops = only_add, .n_ops = 1};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct steer_batch *batch = working_batch(bed);
  expect_call_refused(batch, steer_ablate(steer_bed_direction(bed, 4, 1), 0), STG_E_NOT_DECLARED,
                      "op 'ablation' is not among the 1 that the table declares");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void parameters_of_ops_that_are_not_there_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  stg_error error = STG_ERROR_INIT;
  const float value = NAN;
  expect_error(STG_E_NOT_FOUND, "slot 0: layer 0 has no op 1",
               stg_steer_set_params(bed->steer, 0, 0, 1, &value, 1, &error), &error);
  expect_error(STG_E_NOT_FOUND, "slot 0: layer 1 has no op 0",
               stg_steer_set_params(bed->steer, 0, 1, 0, &value, 1, &error), &error);
  expect_error(STG_E_NOT_FOUND, "slot 1: layer 0 has no op 0",
               stg_steer_set_params(bed->steer, 1, 0, 0, &value, 1, &error), &error);
  expect_error(STG_E_INVALID, "params is NULL",
               stg_steer_set_params(bed->steer, 0, 0, 0, NULL, 1, &error), &error);
  expect_error(STG_E_INVALID, "'scale'",
               stg_steer_set_params(bed->steer, 0, 0, 0, &value, 1, &error), &error);
  const float two[] = {1, 1};
  expect_error(STG_E_INVALID, "params_given is 0x3",
               stg_steer_set_params(bed->steer, 0, 0, 0, two, 3, &error), &error);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* A step that is refused leaves the frame as the last one made it. */
static void expect_step_refused(struct steer_batch *batch, stg_step step, stg_status wanted,
                                const char *part) {
  stg_error error = STG_ERROR_INIT;
  steer_batch_send(batch);
  steer_batch_step(batch);
  step.struct_size = sizeof step;
  expect_error(wanted, part, stg_steer_step(batch->frame, &step, batch->stream, &error), &error);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
}

static void steps_outside_of_the_table_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  int32_t map[33] = {0, 0, 0, 4};
  expect_step_refused(batch, (stg_step){.rows = 10, .row_map = map}, STG_E_BAD_SLOT,
                      "row_map[3]: 4 is no slot below 4");
  map[3] = -3;
  expect_step_refused(batch, (stg_step){.rows = 10, .row_map = map}, STG_E_BAD_SLOT,
                      "row_map[3]: -3 is no slot");
  map[3] = INT32_MAX;
  expect_step_refused(batch, (stg_step){.rows = 10, .row_map = map}, STG_E_BAD_SLOT,
                      "row_map[3]: 2147483647 is no slot");
  map[3] = 0;
  expect_step_refused(batch, (stg_step){.rows = 33, .row_map = map}, STG_E_CAPACITY,
                      "33 rows, the table declares max_rows 32");
  expect_step_refused(batch, (stg_step){.rows = -1, .row_map = map}, STG_E_INVALID, "-1 rows");
  expect_step_refused(batch, (stg_step){.rows = 1}, STG_E_INVALID, "1 rows with a row map at");
  if (!batch->bed->env->cuda) {
    expect_step_refused(batch, (stg_step){.rows = 1, .row_map = map, .on_device = true},
                        STG_E_INVALID, "on_device with the cpu backend");
  }
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
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = working_batch(bed);
  const stg_apply good = steer_batch_args(batch);
  char *hidden = (char *)(uintptr_t)good.hidden;
  stg_apply bad = good;
  expect_apply_refused(batch, &good, "the frame has had no step");
  steer_batch_send(batch);
  steer_batch_step(batch);
  bad.layer = 2;
  expect_apply_refused(batch, &bad, "layer 2 is not below the declared 2");
  bad = good;
  bad.row_stride = HIDDEN - 1;
  expect_apply_refused(batch, &bad, "row_stride 63 is below hidden_size 64");
  bad.row_stride = -HIDDEN;
  expect_apply_refused(batch, &bad, "row_stride -64 is below");
  bad.row_stride = INT64_MAX;
  expect_apply_refused(batch, &bad, "row_stride 9223372036854775807");
  bad = good;
  bad.hidden = NULL;
  expect_apply_refused(batch, &bad, "hidden is NULL for 10 rows");
  bad = good;
  bad.residual = hidden;
  expect_apply_refused(batch, &bad, "residual is given, but the table's state is hidden");
  bad = good;
  bad.out = hidden + 2;
  expect_apply_refused(batch, &bad, "overlap in part");
  bad.out = hidden + 10 * batch->row_bytes - 2;
  expect_apply_refused(batch, &bad, "overlap in part");
  bad.out = hidden - 2;
  expect_apply_refused(batch, &bad, "overlap in part");
  if (bed->env->cuda) { /* the CPU backend reads bytes */
    bad = good;
    bad.out = hidden + 100 * batch->stride_bytes + 1;
    expect_apply_refused(batch, &bad, "lies between elements of 2 bytes");
  }
  bad = good;
  bad.struct_size--;
  expect_apply_refused(batch, &bad, "struct_size is not");
  steer_batch_fetch(batch);
  assert_memory_equal(batch->hidden, batch->result, batch->image_bytes);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_pair_wants_its_residual_apart_from_what_is_written(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
                               .max_rows = 32,
                               .max_slots = 4};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct steer_batch *batch = working_batch(bed);
  stg_apply bad = steer_batch_args(batch);
  char *hidden = (char *)(uintptr_t)bad.hidden;
  steer_batch_send(batch);
  steer_batch_step(batch);
  bad.residual = NULL;
  expect_apply_refused(batch, &bad, "residual is NULL, but the table's state is hidden+residual");
  bad.residual = hidden;
  expect_apply_refused(batch, &bad, "the residual is never written");
  bad.residual = hidden + 2;
  expect_apply_refused(batch, &bad, "the residual is never written");
  steer_batch_fetch(batch);
  assert_memory_equal(batch->hidden, batch->result, batch->image_bytes);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void what_is_alive_cannot_be_pulled_from_under_it(void **state) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  struct steer_env *env = *state;
  stg_options_init(&options);
  options.backend = env->cuda ? STG_BACKEND_CUDA : STG_BACKEND_CPU;
  options.cache_path = env->cache_path;
  options.pack_path = "";
  stg_engine *engine = steer_engine(&options);
  const stg_steer_desc desc = {.hidden_size = HIDDEN, .dtype = STG_BF16};
  struct steer_bed *bed = steer_bed_on(env, engine, &desc);
  expect_error(STG_E_BUSY, "1 steer tables are alive", stg_engine_destroy(engine, &error), &error);
  expect_error(STG_E_BUSY, "frame", stg_steer_destroy(bed->steer, &error), &error);
  struct steer_batch *batch = working_batch(bed);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  expect_status(STG_OK, stg_engine_destroy(engine, &error), &error);
}

int steer_refusal_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_that_do_not_fit_are_refused_with_both_numbers),
      cmocka_unit_test(vectors_that_are_no_direction_are_not_interned),
      cmocka_unit_test(chains_beyond_the_declaration_are_refused),
      cmocka_unit_test(calls_that_make_no_sense_are_refused),
      cmocka_unit_test(ops_that_were_not_declared_are_refused),
      cmocka_unit_test(parameters_of_ops_that_are_not_there_are_refused),
      cmocka_unit_test(steps_outside_of_the_table_are_refused),
      cmocka_unit_test(tensors_that_cannot_be_are_refused_and_nothing_is_written),
      cmocka_unit_test(a_pair_wants_its_residual_apart_from_what_is_written),
      cmocka_unit_test(what_is_alive_cannot_be_pulled_from_under_it),
  };
  return cmocka_run_group_tests_name("steer refusals", tests, open, steer_env_close);
}
