/*
 * test_steer_streams.c: steps and applies issued ahead of the device, on one stream and on several.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"

#define HIDDEN 2048
#define ROWS 256
/* More steps than a frame has staging buffers. */
#define AHEAD 12
/* Work that a stream has ahead of what a test queues on it: about a millisecond. */
#define BUSY_WORDS ((size_t)16 * 1024 * 1024)
#define BUSY_FILLS 40

static struct steer_bed *bed_of(void **state, uint32_t max_vectors) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .max_rows = ROWS,
                               .max_slots = 4,
                               .max_vectors = max_vectors};
  return steer_bed_create(*state, &desc);
}

static void create_batches(struct steer_bed *bed, stg_stream stream, struct steer_batch **ret) {
  for (size_t k = 0; k < AHEAD; k++) {
    ret[k] = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
    ret[k]->stream = stream;
    steer_batch_fill(ret[k], 401 + k, 1);
    steer_batch_map(ret[k], 0, ROWS, 0);
    steer_batch_send(ret[k]);
  }
}

static void check_and_destroy(struct steer_batch **batches) {
  for (size_t k = 0; k < AHEAD; k++) {
    steer_batch_fetch(batches[k]);
    steer_batch_check(batches[k]);
    steer_batch_destroy(batches[k]);
  }
}

static stg_stream new_stream(const struct steer_bed *bed) {
  stg_stream stream = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_create(stg_mem_device(bed->engine), &stream, &error), &error);
  return stream;
}

static void parameters_changed_between_steps_never_tear_one_in_flight(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 8);
  stg_stream stream = new_stream(bed);
  struct steer_batch *batches[AHEAD];
  const stg_op_call calls[] = {steer_add(steer_bed_direction(bed, 1, 1), 0),
                               steer_ablate(steer_bed_direction(bed, 2, 1), 0)};
  steer_bed_set(bed, 0, calls, 2);
  for (int round = 0; round < (env->quick ? 2 : 10); round++) {
    create_batches(bed, stream, batches);
    for (size_t k = 0; k < AHEAD; k++) {
      steer_bed_params(bed, 0, 0, 0, (const float[]){(float)k + 1}, 1);
      steer_bed_params(bed, 0, 0, 1, (const float[]){-(float)k}, 1);
      steer_batch_step(batches[k]);
      steer_batch_apply(batches[k]);
    }
    steer_bed_params(bed, 0, 0, 0, (const float[]){999}, 1);
    check_and_destroy(batches);
  }
  steer_bed_destroy(bed);
  stg_stream_destroy(stg_mem_device(env->engine), stream);
}

/* Two bank rows for ever new vectors: a row comes free when the last step that named it has passed.
 */
static void vectors_replaced_between_steps_never_tear_one_in_flight(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 2);
  stg_stream stream = new_stream(bed);
  struct steer_batch *batches[AHEAD];
  for (int round = 0; round < (env->quick ? 1 : 5); round++) {
    create_batches(bed, stream, batches);
    for (size_t k = 0; k < AHEAD; k++) {
      const stg_op_call call = steer_add(steer_bed_direction(bed, 50 + k, 4), 1);
      steer_bed_set(bed, 0, &call, 1);
      steer_batch_step(batches[k]);
      steer_batch_apply(batches[k]);
    }
    check_and_destroy(batches);
  }
  steer_bed_destroy(bed);
  stg_stream_destroy(stg_mem_device(env->engine), stream);
}

static void row_maps_of_steps_issued_ahead_stay_apart(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 8);
  stg_stream stream = new_stream(bed);
  struct steer_batch *batches[AHEAD];
  for (uint32_t slot = 0; slot < 4; slot++) {
    const stg_op_call call = steer_add(steer_bed_direction(bed, 10 + slot, 3), 1);
    steer_bed_set(bed, slot, &call, 1);
  }
  create_batches(bed, stream, batches);
  for (size_t k = 0; k < AHEAD; k++) {
    for (int64_t r = 0; r < ROWS; r++) {
      batches[k]->row_map[r] = (int32_t)((r + (int64_t)k) % 6) - 2;
    }
    steer_batch_step(batches[k]);
    steer_batch_apply(batches[k]);
  }
  check_and_destroy(batches);
  steer_bed_destroy(bed);
  stg_stream_destroy(stg_mem_device(env->engine), stream);
}

