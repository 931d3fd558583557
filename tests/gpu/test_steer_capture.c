/*
 * test_steer_capture.c: apply inside a host's capture, in the strictest mode, and its replays.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 1024
#define SLOTS 8

/* A table, and a stream of the host's: captures are never of the engine's own. */
struct fixture {
  struct steer_bed *bed;
  struct stg_device *device;
  stg_stream stream;
};

static void open_fixture(void **state, uint32_t max_rows, struct fixture *ret) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .layers = 3,
                               .dtype = STG_BF16,
                               .max_rows = max_rows,
                               .max_slots = SLOTS};
  stg_error error = STG_ERROR_INIT;
  ret->bed = steer_bed_create(*state, &desc);
  ret->device = stg_mem_device(ret->bed->engine);
  check_ok(stg_stream_create(ret->device, &ret->stream, &error), &error);
}

static void close_fixture(struct fixture *f) {
  steer_bed_destroy(f->bed);
  stg_stream_destroy(f->device, f->stream);
}

/* Rows in runs over the slots; slot 7 is never set. */
static struct steer_batch *batch_of(struct fixture *f, int64_t rows, bool out_of_place) {
  struct steer_batch *batch = steer_batch_create(
      f->bed, &(struct steer_layout){.rows = rows, .out_of_place = out_of_place});
  batch->stream = f->stream;
  steer_batch_fill(batch, 101, 1);
  for (int64_t r = 0; r < rows; r++) {
    batch->row_map[r] = (int32_t)(r / 5 % SLOTS);
  }
  return batch;
}

static void set_slots(struct steer_bed *bed) {
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, 100 + slot, 1);
    const stg_op_call calls[] = {steer_add(v, (float)slot - 2), steer_cap_max(v, 1.5F)};
    steer_bed_set(bed, slot, calls, 1 + slot % 2);
  }
}

static void begin(const struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_capture_begin(f->device, f->stream, &error), &error);
}

static struct stg_graph *end(const struct fixture *f, size_t expected_nodes) {
  struct stg_graph *graph = NULL;
  size_t nodes = 99;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_capture_end(f->device, f->stream, &graph, &nodes, &error), &error);
  assert_int_equal(nodes, expected_nodes);
  return graph;
}

/* Step, capture one apply. */
static struct stg_graph *captured(const struct fixture *f, struct steer_batch *batch) {
  steer_batch_step(batch);
  begin(f);
  steer_batch_apply(batch);
  return end(f, 1);
}

/* What steer_batch_expect_ok does, with a replay instead of the apply. */
static void expect_replay_ok(struct steer_batch *batch, struct stg_graph *graph) {
  stg_error error = STG_ERROR_INIT;
  struct stg_device *device = stg_mem_device(batch->bed->engine);
  steer_batch_send(batch);
  steer_batch_step(batch);
  check_ok(stg_graph_launch(device, graph, batch->stream, &error), &error);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
}

static void apply_adds_one_kernel_node_and_runs_nothing(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  set_slots(f.bed);
  for (int out_of_place = 0; out_of_place < 2; out_of_place++) {
    struct steer_batch *batch = batch_of(&f, 40, out_of_place != 0);
    steer_batch_send(batch);
    struct stg_graph *graph = captured(&f, batch);
    steer_batch_fetch(batch);
    const unsigned char *sent = batch->out != NULL ? batch->out : batch->hidden;
    assert_memory_equal(sent, batch->result, batch->image_bytes);
    expect_replay_ok(batch, graph);
    assert_false(steer_batch_unchanged(batch, 0));
    assert_true(steer_batch_unchanged(batch, 35)); /* slot 7 */
    stg_graph_destroy(f.device, graph);
    steer_batch_destroy(batch);
  }
  close_fixture(&f);
}

