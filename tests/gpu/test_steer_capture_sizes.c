/*
 * test_steer_capture_sizes.c: captures of several row buckets that share a frame, as a serving
 * engine has them: replayed in any order, each after a step of as many rows as it has or fewer.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"

#define HIDDEN 1024
#define SLOTS 8
#define MOST 512

static const int64_t buckets[] = {1, 8, 64, 256, MOST};
#define BUCKETS (sizeof buckets / sizeof buckets[0])

/* A table, its frame, tensors of the largest size, and a graph per size. */
struct fixture {
  struct steer_bed *bed;
  struct stg_device *device;
  stg_stream stream;
  struct steer_batch *batch;
  struct stg_graph *graphs[BUCKETS];
  struct steer_draws draws;
};

/* The rows of the next step; those after them are spare. */
static void set_rows(struct fixture *f, int64_t rows) {
  f->batch->layout.rows = rows;
  f->batch->layout.spare_rows = MOST - rows;
}

static void set_slot(struct fixture *f, uint32_t slot) {
  const stg_vector v = f->bed->vectors[steer_draw_below(&f->draws, 8)].id;
  const stg_vector w = f->bed->vectors[steer_draw_below(&f->draws, 8)].id;
  const stg_op_call calls[] = {steer_add(v, steer_draw_range(&f->draws, -3, 3)),
                               steer_cap_max(w, 1.5F), steer_ablate(v, 0)};
  steer_bed_set(f->bed, slot, calls, 1 + steer_draw_below(&f->draws, 3));
}

static void open_fixture(void **state, bool out_of_place, struct fixture *f) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = MOST, .max_slots = SLOTS};
  stg_error error = STG_ERROR_INIT;
  *f = (struct fixture){.bed = steer_bed_create(*state, &desc), .draws = {.seed = 77}};
  f->device = stg_mem_device(f->bed->engine);
  check_ok(stg_stream_create(f->device, &f->stream, &error), &error);
  for (uint64_t k = 0; k < 8; k++) {
    steer_bed_direction(f->bed, 800 + k, 1);
  }
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) {
    set_slot(f, slot);
  }
  f->batch = steer_batch_create(f->bed,
                                &(struct steer_layout){.rows = MOST, .out_of_place = out_of_place});
  f->batch->stream = f->stream;
  steer_batch_fill(f->batch, 801, 1);
}

static void close_fixture(struct fixture *f) {
  for (size_t b = 0; b < BUCKETS; b++) {
    stg_graph_destroy(f->device, f->graphs[b]);
  }
  steer_batch_destroy(f->batch);
  steer_bed_destroy(f->bed);
  stg_stream_destroy(f->device, f->stream);
}

static void capture_bucket(struct fixture *f, size_t b) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  size_t nodes = 99;
  set_rows(f, buckets[b]);
  steer_batch_step(f->batch);
  check_ok(stg_frame_plan(f->batch->frame, &info, &error), &error);
  assert_int_equal(buckets[b], info.row_bucket);
  check_ok(stg_capture_begin(f->device, f->stream, &error), &error);
  steer_batch_apply(f->batch);
  check_ok(stg_capture_end(f->device, f->stream, &f->graphs[b], &nodes, &error), &error);
  assert_int_equal(1, nodes);
}

/* Slots in runs of any length, rows that are not steered, and padding. */
static void draw_map(struct fixture *f, int64_t rows) {
  int64_t at = 0;
  while (at < rows) {
    const int64_t run = 1 + steer_draw_below(&f->draws, 40);
    const int64_t until = at + run < rows ? at + run : rows;
    steer_batch_map(f->batch, at, until, (int32_t)steer_draw_below(&f->draws, SLOTS + 2) - 2);
    at = until;
  }
}

static void step_and_replay(struct fixture *f, size_t b) {
  stg_error error = STG_ERROR_INIT;
  const int64_t rows = steer_draw_below(&f->draws, (uint32_t)buckets[b] + 1);
  set_rows(f, rows);
  draw_map(f, rows);
  steer_batch_send(f->batch);
  steer_batch_step(f->batch);
  check_ok(stg_graph_launch(f->device, f->graphs[b], f->stream, &error), &error);
  steer_batch_fetch(f->batch);
  steer_batch_check(f->batch);
}

static void captured_sizes_share_a_frame(void **state) {
  const struct steer_env *env = *state;
  for (int out_of_place = 0; out_of_place < 2; out_of_place++) {
    struct fixture f;
    open_fixture(state, out_of_place != 0, &f);
    /* the largest in the middle: padding up to the highest row must not depend on the order */
    static const size_t order[BUCKETS] = {1, 4, 0, 3, 2};
    for (size_t k = 0; k < BUCKETS; k++) {
      capture_bucket(&f, order[k]);
    }
    for (int round = 0; round < (env->quick ? 15 : 100); round++) {
      if (round % 4 == 3) {
        set_slot(&f, steer_draw_below(&f.draws, SLOTS));
      }
      step_and_replay(&f, steer_draw_below(&f.draws, BUCKETS));
    }
    close_fixture(&f);
  }
}

/* A graph of a size replays what a step of another size left, as far as it reaches. */
static void a_smaller_graph_leaves_the_rows_beyond_it(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(state, false, &f);
  const stg_op_call call = steer_add(f.bed->vectors[0].id, 3);
  steer_bed_set(f.bed, 0, &call, 1);
  for (size_t b = 0; b < BUCKETS; b++) {
    capture_bucket(&f, b);
  }
  set_rows(&f, MOST);
  steer_batch_map(f.batch, 0, MOST, 0);
  for (size_t b = 0; b < BUCKETS; b++) {
    steer_batch_send(f.batch);
    steer_batch_step(f.batch);
    check_ok(stg_graph_launch(f.device, f.graphs[b], f.stream, &error), &error);
    steer_batch_fetch(f.batch);
    for (int64_t r = 0; r < MOST; r++) {
      assert_int_equal(r >= buckets[b], steer_batch_unchanged(f.batch, r));
    }
  }
  close_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(captured_sizes_share_a_frame),
      cmocka_unit_test(a_smaller_graph_leaves_the_rows_beyond_it),
  };
  return cmocka_run_group_tests_name("steer capture sizes", tests, steer_env_cuda, steer_env_close);
}