static void frames_on_two_streams_run_side_by_side(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 16);
  stg_stream streams[2];
  stg_frame *frames[2] = {bed->frame, NULL};
  struct steer_batch *batches[2][AHEAD];
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_frame_create(bed->steer, &frames[1], &error), &error);
  for (int i = 0; i < 2; i++) {
    streams[i] = new_stream(bed);
    create_batches(bed, streams[i], batches[i]);
  }
  const stg_vector v = steer_bed_direction(bed, 20, 1);
  for (size_t k = 0; k < AHEAD; k++) {
    for (int i = 0; i < 2; i++) {
      /* the slot changes between the two frames' steps too */
      const stg_op_call calls[] = {steer_add(v, (float)(2 * k) + (float)i),
                                   steer_cap_max(v, (float)k)};
      steer_bed_set(bed, 0, calls, 2);
      batches[i][k]->frame = frames[i];
      steer_batch_step(batches[i][k]);
      steer_batch_apply(batches[i][k]);
    }
  }
  check_and_destroy(batches[0]);
  check_and_destroy(batches[1]);
  stg_frame_destroy(frames[1]);
  steer_bed_destroy(bed);
  stg_stream_destroy(stg_mem_device(env->engine), streams[0]);
  stg_stream_destroy(stg_mem_device(env->engine), streams[1]);
}

static uint64_t rows_touched(const struct steer_bed *bed, stg_stream stream) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_counters(bed->steer, 0, 0, stream, &counters, &error), &error);
  return counters.rows_touched;
}

static void keep_busy(struct stg_device *device, uint64_t memory, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  for (uint32_t k = 0; k < BUSY_FILLS; k++) {
    check_ok(stg_fill_u32(device, memory, k, BUSY_WORDS, stream, &error), &error);
  }
}

/* A slot that is cleared begins anew on the stream of the next step. That stream comes to it late,
 * and rows of another stream wait for it. */
static void a_late_reset_takes_no_counts_of_another_stream(void **state) {
  struct steer_env *env = *state;
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .max_rows = ROWS,
                               .max_slots = 4,
                               .max_vectors = 8,
                               .counters = true};
  struct steer_bed *bed = steer_bed_create(env, &desc);
  struct stg_device *device = stg_mem_device(bed->engine);
  stg_frame *frames[2] = {bed->frame, NULL};
  stg_stream streams[2];
  struct steer_batch *batches[2];
  uint64_t busy = 0;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_frame_create(bed->steer, &frames[1], &error), &error);
  check_ok(stg_device_alloc(device, BUSY_WORDS * sizeof(uint32_t), &busy, &error), &error);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 25, 3), 1);
  for (int i = 0; i < 2; i++) {
    streams[i] = new_stream(bed);
    batches[i] = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
    batches[i]->frame = frames[i];
    batches[i]->stream = streams[i];
    steer_batch_fill(batches[i], 26, 1);
    steer_batch_map(batches[i], 0, ROWS, 0);
    steer_batch_send(batches[i]);
  }
  for (int round = 0; round < (env->quick ? 3 : 20); round++) {
    steer_bed_clear(bed, 0);
    steer_bed_set(bed, 0, &call, 1);
    keep_busy(device, busy, streams[0]);
    steer_batch_step(batches[0]);
    steer_batch_step(batches[1]);
    steer_batch_apply(batches[1]);
    assert_int_equal(ROWS, rows_touched(bed, streams[1]));
    assert_int_equal(ROWS, rows_touched(bed, streams[0]));
  }
  for (int i = 0; i < 2; i++) {
    steer_batch_destroy(batches[i]);
  }
  stg_frame_destroy(frames[1]);
  steer_bed_destroy(bed);
  stg_device_free(device, busy);
  stg_stream_destroy(device, streams[0]);
  stg_stream_destroy(device, streams[1]);
}

static void a_frame_may_move_to_another_stream(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 8);
  stg_stream stream = new_stream(bed);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 30, 3), 1);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 30});
  steer_bed_set(bed, 0, &call, 1);
  steer_batch_fill(batch, 31, 1);
  steer_batch_map(batch, 0, 30, 0);
  const stg_stream all[] = {batch->stream, stream, NULL, stream};
  stg_error error = STG_ERROR_INIT;
  for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
    batch->stream = all[k];
    steer_bed_params(bed, 0, 0, 0, (const float[]){(float)k + 1}, 1);
    steer_batch_expect_ok(batch);
  }
  /* stepped on one stream, applied on another: the host's to order, here by waiting */
  steer_batch_send(batch);
  steer_batch_step(batch);
  check_ok(stg_stream_synchronize(stg_mem_device(bed->engine), stream, &error), &error);
  batch->stream = NULL;
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  stg_stream_destroy(stg_mem_device(env->engine), stream);
}

