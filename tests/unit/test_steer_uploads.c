/*
 * test_steer_uploads.c: what slots bring reaches the device in few copies and in time, on a device
 * of the host that does its work as late as it may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define HIDDEN 8
#define ROWS 48
#define SLOTS 40
#define VECTORS 160

/* A table, and what its slots mean: an `add` of scale and vector each, or nothing. */
struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frames[2];
  stg_stream streams[2];
  stg_vector vectors[VECTORS];
  float scale[SLOTS]; /* 0: not steered */
  uint32_t vector[SLOTS];
};

/* Element j of vector v; all exact in float32, sums too. */
static float element(uint32_t v, uint32_t j) {
  return (float)(v + 1) + (float)j * 256;
}

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void open_bed(struct bed *bed, uint32_t max_vectors) {
  static const char *const ops[] = {"add"};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.launch = STG_LAUNCH_PLAIN;
  options.cache_mode = STG_CACHE_OFF;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = SLOTS,
                               .max_vectors = max_vectors,
                               .ops = ops,
                               .n_ops = 1};
  *bed = (struct bed){0};
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &desc, &bed->steer, &error), &error);
  for (uint32_t v = 0; v < VECTORS; v++) {
    float values[HIDDEN];
    for (uint32_t j = 0; j < HIDDEN; j++) {
      values[j] = element(v, j);
    }
    ok(stg_vector_intern(bed->engine, STG_F32, values, HIDDEN, &bed->vectors[v], &error), &error);
  }
  for (int i = 0; i < 2; i++) {
    ok(stg_frame_create(bed->steer, &bed->frames[i], &error), &error);
    ok(stg_stream_create(stg_mem_device(bed->engine), &bed->streams[i], &error), &error);
  }
  host_device_reset_calls();
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < 2; i++) {
    stg_frame_destroy(bed->frames[i]);
    stg_stream_destroy(stg_mem_device(bed->engine), bed->streams[i]);
  }
  ok(stg_steer_destroy(bed->steer, &error), &error);
  for (uint32_t v = 0; v < VECTORS; v++) {
    ok(stg_vector_release(bed->engine, bed->vectors[v], &error), &error);
  }
  ok(stg_engine_destroy(bed->engine, &error), &error);
  host_device_eager(0);
}

static stg_status try_set(struct bed *bed, uint32_t slot, uint32_t vector, float scale,
                          stg_error *reterr) {
  const stg_op_call call = {
      .op = "add", .vectors = {bed->vectors[vector]}, .params = {scale}, .params_given = 1};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  return stg_steer_slot_set(bed->steer, slot, &chain, 1, reterr);
}

static void set(struct bed *bed, uint32_t slot, uint32_t vector, float scale) {
  stg_error error = STG_ERROR_INIT;
  ok(try_set(bed, slot, vector, scale, &error), &error);
  bed->scale[slot] = scale;
  bed->vector[slot] = vector;
}

/* One step and apply, and what must come out of it. */
struct pass {
  int32_t map[ROWS];
  float hidden[ROWS][HIDDEN], expected[ROWS][HIDDEN];
};

/* Row r of slot (r + turn) % (SLOTS + 1) - 1: every slot, and rows that are not steered. */
static void fill(const struct bed *bed, uint32_t turn, struct pass *pass) {
  for (uint32_t r = 0; r < ROWS; r++) {
    const int32_t slot = (int32_t)((r + turn) % (SLOTS + 1)) - 1;
    pass->map[r] = slot;
    for (uint32_t j = 0; j < HIDDEN; j++) {
      pass->hidden[r][j] = (float)(r * j);
      pass->expected[r][j] = pass->hidden[r][j];
      if (slot >= 0 && bed->scale[slot] != 0) {
        pass->expected[r][j] += bed->scale[slot] * element(bed->vector[slot], j);
      }
    }
  }
}

static stg_status step(struct bed *bed, int frame, const struct pass *pass, bool on_device,
                       stg_error *reterr) {
  const stg_step args = {
      .struct_size = sizeof args, .rows = ROWS, .row_map = pass->map, .on_device = on_device};
  return stg_steer_step(bed->frames[frame], &args, bed->streams[frame], reterr);
}

static void issue(struct bed *bed, int frame, uint32_t turn, bool on_device, struct pass *pass) {
  stg_error error = STG_ERROR_INIT;
  fill(bed, turn, pass);
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = pass->hidden};
  ok(step(bed, frame, pass, on_device, &error), &error);
  ok(stg_steer_apply(bed->frames[frame], &apply, bed->streams[frame], &error), &error);
}

