/*
 * test_two_devices.c: an engine on each of two devices, with the same tables: each is right, they
 * give the same bits where the devices are alike, and a thread's current context stays what it was.
 * Ends with 77 where there is one device.
 */
#include "tests/gpu/gpu_test.h"

#include <pthread.h>
#include <string.h>

#include "tests/gpu/driver_calls.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 1024
#define ROWS 100
#define ROUNDS 20

/* What one device has. */
struct side {
  stg_engine *engine;
  struct steer_bed *bed;
  struct steer_batch *batch;
};

static void open_side(struct steer_env *env, int ordinal, struct side *side) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 128, .max_slots = 4};
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.device = ordinal;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = env->cache_path;
  options.pack_path = "";
  side->engine = steer_engine(&options);
  side->bed = steer_bed_on(env, side->engine, &desc);
  for (uint32_t slot = 0; slot < 4; slot++) {
    const stg_op_call calls[] = {steer_add(steer_bed_direction(side->bed, 951 + slot, 2), 1.5F),
                                 steer_ablate(steer_bed_direction(side->bed, 961 + slot, 1), 0)};
    steer_bed_set(side->bed, slot, calls, 2);
  }
  side->batch = steer_batch_create(side->bed, &(struct steer_layout){.rows = ROWS});
  steer_batch_fill(side->batch, 971, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    side->batch->row_map[r] = (int32_t)(r / 7 % 6) - 2;
  }
}

static void close_side(struct side *side) {
  steer_batch_destroy(side->batch);
  steer_bed_destroy(side->bed);
  steer_engine_close(side->engine);
}

static void open_both(struct steer_env *env, struct side sides[2]) {
  for (int i = 0; i < 2; i++) {
    open_side(env, i, &sides[i]);
  }
}

static const char *arch_of(const stg_engine *engine) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(engine, &info);
  return info.arch;
}

static void both_devices_are_right_in_turns(void **state) {
  struct side sides[2];
  open_both(*state, sides);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < 2; i++) {
      steer_bed_params(sides[i].bed, 0, 0, 0, (const float[]){(float)round}, 1);
      steer_batch_expect_ok(sides[i].batch);
    }
    if (strcmp(arch_of(sides[0].engine), arch_of(sides[1].engine)) == 0) {
      assert_memory_equal(sides[0].batch->result, sides[1].batch->result,
                          sides[0].batch->image_bytes);
    }
  }
  close_side(&sides[0]); /* the other one goes on */
  steer_batch_expect_ok(sides[1].batch);
  close_side(&sides[1]);
}

static void work_is_in_flight_on_both(void **state) {
  struct side sides[2];
  open_both(*state, sides);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < 2; i++) {
      steer_batch_send(sides[i].batch);
      steer_batch_step(sides[i].batch);
      steer_batch_apply(sides[i].batch);
    }
    for (int i = 1; i >= 0; i--) {
      steer_batch_fetch(sides[i].batch);
      steer_batch_check(sides[i].batch);
    }
  }
  close_side(&sides[0]);
  close_side(&sides[1]);
}

static void a_threads_context_stays_what_it_was(void **state) {
  struct side sides[2];
  stg_error error = STG_ERROR_INIT;
  void *before = driver_current_context();
  open_both(*state, sides);
  assert_ptr_equal(before, driver_current_context());
  for (int held = 0; held < 2; held++) {
    struct stg_device *device = stg_mem_device(sides[held].engine);
    check_ok(stg_device_hold(device, &error), &error);
    void *current = driver_current_context();
    for (int i = 0; i < 2; i++) {
      steer_batch_expect_ok(sides[i].batch);
      assert_ptr_equal(current, driver_current_context());
    }
    stg_device_let_go(device);
  }
  close_side(&sides[0]);
  close_side(&sides[1]);
  assert_ptr_equal(before, driver_current_context());
}

/* A thread a device; no assertion on them: what failed is kept. */
struct runner {
  struct side *side;
  stg_status status;
  stg_error error;
};

static void *run(void *user) {
  struct runner *runner = user;
  struct steer_batch *batch = runner->side->batch;
  const stg_step step = {.struct_size = sizeof step, .rows = ROWS, .row_map = batch->row_map};
  const stg_apply apply = steer_batch_args(batch);
  for (int round = 0; round < 50 * ROUNDS && runner->status == STG_OK; round++) {
    runner->status = stg_mem_upload(runner->side->engine, batch->on_hidden, batch->hidden,
                                    batch->image_bytes, &runner->error);
    if (runner->status == STG_OK) {
      runner->status = stg_steer_step(batch->frame, &step, batch->stream, &runner->error);
    }
    if (runner->status == STG_OK) {
      runner->status = stg_steer_apply(batch->frame, &apply, batch->stream, &runner->error);
    }
  }
  return NULL;
}

static void a_thread_each_does_not_disturb_the_other(void **state) {
  struct side sides[2];
  struct runner runners[2];
  pthread_t threads[2];
  open_both(*state, sides);
  for (int i = 0; i < 2; i++) {
    steer_batch_note(sides[i].batch);
    runners[i] = (struct runner){.side = &sides[i], .error = STG_ERROR_INIT};
    assert_int_equal(0, pthread_create(&threads[i], NULL, run, &runners[i]));
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < 2; i++) {
    check_ok(runners[i].status, &runners[i].error);
    steer_batch_fetch(sides[i].batch);
    steer_batch_check(sides[i].batch);
    close_side(&sides[i]);
  }
}

static int skip_with_one_device(void) {
  int count = 0, driver = 0;
  stg_error error = STG_ERROR_INIT;
  if (stg_device_count(&count, &driver, &error) != STG_OK) {
    printf("%s\n", error.message);
    return 1;
  }
  if (count < 2) {
    printf("skipped: the driver sees %d device, and this needs two\n", count);
    return EXIT_SKIPPED;
  }
  return 0;
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip == 0) {
    skip = skip_with_one_device();
  }
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_devices_are_right_in_turns),
      cmocka_unit_test(work_is_in_flight_on_both),
      cmocka_unit_test(a_threads_context_stays_what_it_was),
      cmocka_unit_test(a_thread_each_does_not_disturb_the_other),
  };
  return cmocka_run_group_tests_name("two devices", tests, steer_env_cuda, steer_env_close);
}