static void steer_once_with(const struct steer_batch *batch, const stg_chain *chain) {
  const int64_t rows = ROWS;
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(batch),
                         .rows = ROWS,
                         .n_requests = 1,
                         .lengths = &rows,
                         .chains = chain};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_once(batch->bed->steer, &once, batch->stream, &error), &error);
}

/* The calls share one frame, whose map a later call must not overwrite before it has been read. */
static void one_shots_on_different_streams_follow_each_other(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 8);
  struct stg_device *device = stg_mem_device(env->engine);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 35, 3), 1);
  const stg_chain chains[2] = {{.ops = &call, .n_ops = 1}, {0}};
  const stg_stream streams[2] = {new_stream(bed), new_stream(bed)};
  struct steer_batch *batches[AHEAD];
  for (int round = 0; round < (env->quick ? 4 : 20); round++) {
    create_batches(bed, streams[0], batches);
    for (size_t k = 0; k < AHEAD; k++) {
      batches[k]->stream = streams[k % 2];
      batches[k]->chains[0] = steer_bed_chain(bed, &call, 1);
      steer_batch_map(batches[k], 0, ROWS, k % 2 == 0 ? 0 : STG_ROW_UNSTEERED);
    }
    for (size_t k = 0; k < AHEAD; k++) {
      steer_once_with(batches[k], &chains[k % 2]);
    }
    check_and_destroy(batches);
  }
  /* before the table: it must not need the stream of its last one-shot */
  stg_stream_destroy(device, streams[0]);
  stg_stream_destroy(device, streams[1]);
  steer_bed_destroy(bed);
}

/* A host thread that sets slots while another steps and applies. */
struct changer {
  struct steer_bed *bed;
  stg_vector vectors[8];
  atomic_bool stop;
  atomic_int changes;
  stg_status status;
  stg_error error;
};

static void *change_slots(void *user) {
  struct changer *changer = user;
  for (unsigned k = 0; !atomic_load(&changer->stop) && changer->status == STG_OK; k++) {
    const stg_op_call call = steer_add(changer->vectors[k % 8], (float)(k % 5));
    const stg_chain chain = {.ops = &call, .n_ops = 1};
    changer->status =
        stg_steer_slot_set(changer->bed->steer, 1 + k % 3, &chain, 1, &changer->error);
    atomic_fetch_add(&changer->changes, 1);
  }
  return NULL;
}

static void slots_set_by_another_thread_do_not_disturb_this_one(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 16);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 40, 3), 1);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  struct changer changer = {.bed = bed};
  pthread_t thread;
  for (uint64_t k = 0; k < 8; k++) {
    changer.vectors[k] = steer_bed_direction(bed, 60 + k, 1);
  }
  steer_bed_set(bed, 0, &call, 1);
  steer_batch_fill(batch, 41, 1);
  steer_batch_map(batch, 0, ROWS, 0);
  assert_int_equal(0, pthread_create(&thread, NULL, change_slots, &changer));
  /* no assert before the thread is gone: what failed is kept */
  stg_status status = STG_OK;
  stg_error error = STG_ERROR_INIT;
  const stg_step step = {.struct_size = sizeof step, .rows = ROWS, .row_map = batch->row_map};
  const stg_apply apply = steer_batch_args(batch);
  const int rounds = env->quick ? 50 : 500;
  for (int k = 0; k < rounds && status == STG_OK; k++) {
    status =
        stg_mem_upload(bed->engine, batch->on_hidden, batch->hidden, batch->image_bytes, &error);
    if (status == STG_OK) {
      status = stg_steer_step(bed->frame, &step, batch->stream, &error);
    }
    if (status == STG_OK) {
      status = stg_steer_apply(bed->frame, &apply, batch->stream, &error);
    }
  }
  atomic_store(&changer.stop, true);
  pthread_join(thread, NULL);
  check_ok(status, &error);
  check_ok(changer.status, &changer.error);
  assert_true(atomic_load(&changer.changes) > 0);
  steer_batch_note(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_changed_between_steps_never_tear_one_in_flight),
      cmocka_unit_test(vectors_replaced_between_steps_never_tear_one_in_flight),
      cmocka_unit_test(row_maps_of_steps_issued_ahead_stay_apart),
      cmocka_unit_test(frames_on_two_streams_run_side_by_side),
      cmocka_unit_test(a_late_reset_takes_no_counts_of_another_stream),
      cmocka_unit_test(a_frame_may_move_to_another_stream),
      cmocka_unit_test(one_shots_on_different_streams_follow_each_other),
      cmocka_unit_test(slots_set_by_another_thread_do_not_disturb_this_one),
  };
  return cmocka_run_group_tests_name("steer streams", tests, steer_env_cuda, steer_env_close);
}