static void check(const struct pass *pass, size_t number) {
  for (size_t at = 0; at < (size_t)ROWS * HIDDEN; at++) {
    const size_t r = at / HIDDEN, j = at % HIDDEN;
    if (pass->hidden[r][j] != pass->expected[r][j]) {
      fail_msg("pass %zu, row %zu of slot %d, element %zu: %g, not %g", number, r, pass->map[r], j,
               (double)pass->hidden[r][j], (double)pass->expected[r][j]);
    }
  }
}

static void wait_and_check(struct bed *bed, const struct pass *passes, size_t n) {
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < 2; i++) {
    ok(stg_stream_synchronize(stg_mem_device(bed->engine), bed->streams[i], &error), &error);
  }
  for (size_t k = 0; k < n; k++) {
    check(&passes[k], k);
  }
}

/* Copies of a step's own: the map. */
#define MAP 1

static void setting_slots_calls_no_driver_and_a_step_sends_all_in_two_copies(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed, VECTORS);
  for (uint32_t slot = 0; slot < 32; slot++) {
    set(&bed, slot, slot, 2);
  }
  assert_int_equal(0, host_device_calls().all);
  issue(&bed, 0, 0, false, &pass);
  /* new vectors, and records */
  assert_int_equal(2 + MAP, host_device_calls().copies);
  assert_int_equal(1, host_device_calls().event_waits);
  assert_int_equal(1, host_device_calls().launches);
  wait_and_check(&bed, &pass, 1);
  /* nothing new */
  host_device_reset_calls();
  issue(&bed, 0, 3, false, &pass);
  assert_int_equal(MAP, host_device_calls().copies);
  assert_int_equal(0, host_device_calls().event_waits);
  wait_and_check(&bed, &pass, 1);
  /* known vectors: records alone */
  for (uint32_t slot = 0; slot < 32; slot++) {
    set(&bed, slot, 31 - slot, -3);
  }
  host_device_reset_calls();
  issue(&bed, 0, 5, false, &pass);
  assert_int_equal(1 + MAP, host_device_calls().copies);
  wait_and_check(&bed, &pass, 1);
  close_bed(&bed);
}

/* The steady state: all requests leave and others come. Around the end of a table it is one more.
 */
static void batches_that_follow_each_other_stay_few_copies(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed, VECTORS);
  for (uint32_t k = 0; k < 50; k++) {
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      set(&bed, slot, (k % 2 * SLOTS + slot) % VECTORS, (float)k + 1);
    }
    host_device_reset_calls();
    issue(&bed, 0, k, false, &pass);
    assert_true(host_device_calls().copies <= 4 + MAP);
    wait_and_check(&bed, &pass, 1);
  }
  close_bed(&bed);
}

static void a_record_that_no_step_saw_is_never_sent(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed, 2);
  for (uint32_t k = 0; k < 1000; k++) {
    set(&bed, 7, k % VECTORS, (float)k);
  }
  assert_int_equal(0, host_device_calls().all);
  issue(&bed, 1, 0, false, &pass);
  assert_int_equal(2 + MAP, host_device_calls().copies);
  assert_true(host_device_calls().copied_bytes < 2048);
  wait_and_check(&bed, &pass, 1);
  close_bed(&bed);
}

static void a_one_shot_sends_its_chains_together(void **state) {
  (void)state;
  struct bed bed;
  stg_op_call ops[32];
  stg_chain chains[32];
  int64_t lengths[32];
  float hidden[32][HIDDEN] = {{0}};
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed, VECTORS);
  for (uint32_t k = 0; k < 32; k++) {
    ops[k] = (stg_op_call){
        .op = "add", .vectors = {bed.vectors[k]}, .params = {(float)k}, .params_given = 1};
    chains[k] = (stg_chain){.ops = &ops[k], .n_ops = 1};
    lengths[k] = 1;
  }
  const stg_once once = {.struct_size = sizeof once,
                         .apply = {.struct_size = sizeof once.apply, .hidden = hidden},
                         .rows = 32,
                         .n_requests = 32,
                         .lengths = lengths,
                         .chains = chains};
  host_device_reset_calls();
  ok(stg_steer_once(bed.steer, &once, bed.streams[0], &error), &error);
  assert_int_equal(2 + MAP, host_device_calls().copies);
  ok(stg_stream_synchronize(stg_mem_device(bed.engine), bed.streams[0], &error), &error);
  for (uint32_t k = 0; k < 32; k++) {
    assert_true(hidden[k][3] == (float)k * element(k, 3));
  }
  close_bed(&bed);
}

