/*
 * test_steer_memory.c: every allocation of every call fails in turn: a clean status with a message,
 * nothing changed, nothing lost (under a sanitizer), and then the call works.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/support/steer_batch.h"

#define MANY 5000

/* One call under test: its status, and whether a failure left everything as it was. */
struct attempt {
  stg_status (*call)(void *user, stg_error *reterr);
  void (*check_unchanged)(void *user);
  void *user;
};

/* Returns how many allocations there were to fail. */
static size_t fail_each_allocation(const struct attempt *attempt) {
  for (size_t nth = 1; nth < MANY; nth++) {
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = attempt->call(attempt->user, &error);
    stg_alloc_fail_at(0);
    if (status == STG_OK) {
      return nth - 1;
    }
    if (status != STG_E_NO_MEMORY || error.message[0] == '\0') {
      fail_msg("allocation %zu: %s: '%s'", nth, stg_status_name(status), error.message);
    }
    if (attempt->check_unchanged != NULL) {
      attempt->check_unchanged(attempt->user);
    }
  }
  fail_msg("still failing at allocation %d", MANY);
  return MANY;
}

static stg_status create_engine(void *user, stg_error *reterr) {
  stg_engine **engine = user;
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.nvrtc_options = "-lineinfo";
  return stg_engine_create(&options, engine, reterr);
}

static void expect_no_engine(void *user) {
  assert_null(*(stg_engine **)user);
}

static void an_engine_is_created_or_not(void **state) {
  (void)state;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_true(fail_each_allocation(&(struct attempt){create_engine, expect_no_engine, &engine}) >
              3);
  expect_status(STG_OK, stg_engine_destroy(engine, &error), &error);
}

struct creation {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
};

static stg_status create_steer(void *user, stg_error *reterr) {
  static const int64_t rows[] = {8, 64};
  struct creation *creation = user;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = 64,
                               .layers = 2,
                               .dtype = STG_F16,
                               .max_slots = 4,
                               .row_buckets = rows,
                               .n_row_buckets = 2};
  return stg_steer_create(creation->engine, &desc, &creation->steer, reterr);
}

static stg_status create_frame(void *user, stg_error *reterr) {
  struct creation *creation = user;
  return stg_frame_create(creation->steer, &creation->frame, reterr);
}

/* Nothing that failed counts as alive. */
static void expect_no_steer(void *user) {
  assert_null(((struct creation *)user)->steer);
}

static void expect_no_frame(void *user) {
  assert_null(((struct creation *)user)->frame);
}

static void tables_and_frames_are_created_or_not(void **state) {
  struct creation creation = {.engine = ((struct steer_env *)*state)->engine};
  stg_error error = STG_ERROR_INIT;
  assert_true(fail_each_allocation(&(struct attempt){create_steer, expect_no_steer, &creation}) >
              5);
  assert_true(fail_each_allocation(&(struct attempt){create_frame, expect_no_frame, &creation}) >=
              4);
  stg_frame_destroy(creation.frame);
  expect_status(STG_OK, stg_steer_destroy(creation.steer, &error), &error);
}

/* A slot, its digest before the attempt, and the chain to put there. */
struct setting {
  struct steer_bed *bed;
  stg_op_call calls[3];
  unsigned char digest[16];
};

static void read_digest(const struct setting *setting, unsigned char *ret_digest) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_digest(setting->bed->steer, 1, ret_digest, &error), &error);
}

static void expect_same_slot(void *user) {
  struct setting *setting = user;
  unsigned char digest[16];
  read_digest(setting, digest);
  assert_memory_equal(setting->digest, digest, 16);
}

static stg_status set_slot(void *user, stg_error *reterr) {
  struct setting *setting = user;
  const stg_chain chain = {.ops = setting->calls, .n_ops = 3};
  return stg_steer_slot_set(setting->bed->steer, 1, &chain, 1, reterr);
}

static stg_status set_params(void *user, stg_error *reterr) {
  struct setting *setting = user;
  return stg_steer_set_params(setting->bed->steer, 1, 0, 0, (const float[]){9}, 1, reterr);
}

static struct steer_bed *small_bed(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = 64, .dtype = STG_BF16, .max_rows = 32, .max_slots = 4};
  return steer_bed_create(*state, &desc);
}

static void a_slot_is_set_or_unchanged(void **state) {
  struct setting setting = {.bed = small_bed(state)};
  struct steer_batch *batch = steer_batch_create(setting.bed, &(struct steer_layout){.rows = 9});
  const stg_vector v = steer_bed_direction(setting.bed, 1, 1);
  setting.calls[0] = steer_add(v, 2);
  setting.calls[1] = steer_ablate(steer_bed_direction(setting.bed, 2, 1), 0);
  setting.calls[2] = steer_keep_norm(v, -1);
  steer_bed_set(setting.bed, 1, setting.calls, 1);
  steer_batch_fill(batch, 5, 1);
  steer_batch_map(batch, 0, 9, 1);
  read_digest(&setting, setting.digest);
  assert_true(fail_each_allocation(&(struct attempt){set_slot, expect_same_slot, &setting}) > 3);
  read_digest(&setting, setting.digest);
  assert_true(fail_each_allocation(&(struct attempt){set_params, expect_same_slot, &setting}) > 3);
  /* what the slot now does is the chain with its new parameter */
  setting.calls[0].params[0] = 9;
  steer_bed_set(setting.bed, 1, setting.calls, 3);
  unsigned char digest[16];
  read_digest(&setting, digest);
  memcpy(setting.digest, digest, 16);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(setting.bed);
}

