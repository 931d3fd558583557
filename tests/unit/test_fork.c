/*
 * test_fork.c: a child that was forked with an engine: on CUDA, here a device of the host, it is
 * told so by every call, and touches nothing; on the CPU it has a copy of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "engine/hostmem.h"
#include "engine/steer.h"
#include "tests/support/forked_calls.h"
#include "tests/support/host_device.h"
#include "tests/support/test_fork.h"

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void step_and_apply(struct forked_objects *all) {
  static const int32_t map[] = {0};
  const stg_step step = {.struct_size = sizeof step, .rows = 1, .row_map = map};
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = all->hidden};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(all->frame, &step, NULL, &error), &error);
  ok(stg_steer_apply(all->frame, &apply, NULL, &error), &error);
}

/* Slot 0 adds ones; the first apply has been made. */
static void open_all(struct forked_objects *all, stg_backend backend) {
  static const float ones[FORKED_HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  const stg_steer_desc desc = {
      .struct_size = sizeof desc, .hidden_size = FORKED_HIDDEN, .dtype = STG_F32};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  stg_options_init(&options);
  options.backend = backend;
  options.cache_mode = STG_CACHE_OFF;
  *all = (struct forked_objects){.engine = NULL};
  ok(stg_engine_create(&options, &all->engine, &error), &error);
  ok(stg_steer_create(all->engine, &desc, &all->steer, &error), &error);
  ok(stg_frame_create(all->steer, &all->frame, &error), &error);
  ok(stg_vector_intern(all->engine, STG_F32, ones, FORKED_HIDDEN, &all->vector, &error), &error);
  ok(stg_mem_alloc(all->engine, sizeof ones, &memory, &error), &error);
  all->hidden = memory;
  ok(stg_mem_upload(all->engine, memory, ones, sizeof ones, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {all->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(all->steer, 0, &chain, 1, &error), &error);
  step_and_apply(all);
}

static void expect_values(const struct forked_objects *all, float wanted) {
  float values[FORKED_HIDDEN];
  stg_error error = STG_ERROR_INIT;
  ok(stg_mem_synchronize(all->engine, &error), &error);
  ok(stg_device_status(all->steer, NULL, &(stg_device_report){sizeof(stg_device_report), 0, 0, 0},
                       &error),
     &error);
  ok(stg_mem_download(all->engine, values, all->hidden, sizeof values, &error), &error);
  for (int j = 0; j < FORKED_HIDDEN; j++) {
    assert_memory_equal(&wanted, &values[j], sizeof wanted);
  }
}

static void close_all(struct forked_objects *all) {
  stg_error error = STG_ERROR_INIT;
  stg_mem_free(all->engine, all->hidden);
  stg_frame_destroy(all->frame);
  ok(stg_steer_destroy(all->steer, &error), &error);
  ok(stg_vector_release(all->engine, all->vector, &error), &error);
  ok(stg_engine_destroy(all->engine, &error), &error);
}

/* Every lock is taken meanwhile, as by threads of the parent's that the child does not have. */
static void a_child_is_told_at_every_call_whatever_is_locked(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_BACKEND_CUDA);
  pthread_mutex_lock(&all.steer->lock);
  pthread_mutex_lock(&all.steer->once_lock);
  pthread_mutex_lock(&all.engine->kernels.lock);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    host_device_reset_calls();
    const bool right = forked_table_calls(STG_E_FORKED, &all) &&
                       forked_record_calls(STG_E_FORKED, &all) &&
                       forked_frame_calls(STG_E_FORKED, &all) && forked_ends(&all);
    _exit(right && host_device_calls().all == 0 ? 0 : 1);
  }
  pthread_mutex_unlock(&all.engine->kernels.lock);
  pthread_mutex_unlock(&all.steer->once_lock);
  pthread_mutex_unlock(&all.steer->lock);
  assert_true(forked_child_was_right(child));
  step_and_apply(&all); /* the parent goes on */
  expect_values(&all, 3);
  close_all(&all);
}

static void on_the_cpu_a_child_goes_on_with_its_copy(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_BACKEND_CPU);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    const float scale = 5;
    stg_error error = STG_ERROR_INIT;
    bool right = forked_is(STG_OK, "stg_steer_set_params",
                           stg_steer_set_params(all.steer, 0, 0, 0, &scale, 1, &error), &error);
    step_and_apply(&all);
    for (int j = 0; j < FORKED_HIDDEN; j++) {
      right = right && all.hidden[j] > 6.5F && all.hidden[j] < 7.5F;
    }
    close_all(&all);
    _exit(right ? 0 : 1);
  }
  assert_true(forked_child_was_right(child));
  expect_values(&all, 2); /* what the child did is not seen here */
  step_and_apply(&all);
  expect_values(&all, 3);
  close_all(&all);
}

static void on_the_cpu_every_call_of_a_child_works(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_BACKEND_CPU);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    _exit(forked_frame_calls(STG_OK, &all) && forked_table_calls(STG_OK, &all) &&
                  forked_record_calls(STG_OK, &all)
              ? 0
              : 1);
  }
  assert_true(forked_child_was_right(child));
  close_all(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_is_told_at_every_call_whatever_is_locked),
      cmocka_unit_test(on_the_cpu_a_child_goes_on_with_its_copy),
      cmocka_unit_test(on_the_cpu_every_call_of_a_child_works),
  };
  return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