/* No more rows and rooms than what slots and two frames can name at once, so that they are used
 * again as soon as they may. */
enum { USED_SLOTS = (2 * SLOTS + 1) / 4, NAMED = 3 * USED_SLOTS + 1 };

static uint32_t draw(uint32_t *random) {
  *random = *random * 1664525U + 1013904223U;
  return *random >> 8;
}

/* A new chain, another scale, or nothing any more. */
static void change_a_slot(struct bed *bed, uint32_t *random) {
  const uint32_t slot = draw(random) % USED_SLOTS, what = draw(random) % 8;
  const float scale = (float)(1 + draw(random) % 7);
  stg_error error = STG_ERROR_INIT;
  if (what == 0) {
    ok(stg_steer_slot_clear(bed->steer, slot, &error), &error);
    bed->scale[slot] = 0;
  } else if (what == 1 && bed->scale[slot] != 0) {
    ok(stg_steer_set_params(bed->steer, slot, 0, 0, &scale, 1, &error), &error);
    bed->scale[slot] = scale;
  } else {
    set(bed, slot, draw(random) % VECTORS, scale);
  }
}

/* Slots change between steps that two streams have not begun: each pass gets what its slots meant
 * when it was issued. */
static void steps_ahead_on_two_streams_get_what_their_slots_meant(void **state) {
  (void)state;
  enum { PASSES = 12, CHANGES = 30 };
  static struct pass passes[PASSES];
  for (uint32_t seed = 0; seed < 60; seed++) {
    struct bed bed;
    uint32_t random = seed + 1;
    open_bed(&bed, NAMED);
    host_device_eager(seed); /* 0: as late as possible */
    for (uint32_t k = 0; k < PASSES * CHANGES; k++) {
      change_a_slot(&bed, &random);
      if (k % CHANGES == 0) {
        struct pass *pass = &passes[k / CHANGES];
        const int frame = (int)(draw(&random) % 2);
        issue(&bed, frame, draw(&random), draw(&random) % 3 == 0, pass);
      }
    }
    wait_and_check(&bed, passes, PASSES);
    close_bed(&bed);
  }
}

/* A table of many layers and wide rows, with a vector of its own for each layer of a slot. */
#define LAYERS 32

struct wide {
  struct bed bed; /* the engine and its streams */
  stg_steer *steer;
  stg_frame *frame;
  uint32_t width, slots;
  stg_vector vectors[4][LAYERS];
};

static void open_wide(struct wide *wide, uint32_t width, uint32_t slots) {
  stg_error error = STG_ERROR_INIT;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = width,
                               .layers = LAYERS,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = slots};
  float *values = stg_calloc(width, sizeof *values);
  assert_non_null(values);
  open_bed(&wide->bed, 0);
  wide->width = width;
  wide->slots = slots;
  ok(stg_steer_create(wide->bed.engine, &desc, &wide->steer, &error), &error);
  ok(stg_frame_create(wide->steer, &wide->frame, &error), &error);
  for (uint32_t v = 0; v < slots * LAYERS; v++) {
    for (uint32_t j = 0; j < width; j++) {
      values[j] = element(v, j);
    }
    ok(stg_vector_intern(wide->bed.engine, STG_F32, values, width,
                         &wide->vectors[v / LAYERS][v % LAYERS], &error),
       &error);
  }
  stg_free(values);
  host_device_reset_calls();
}

static void close_wide(struct wide *wide) {
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(wide->frame);
  ok(stg_steer_destroy(wide->steer, &error), &error);
  for (uint32_t v = 0; v < wide->slots * LAYERS; v++) {
    ok(stg_vector_release(wide->bed.engine, wide->vectors[v / LAYERS][v % LAYERS], &error), &error);
  }
  close_bed(&wide->bed);
}

static void set_wide(struct wide *wide, uint32_t slot) {
  stg_error error = STG_ERROR_INIT;
  stg_op_call calls[LAYERS];
  stg_chain chains[LAYERS];
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    calls[layer] = (stg_op_call){.op = "add", .vectors = {wide->vectors[slot][layer]}};
    chains[layer] = (stg_chain){.layer = layer, .ops = &calls[layer], .n_ops = 1};
  }
  ok(stg_steer_slot_set(wide->steer, slot, chains, LAYERS, &error), &error);
}

