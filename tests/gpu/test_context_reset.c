/*
 * test_context_reset.c: a host resets the primary context under an engine: the engine says so, can
 * be destroyed, and a new one of the same process is right. The driver gives a context that is made
 * again the same handle, so the old engine must not take it for its own.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>
#include <time.h>

#include "tests/gpu/driver_calls.h"
#include "tests/support/steer_batch.h"
#include "tests/support/temp_folder.h"

#define HIDDEN 512
#define ROWS 40

static struct steer_env env = {.cuda = true};

static const stg_steer_desc desc = {
    .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 64, .max_slots = 2};

/* An engine with a table whose slot 0 is set, and a batch that came out right once. */
struct used {
  stg_engine *engine;
  struct steer_bed *bed;
  struct steer_batch *batch;
};

static void open_used(struct used *used, const char *cache_path) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = cache_path;
  options.pack_path = "";
  used->engine = steer_engine(&options);
  used->bed = steer_bed_on(&env, used->engine, &desc);
  const stg_op_call call = steer_add(steer_bed_direction(used->bed, 901, 2), 1.5F);
  steer_bed_set(used->bed, 0, &call, 1);
  used->batch = steer_batch_create(used->bed, &(struct steer_layout){.rows = ROWS});
  steer_batch_fill(used->batch, 902, 1);
  steer_batch_map(used->batch, 0, ROWS / 2, 0);
  steer_batch_expect_ok(used->batch);
}

static void close_used(struct used *used) {
  steer_batch_destroy(used->batch);
  steer_bed_destroy(used->bed);
  steer_engine_close(used->engine);
}

/* Whatever is asked first. */
static void expect_lost(const struct used *used) {
  const stg_op_call call = steer_add(used->bed->vectors[0].id, 1);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const stg_step step = {.struct_size = sizeof step, .rows = ROWS, .row_map = used->batch->row_map};
  const stg_apply apply = steer_batch_args(used->batch);
  stg_steer_desc sized = desc;
  stg_steer *steer = NULL;
  stg_frame *frame = NULL;
  stg_device_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  sized.struct_size = sizeof sized;
  static const char said[] = "the primary context of device 0 was reset";
  expect_error(STG_E_DEVICE_LOST, said,
               stg_steer_apply(used->batch->frame, &apply, used->batch->stream, &error), &error);
  expect_error(STG_E_DEVICE_LOST, said,
               stg_steer_step(used->batch->frame, &step, used->batch->stream, &error), &error);
  expect_error(STG_E_DEVICE_LOST, said, stg_steer_slot_set(used->bed->steer, 1, &chain, 1, &error),
               &error);
  expect_error(STG_E_DEVICE_LOST, said, stg_frame_create(used->bed->steer, &frame, &error), &error);
  expect_error(STG_E_DEVICE_LOST, said,
               stg_device_status(used->bed->steer, used->batch->stream, &report, &error), &error);
  expect_error(STG_E_DEVICE_LOST, said, stg_steer_create(used->engine, &sized, &steer, &error),
               &error);
  assert_non_null(strstr(error.message, "destroy the engine and create a new one"));
}

static void an_engine_says_that_its_context_was_reset(void **state) {
  struct used old, new;
  open_used(&old, *state);
  driver_reset_context(0);
  expect_lost(&old);
  close_used(&old);
  open_used(&new, *state);
  steer_batch_expect_ok(new.batch);
  close_used(&new);
}

/* The context has been made again before the old engine is asked anything. */
static void a_context_that_was_made_again_is_not_the_old_one(void **state) {
  struct used old, new;
  open_used(&old, *state);
  driver_reset_context(0);
  open_used(&new, *state);
  expect_lost(&old);
  steer_batch_expect_ok(new.batch);
  close_used(&old); /* and takes nothing of the new one's with it */
  steer_batch_expect_ok(new.batch);
  close_used(&new);
}

/* Nothing at all was asked of it in between. */
static void an_engine_whose_context_is_gone_can_be_destroyed(void **state) {
  struct used old, new;
  open_used(&old, *state);
  driver_reset_context(0);
  close_used(&old);
  for (int i = 0; i < 3; i++) {
    open_used(&new, *state);
    close_used(&new);
  }
}

/* What a compile in the background finds when it wants to load. */
static void a_compile_in_the_background_ends_all_the_same(void **state) {
  (void)state;
  static const char *const ops[] = {"add", "swap"};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  stg_engine *engine = steer_engine(&options);
  stg_steer_desc sized = desc;
  stg_steer *steer = NULL;
  sized.struct_size = sizeof sized;
  sized.ops = ops;
  sized.n_ops = 2;
  check_ok(stg_steer_create(engine, &sized, &steer, &error), &error);
  driver_reset_context(0);
  const struct timespec pause = {.tv_nsec = 1000000};
  for (stg_stats now = steer_engine_stats(engine); now.compiles_queued + now.compiles_running > 0;
       now = steer_engine_stats(engine)) {
    nanosleep(&pause, NULL);
  }
  check_ok(stg_steer_destroy(steer, &error), &error);
  steer_engine_close(engine);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_engine_says_that_its_context_was_reset),
      cmocka_unit_test(a_context_that_was_made_again_is_not_the_old_one),
      cmocka_unit_test(an_engine_whose_context_is_gone_can_be_destroyed),
      cmocka_unit_test(a_compile_in_the_background_ends_all_the_same),
  };
  return cmocka_run_group_tests_name("context reset", tests, temp_folder_setup,
                                     temp_folder_teardown);
}
