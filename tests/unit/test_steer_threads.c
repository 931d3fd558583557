/*
 * test_steer_threads.c: one table from several threads: a host that owns slots, and one-shot calls
 * that borrow what is free. Exact values, so that a chain from the wrong thread shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include <steergraph/steergraph.h>

#define HIDDEN 8
#define ROUNDS 2000

/* A table of two slots, a vector of ones. */
struct crowd {
  stg_engine *engine;
  stg_steer *steer;
  stg_vector ones;
};

static int open_crowd(void **state) {
  static struct crowd crowd;
  static const float ones[HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_slots = 2,
                               .max_vectors = 2};
  if (stg_engine_create(&options, &crowd.engine, NULL) != STG_OK ||
      stg_steer_create(crowd.engine, &desc, &crowd.steer, NULL) != STG_OK ||
      stg_vector_intern(crowd.engine, STG_F32, ones, HIDDEN, &crowd.ones, NULL) != STG_OK) {
    return -1;
  }
  *state = &crowd;
  return 0;
}

static int close_crowd(void **state) {
  struct crowd *crowd = *state;
  return stg_vector_release(crowd->engine, crowd->ones, NULL) == STG_OK &&
                 stg_steer_destroy(crowd->steer, NULL) == STG_OK &&
                 stg_engine_destroy(crowd->engine, NULL) == STG_OK
             ? 0
             : -1;
}

static stg_op_call add_ones(const struct crowd *crowd, float scale) {
  return (stg_op_call){.op = "add", .vectors = {crowd->ones}, .params = {scale}, .params_given = 1};
}

static bool all_are(const float *row, float value) {
  for (int j = 0; j < HIDDEN; j++) {
    if (row[j] < value || row[j] > value) {
      return false;
    }
  }
  return true;
}

/* Owns slot 0: sets it, steps, applies, clears it. Returns how many rounds went wrong. */
static void *own_a_slot(void *user) {
  struct crowd *crowd = user;
  const stg_op_call call = add_ones(crowd, 1);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const int32_t map[] = {0};
  const stg_step step = {.struct_size = sizeof step, .rows = 1, .row_map = map};
  stg_frame *frame = NULL;
  uintptr_t wrong = stg_frame_create(crowd->steer, &frame, NULL) == STG_OK ? 0 : 1;
  for (int i = 0; i < ROUNDS && wrong == 0; i++) {
    float row[HIDDEN] = {0};
    const stg_apply apply = {.struct_size = sizeof apply, .hidden = row, .out = row};
    bool ok = stg_steer_slot_set(crowd->steer, 0, &chain, 1, NULL) == STG_OK &&
              stg_steer_step(frame, &step, NULL, NULL) == STG_OK &&
              stg_steer_apply(frame, &apply, NULL, NULL) == STG_OK && all_are(row, 1) &&
              stg_steer_slot_clear(crowd->steer, 0, NULL) == STG_OK;
    wrong += ok ? 0 : 1;
  }
  stg_frame_destroy(frame);
  return (void *)wrong;
}

static void *call_once(void *user) {
  struct crowd *crowd = user;
  const stg_op_call call = add_ones(crowd, 2);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const int64_t length = 1;
  uintptr_t wrong = 0;
  for (int i = 0; i < ROUNDS && wrong == 0; i++) {
    float row[HIDDEN] = {0};
    const stg_once once = {.struct_size = sizeof once,
                           .apply = {.struct_size = sizeof once.apply, .hidden = row, .out = row},
                           .rows = 1,
                           .n_requests = 1,
                           .lengths = &length,
                           .chains = &chain};
    bool ok = stg_steer_once(crowd->steer, &once, NULL, NULL) == STG_OK && all_are(row, 2);
    wrong += ok ? 0 : 1;
  }
  return (void *)wrong;
}

static void slots_of_a_host_and_one_shots_do_not_mix(void **state) {
  pthread_t threads[3];
  void *(*const jobs[])(void *) = {own_a_slot, call_once, call_once};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(0, pthread_create(&threads[i], NULL, jobs[i], *state));
  }
  for (int i = 0; i < 3; i++) {
    void *wrong = NULL;
    assert_int_equal(0, pthread_join(threads[i], &wrong));
    assert_null(wrong);
  }
}

/* A frame of its own over slot 0 of a table that counts; reads the counters meanwhile. */
static void *steer_and_read(void *user) {
  stg_steer *steer = user;
  const int32_t map[] = {0, -1};
  const stg_step step = {.struct_size = sizeof step, .rows = 2, .row_map = map};
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_frame *frame = NULL;
  uint64_t before = 0;
  uintptr_t wrong = stg_frame_create(steer, &frame, NULL) == STG_OK ? 0 : 1;
  for (int i = 0; i < ROUNDS && wrong == 0; i++) {
    float rows[2][HIDDEN] = {{0}};
    const stg_apply apply = {.struct_size = sizeof apply, .hidden = rows};
    bool ok = stg_steer_step(frame, &step, NULL, NULL) == STG_OK &&
              stg_steer_apply(frame, &apply, NULL, NULL) == STG_OK &&
              stg_steer_counters(steer, 0, 0, NULL, &counters, NULL) == STG_OK &&
              counters.rows_touched > before && counters.rows_touched <= 3 * (uint64_t)ROUNDS;
    before = counters.rows_touched;
    wrong += ok ? 0 : 1;
  }
  stg_frame_destroy(frame);
  return (void *)wrong;
}

static void frames_of_several_threads_count_every_row(void **state) {
  struct crowd *crowd = *state;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_slots = 1,
                               .counters = true};
  const stg_op_call call = add_ones(crowd, 2);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_steer *steer = NULL;
  pthread_t threads[3];
  assert_int_equal(STG_OK, stg_steer_create(crowd->engine, &desc, &steer, NULL));
  assert_int_equal(STG_OK, stg_steer_slot_set(steer, 0, &chain, 1, NULL));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(0, pthread_create(&threads[i], NULL, steer_and_read, steer));
  }
  for (int i = 0; i < 3; i++) {
    void *wrong = NULL;
    assert_int_equal(0, pthread_join(threads[i], &wrong));
    assert_null(wrong);
  }
  assert_int_equal(STG_OK, stg_steer_counters(steer, 0, 0, NULL, &counters, NULL));
  assert_int_equal(3 * ROUNDS, counters.rows_touched);
  assert_int_equal(3 * ROUNDS, counters.rows_changed);
  assert_true(counters.max_update >= 2 && counters.max_update <= 2);
  assert_int_equal(STG_OK, stg_steer_destroy(steer, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_of_a_host_and_one_shots_do_not_mix),
      cmocka_unit_test(frames_of_several_threads_count_every_row),
  };
  return cmocka_run_group_tests_name("steer threads", tests, open_crowd, close_crowd);
}