/* One row of each slot, steered at every layer in turn. */
static void pass_wide(struct wide *wide) {
  stg_error error = STG_ERROR_INIT;
  const int32_t map[4] = {0, 1, 2, 3};
  const stg_step step = {.struct_size = sizeof step, .row_map = map, .rows = wide->slots};
  const size_t n = (size_t)wide->slots * wide->width;
  float *hidden = stg_calloc(n, sizeof *hidden);
  assert_non_null(hidden);
  ok(stg_steer_step(wide->frame, &step, wide->bed.streams[0], &error), &error);
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    const stg_apply apply = {.struct_size = sizeof apply, .layer = layer, .hidden = hidden};
    ok(stg_steer_apply(wide->frame, &apply, wide->bed.streams[0], &error), &error);
  }
  ok(stg_stream_synchronize(stg_mem_device(wide->bed.engine), wide->bed.streams[0], &error),
     &error);
  for (size_t at = 0; at < n; at++) {
    const uint32_t slot = (uint32_t)(at / wide->width), j = (uint32_t)(at % wide->width);
    float sum = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
      sum += element(slot * LAYERS + layer, j);
    }
    assert_true(sum == hidden[at]);
  }
  stg_free(hidden);
}

/* However few slots there are, each may bring a vector for each of its layers. */
static void a_slot_of_many_layers_is_sent_in_two_copies(void **state) {
  (void)state;
  struct wide wide;
  open_wide(&wide, 1024, 1);
  set_wide(&wide, 0);
  assert_int_equal(0, host_device_calls().copies);
  pass_wide(&wide);
  assert_int_equal(2 + MAP, host_device_calls().copies);
  close_wide(&wide);
}

/* Half a megabyte of vectors a slot. */
static void more_than_a_buffer_holds_goes_out_while_slots_are_set(void **state) {
  (void)state;
  struct wide wide;
  open_wide(&wide, 4096, 4);
  set_wide(&wide, 0);
  assert_int_equal(0, host_device_calls().copies);
  for (uint32_t slot = 1; slot < 4; slot++) {
    set_wide(&wide, slot);
  }
  const size_t before = host_device_calls().copies;
  assert_true(before >= 3 && before <= 9);
  pass_wide(&wide);
  assert_true(host_device_calls().copies <= before + 3 + MAP);
  close_wide(&wide);
}

/* A step whose copy fails leaves everything to be sent again. */
static void a_copy_that_fails_is_made_up_for_by_the_next_step(void **state) {
  (void)state;
  for (size_t nth = 1; nth <= 3; nth++) {
    struct bed bed;
    struct pass pass;
    stg_error error = STG_ERROR_INIT;
    open_bed(&bed, VECTORS);
    for (uint32_t slot = 0; slot < 20; slot++) {
      set(&bed, slot, slot, 5);
    }
    fill(&bed, 1, &pass);
    host_device_fail_copies(nth);
    assert_int_equal(STG_E_CUDA, step(&bed, 0, &pass, false, &error));
    assert_string_equal("cuMemcpyHtoDAsync failed: a test said so", error.message);
    host_device_fail_copies(0);
    set(&bed, 3, 50, 1);
    host_device_reset_calls();
    issue(&bed, 1, 2, false, &pass);
    /* all again, with a gap where slot 3 was; after the map failed, only what is new */
    assert_int_equal(nth < 3 ? 4 + MAP : 2 + MAP, host_device_calls().copies);
    wait_and_check(&bed, &pass, 1);
    issue(&bed, 0, 4, false, &pass);
    wait_and_check(&bed, &pass, 1);
    close_bed(&bed);
  }
}

static void a_lost_device_is_said_by_the_slot_already(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed, VECTORS);
  set(&bed, 0, 0, 1);
  issue(&bed, 0, 0, false, &pass);
  wait_and_check(&bed, &pass, 1);
  host_device_lose(true);
  assert_int_equal(STG_E_DEVICE_LOST, try_set(&bed, 0, 1, 1, &error));
  assert_string_equal("slot 0: device 0 is lost", error.message);
  host_device_lose(false);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(setting_slots_calls_no_driver_and_a_step_sends_all_in_two_copies),
      cmocka_unit_test(batches_that_follow_each_other_stay_few_copies),
      cmocka_unit_test(a_record_that_no_step_saw_is_never_sent),
      cmocka_unit_test(a_one_shot_sends_its_chains_together),
      cmocka_unit_test(steps_ahead_on_two_streams_get_what_their_slots_meant),
      cmocka_unit_test(a_slot_of_many_layers_is_sent_in_two_copies),
      cmocka_unit_test(more_than_a_buffer_holds_goes_out_while_slots_are_set),
      cmocka_unit_test(a_copy_that_fails_is_made_up_for_by_the_next_step),
      cmocka_unit_test(a_lost_device_is_said_by_the_slot_already),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