static void apply_in_a_capture_allocates_nothing(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 40, false);
  const stg_apply apply = steer_batch_args(batch);
  stg_error error = STG_ERROR_INIT;
  steer_batch_step(batch);
  begin(&f);
  stg_alloc_fail_at(1);
  stg_status status = stg_steer_apply(batch->frame, &apply, batch->stream, &error);
  stg_alloc_fail_at(0);
  struct stg_graph *graph = end(&f, 1);
  expect_status(STG_OK, status, &error);
  expect_replay_ok(batch, graph);
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void a_step_in_a_capture_is_refused_and_the_capture_stays_valid(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 40, false);
  const stg_step step = {.struct_size = sizeof step, .rows = 40, .row_map = batch->row_map};
  stg_error error = STG_ERROR_INIT;
  steer_batch_step(batch);
  begin(&f);
  stg_status status = stg_steer_step(batch->frame, &step, batch->stream, &error);
  steer_batch_apply(batch);
  struct stg_graph *graph = end(&f, 1);
  expect_error(STG_E_CAPTURING, "the stream is capturing", status, &error);
  expect_replay_ok(batch, graph);
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void what_apply_refuses_adds_no_node(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  struct steer_batch *batch = batch_of(&f, 40, false);
  stg_apply apply = steer_batch_args(batch);
  stg_error error = STG_ERROR_INIT;
  begin(&f);
  stg_status no_step = stg_steer_apply(batch->frame, &apply, batch->stream, &error);
  struct stg_graph *graph = end(&f, 0);
  expect_error(STG_E_INVALID, "has had no step", no_step, &error);
  stg_graph_destroy(f.device, graph);
  steer_batch_step(batch);
  apply.layer = 3;
  begin(&f);
  stg_status no_layer = stg_steer_apply(batch->frame, &apply, batch->stream, &error);
  graph = end(&f, 0);
  expect_error(STG_E_INVALID, "layer 3", no_layer, &error);
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void slots_may_be_set_while_a_stream_is_capturing(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 40, false);
  steer_batch_step(batch);
  begin(&f);
  const stg_op_call call = steer_ablate(steer_bed_direction(f.bed, 777, 1), -1);
  steer_bed_set(f.bed, 0, &call, 1);
  steer_bed_clear(f.bed, 1);
  steer_batch_apply(batch);
  struct stg_graph *graph = end(&f, 1);
  expect_replay_ok(batch, graph);
  assert_true(steer_batch_unchanged(batch, 5));
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void replays_follow_slots_that_change_between_them(void **state) {
  struct steer_env *env = *state;
  struct fixture f;
  open_fixture(state, 64, &f);
  stg_vector vectors[10];
  for (uint64_t k = 0; k < 10; k++) {
    vectors[k] = steer_bed_direction(f.bed, 200 + k, 1);
  }
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 50, false);
  struct stg_graph *graph = captured(&f, batch);
  for (uint32_t k = 0; k < (env->quick ? 20U : 100U); k++) {
    /* a new chain, a new parameter, an empty slot, in turn */
    const stg_op_call calls[] = {steer_ablate(vectors[k % 10], (float)(k % 5) - 1),
                                 steer_keep_norm(vectors[(k + 3) % 10], (float)(k % 7)),
                                 steer_scale(1.25F)};
    if (k % 4 == 3) {
      steer_bed_clear(f.bed, k % SLOTS);
    } else if (k % 4 == 2) {
      steer_bed_set(f.bed, k % SLOTS, calls, 1 + k % 3);
      steer_bed_params(f.bed, k % SLOTS, 0, 0, (const float[]){(float)k * 0.1F}, 1);
    } else {
      steer_bed_set(f.bed, k % SLOTS, calls, 1 + k % 3);
    }
    batch->row_map[k % 50] = (int32_t)(k % 3) - 1;
    expect_replay_ok(batch, graph);
  }
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void a_map_that_was_unsteered_at_capture_is_filled_later(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  struct steer_batch *batch = batch_of(&f, 48, false);
  steer_batch_map(batch, 0, 48, STG_ROW_UNSTEERED);
  struct stg_graph *graph = captured(&f, batch);
  expect_replay_ok(batch, graph);
  set_slots(f.bed);
  steer_batch_map(batch, 0, 48, 1);
  expect_replay_ok(batch, graph);
  for (int64_t r = 0; r < 48; r++) {
    assert_false(steer_batch_unchanged(batch, r));
  }
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

/* One capture of a bucket serves fewer rows: those after the last are not touched. */
static void a_captured_bucket_serves_fewer_rows(void **state) {
  struct fixture f;
  open_fixture(state, 192, &f);
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 192, false);
  struct stg_graph *graph = captured(&f, batch);
  static const int64_t sizes[] = {192, 144, 1, 0, 191, 192};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    batch->layout.rows = sizes[k];
    batch->layout.spare_rows = 192 - sizes[k];
    expect_replay_ok(batch, graph);
  }
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

/* Above 256 rows a capture takes the prefill tile; the bucket, 512, is larger than the tensor. */
static void a_capture_of_many_rows_stays_within_the_tensor(void **state) {
  struct fixture f;
  open_fixture(state, 300, &f);
  set_slots(f.bed);
  struct steer_batch *batch = batch_of(&f, 300, false);
  struct stg_graph *graph = captured(&f, batch);
  expect_replay_ok(batch, graph);
  /* the same bits as outside of a capture, whatever the tile there */
  unsigned char *replayed = malloc(batch->image_bytes);
  assert_non_null(replayed);
  memcpy(replayed, batch->result, batch->image_bytes);
  for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
    steer_batch_run(batch);
    assert_memory_equal(replayed, batch->result, batch->image_bytes);
  }
  free(replayed);
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void all_layers_of_a_pass_are_captured_together(void **state) {
  struct fixture f;
  open_fixture(state, 64, &f);
  const stg_vector v = steer_bed_direction(f.bed, 301, 1);
  const stg_op_call calls[] = {steer_add(v, 2), steer_ablate(v, 3), steer_add(v, -1)};
  struct steer_batch *batches[3];
  steer_bed_set_layers(f.bed, 0,
                       (const stg_chain[]){{.layer = 0, .ops = calls, .n_ops = 1},
                                           {.layer = 1, .ops = calls, .n_ops = 2},
                                           {.layer = 2, .ops = calls, .n_ops = 3}},
                       3);
  for (uint32_t layer = 0; layer < 3; layer++) {
    batches[layer] = batch_of(&f, 20, layer == 1);
    batches[layer]->layer = layer;
    steer_batch_map(batches[layer], 0, 20, 0);
    steer_batch_send(batches[layer]);
    steer_batch_step(batches[layer]);
  }
  begin(&f);
  for (uint32_t layer = 0; layer < 3; layer++) {
    steer_batch_apply(batches[layer]);
  }
  struct stg_graph *graph = end(&f, 3);
  expect_replay_ok(batches[0], graph);
  for (uint32_t layer = 1; layer < 3; layer++) {
    steer_batch_fetch(batches[layer]);
    steer_batch_check(batches[layer]);
  }
  stg_graph_destroy(f.device, graph);
  for (uint32_t layer = 0; layer < 3; layer++) {
    steer_batch_destroy(batches[layer]);
  }
  close_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(apply_adds_one_kernel_node_and_runs_nothing),
      cmocka_unit_test(apply_in_a_capture_allocates_nothing),
      cmocka_unit_test(a_step_in_a_capture_is_refused_and_the_capture_stays_valid),
      cmocka_unit_test(what_apply_refuses_adds_no_node),
      cmocka_unit_test(slots_may_be_set_while_a_stream_is_capturing),
      cmocka_unit_test(replays_follow_slots_that_change_between_them),
      cmocka_unit_test(a_map_that_was_unsteered_at_capture_is_filled_later),
      cmocka_unit_test(a_captured_bucket_serves_fewer_rows),
      cmocka_unit_test(a_capture_of_many_rows_stays_within_the_tensor),
      cmocka_unit_test(all_layers_of_a_pass_are_captured_together),
  };
  return cmocka_run_group_tests_name("steer capture", tests, steer_env_cuda, steer_env_close);
}