static stg_status step_batch(void *user, stg_error *reterr) {
  const struct steer_batch *batch = user;
  const stg_step step = {
      .struct_size = sizeof step, .rows = batch->layout.rows, .row_map = batch->row_map};
  return stg_steer_step(batch->frame, &step, batch->stream, reterr);
}

static stg_status apply_batch(void *user, stg_error *reterr) {
  const struct steer_batch *batch = user;
  const stg_apply apply = steer_batch_args(batch);
  return stg_steer_apply(batch->frame, &apply, batch->stream, reterr);
}

static void expect_nothing_written(void *user) {
  struct steer_batch *batch = user;
  steer_batch_fetch(batch);
  assert_memory_equal(batch->hidden, batch->result, batch->image_bytes);
}

static void a_batch_is_steered_or_untouched(void **state) {
  struct steer_bed *bed = small_bed(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 3, 3), 1);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 17});
  steer_bed_set(bed, 0, &call, 1);
  steer_batch_fill(batch, 6, 1);
  steer_batch_map(batch, 0, 17, 0);
  steer_batch_send(batch);
  assert_true(fail_each_allocation(&(struct attempt){step_batch, expect_nothing_written, batch}) >
              0);
  steer_batch_note(batch);
  assert_true(fail_each_allocation(&(struct attempt){apply_batch, expect_nothing_written, batch}) >
              0);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  assert_false(steer_batch_unchanged(batch, 0));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

struct one_shot {
  struct steer_batch *batch;
  stg_op_call calls[2];
};

static stg_status steer_once(void *user, stg_error *reterr) {
  static const int64_t lengths[] = {5, 4};
  const struct one_shot *shot = user;
  const stg_chain chains[] = {{.ops = &shot->calls[0], .n_ops = 1},
                              {.ops = &shot->calls[1], .n_ops = 1}};
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(shot->batch),
                         .rows = shot->batch->layout.rows,
                         .n_requests = 2,
                         .lengths = lengths,
                         .chains = chains};
  return stg_steer_once(shot->batch->bed->steer, &once, shot->batch->stream, reterr);
}

/* Nothing written, and every slot given back: another call finds all four. */
static void expect_no_shot(void *user) {
  struct one_shot *shot = user;
  unsigned char digest[16];
  static const unsigned char zeros[16] = {0};
  stg_error error = STG_ERROR_INIT;
  expect_nothing_written(shot->batch);
  for (uint32_t slot = 0; slot < 4; slot++) {
    expect_status(STG_OK, stg_steer_digest(shot->batch->bed->steer, slot, digest, &error), &error);
    assert_memory_equal(zeros, digest, 16);
  }
}

static void a_one_shot_gives_its_slots_back_in_any_case(void **state) {
  struct steer_bed *bed = small_bed(state);
  struct one_shot shot = {.batch = steer_batch_create(bed, &(struct steer_layout){.rows = 9})};
  shot.calls[0] = steer_add(steer_bed_direction(bed, 7, 1), 3);
  shot.calls[1] = steer_ablate(steer_bed_direction(bed, 8, 1), 3);
  steer_batch_fill(shot.batch, 9, 1);
  steer_batch_send(shot.batch);
  assert_true(fail_each_allocation(&(struct attempt){steer_once, expect_no_shot, &shot}) > 10);
  steer_batch_map(shot.batch, 0, 5, 0);
  steer_batch_map(shot.batch, 5, 9, 1);
  shot.batch->chains[0] = steer_bed_chain(bed, &shot.calls[0], 1);
  shot.batch->chains[1] = steer_bed_chain(bed, &shot.calls[1], 1);
  steer_batch_fetch(shot.batch);
  steer_batch_check(shot.batch);
  steer_batch_destroy(shot.batch);
  steer_bed_destroy(bed);
}

static stg_status register_lean(void *user, stg_error *reterr) {
  static const char json[] = "{\"op\": \"lean\", \"vectors\": [\"v\"], \"params\": {}, "
                             "\"body\": [\"h += dot(h, v) * v\"]}";
  return stg_op_register(user, "lean.json", json, sizeof json - 1, reterr);
}

static void an_op_is_registered_or_not(void **state) {
  (void)state;
  stg_engine *engine = NULL;
  struct stg_op_info info;
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, create_engine(&engine, &error), &error);
  assert_true(fail_each_allocation(&(struct attempt){register_lean, NULL, engine}) > 0);
  expect_status(STG_OK, stg_engine_op_find(engine, "lean", &info, &error), &error);
  expect_status(STG_OK, stg_engine_destroy(engine, &error), &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_engine_is_created_or_not),
      cmocka_unit_test(an_op_is_registered_or_not),
      cmocka_unit_test(tables_and_frames_are_created_or_not),
      cmocka_unit_test(a_slot_is_set_or_unchanged),
      cmocka_unit_test(a_batch_is_steered_or_untouched),
      cmocka_unit_test(a_one_shot_gives_its_slots_back_in_any_case),
  };
  return cmocka_run_group_tests(tests, steer_env_cpu, steer_env_close);
}
