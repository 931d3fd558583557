/*
 * test_usage.c: rows, padding, launches and bytes as the engine counts them, on the CPU and on a
 * device of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/steergraph.h>

#include "codegen/steer.h"
#include "engine/hostmem.h"
#include "engine/usage.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define HIDDEN 8
#define LAYERS 3

/* Slot 0 has chains at layer 0 alone, slot 1 at every layer, slot 2 has none. */
struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  stg_stream stream;
  stg_vector vector;
  stg_steer_desc desc;
};

/* 9 live rows, of them 3 of slot 0 and 2 of slot 1, and 2 of padding: 7 runs of equal entries. */
static const int32_t row_map[] = {0, 0, 1, 1, -1, -1, -2, -2, 2, -1, 0};
#define ROWS ((int64_t)(sizeof row_map / sizeof row_map[0]))

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static stg_stats stats_of(const struct bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->engine, &stats);
  return stats;
}

static void set(struct bed *bed, uint32_t slot, size_t layers) {
  stg_error error = STG_ERROR_INIT;
  const stg_op_call call = {
      .op = "add", .vectors = {bed->vector}, .params = {2}, .params_given = 1};
  stg_chain chains[LAYERS];
  for (uint32_t layer = 0; layer < layers; layer++) {
    chains[layer] = (stg_chain){.layer = layer, .ops = &call, .n_ops = 1};
  }
  ok(stg_steer_slot_set(bed->steer, slot, chains, layers, &error), &error);
}

static stg_steer_desc describe(bool all_ops) {
  static const char *const ops[] = {"add"};
  return (stg_steer_desc){.struct_size = sizeof(stg_steer_desc),
                          .hidden_size = HIDDEN,
                          .layers = LAYERS,
                          .dtype = STG_F32,
                          .max_rows = 64,
                          .max_slots = 3,
                          .ops = all_ops ? NULL : ops,
                          .n_ops = all_ops ? 0 : 1};
}

static void open_described(struct bed *bed, stg_backend backend, const stg_steer_desc *desc) {
  static const float values[HIDDEN] = {1};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = backend;
  options.launch = STG_LAUNCH_PLAIN;
  options.cache_mode = STG_CACHE_OFF;
  *bed = (struct bed){.desc = *desc};
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &bed->desc, &bed->steer, &error), &error);
  ok(stg_frame_create(bed->steer, &bed->frame, &error), &error);
  ok(stg_vector_intern(bed->engine, STG_F32, values, HIDDEN, &bed->vector, &error), &error);
  if (backend == STG_BACKEND_CUDA) {
    ok(stg_stream_create(stg_mem_device(bed->engine), &bed->stream, &error), &error);
  }
  set(bed, 0, 1);
  set(bed, 1, LAYERS);
}

static void open_bed(struct bed *bed, stg_backend backend, bool all_ops) {
  const stg_steer_desc desc = describe(all_ops);
  open_described(bed, backend, &desc);
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(bed->frame);
  if (bed->stream != NULL) {
    stg_stream_destroy(stg_mem_device(bed->engine), bed->stream);
  }
  ok(stg_steer_destroy(bed->steer, &error), &error);
  ok(stg_vector_release(bed->engine, bed->vector, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

static void step(struct bed *bed, const stg_step *step) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(bed->frame, step, bed->stream, &error), &error);
}

static void apply(struct bed *bed, uint32_t layer) {
  static float hidden[64][HIDDEN];
  stg_error error = STG_ERROR_INIT;
  const stg_apply apply = {.struct_size = sizeof apply, .layer = layer, .hidden = hidden};
  ok(stg_steer_apply(bed->frame, &apply, bed->stream, &error), &error);
}

static const stg_step usual = {.struct_size = sizeof usual, .rows = ROWS, .row_map = row_map};

static void expect_rows(const struct bed *bed, uint64_t steered, uint64_t untouched) {
  const stg_stats stats = stats_of(bed);
  assert_int_equal(steered, stats.rows_steered);
  assert_int_equal(untouched, stats.rows_untouched);
  assert_int_equal(0, stats.rows_unseen);
}

static void check_rows(stg_backend backend) {
  struct bed bed;
  open_bed(&bed, backend, true);
  step(&bed, &usual);
  expect_rows(&bed, 0, 0);
  apply(&bed, 0);
  expect_rows(&bed, 5, 4);
  apply(&bed, 1);
  expect_rows(&bed, 5 + 2, 4 + 7);
  apply(&bed, 1);
  expect_rows(&bed, 7 + 2, 11 + 7);
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_slot_clear(bed.steer, 1, &error), &error);
  apply(&bed, 2); /* the step was issued before */
  expect_rows(&bed, 9 + 2, 18 + 7);
  step(&bed, &usual);
  apply(&bed, 2);
  expect_rows(&bed, 11, 25 + 9);
  apply(&bed, 0);
  expect_rows(&bed, 11 + 3, 34 + 6);
  step(&bed, &(stg_step){.struct_size = sizeof(stg_step)});
  apply(&bed, 0);
  expect_rows(&bed, 14, 40);
  close_bed(&bed);
}

static void rows_with_and_without_a_chain_are_counted_by_layer(void **state) {
  (void)state;
  check_rows(STG_BACKEND_CPU);
  check_rows(STG_BACKEND_CUDA);
}

/* Slot 0 acts on what is generated alone, of a prompt of 4 rows: not on its first row here. */
static void check_windowed_rows(stg_backend backend) {
  static const int32_t positions[] = {3, 4, 3, 4, 3, 3, 9, 9, 3, 3, 5};
  static const int32_t prompt_lens[] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  const stg_window window = {.struct_size = sizeof window, .phase = STG_PHASE_GENERATION};
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer_desc desc = describe(false);
  desc.windows = true;
  host_device_windows(true);
  open_described(&bed, backend, &desc);
  const stg_op_call call = {.op = "add", .vectors = {bed.vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set_windowed(bed.steer, 0, &chain, 1, &window, &error), &error);
  stg_step windowed = usual;
  windowed.positions = positions;
  windowed.prompt_lens = prompt_lens;
  step(&bed, &windowed);
  apply(&bed, 0);
  expect_rows(&bed, 2 + 2, 5);
  apply(&bed, 1);
  expect_rows(&bed, 4 + 2, 5 + 7);
  close_bed(&bed);
  host_device_windows(false);
}

static void rows_outside_of_their_window_are_untouched(void **state) {
  (void)state;
  check_windowed_rows(STG_BACKEND_CPU);
  check_windowed_rows(STG_BACKEND_CUDA);
}

/* Layer l of record r: sets that differ, of which there are more than are counted together. */
static bool has_chain(uint32_t r, uint32_t l) {
  return (l * 7 + r * r) % (r % 13 + 2) == 0;
}

static void layer_sets_of_many_kinds_are_told_apart(void **state) {
  (void)state;
  enum { MANY_LAYERS = 130, RECORDS = 20, MANY_ROWS = 200 };
  uint64_t masks[RECORDS][3] = {{0}};
  struct stg_record records[RECORDS] = {{0}};
  struct stg_record *shown[RECORDS];
  int32_t map[MANY_ROWS];
  uint32_t expected[MANY_LAYERS] = {0};
  struct stg_row_tally tally;
  stg_error error = STG_ERROR_INIT;
  for (uint32_t r = 0; r < RECORDS; r++) {
    for (uint32_t l = 0; l < MANY_LAYERS; l++) {
      masks[r][l / 64] |= (uint64_t)has_chain(r, l) << l % 64;
    }
    records[r].layers = masks[r];
    shown[r] = r == 11 ? NULL : &records[r];
  }
  for (uint32_t i = 0; i < MANY_ROWS; i++) {
    map[i] = (int32_t)(i * i / 3 % RECORDS);
    for (uint32_t l = 0; l < MANY_LAYERS; l++) {
      expected[l] += map[i] != 11 && has_chain((uint32_t)map[i], l);
    }
  }
  const stg_step step = {.struct_size = sizeof step, .rows = MANY_ROWS, .row_map = map};
  ok(stg_row_tally_init(&tally, MANY_LAYERS, &error), &error);
  for (int again = 0; again < 2; again++) {
    stg_row_tally_read(&tally, &step, shown);
    assert_int_equal(MANY_ROWS, tally.live);
    assert_memory_equal(expected, tally.rows_at, sizeof expected);
  }
  stg_row_tally_finish(&tally);
}

static void padding_is_what_the_buckets_have_beyond(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, STG_BACKEND_CPU, true);
  step(&bed, &usual);
  stg_stats stats = stats_of(&bed);
  assert_int_equal(9, stats.step_rows);
  assert_int_equal(16 - 9, stats.step_pad_rows);
  assert_int_equal(7, stats.step_requests);
  assert_int_equal(8 - 7, stats.step_pad_requests);
  stg_step told = usual;
  told.requests = 9;
  step(&bed, &told);
  stats = stats_of(&bed);
  assert_int_equal(18, stats.step_rows);
  assert_int_equal(14, stats.step_pad_rows);
  assert_int_equal(7 + 9, stats.step_requests);
  assert_int_equal(1 + 16 - 9, stats.step_pad_requests);
  close_bed(&bed);
}

static void a_refused_step_counts_nothing(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed, STG_BACKEND_CPU, true);
  step(&bed, &usual);
  const int32_t wrong[] = {0, 3};
  const stg_step refused = {.struct_size = sizeof refused, .rows = 2, .row_map = wrong};
  assert_int_equal(STG_E_BAD_SLOT, stg_steer_step(bed.frame, &refused, NULL, &error));
  assert_int_equal(9, stats_of(&bed).step_rows);
  apply(&bed, 0);
  expect_rows(&bed, 5, 4);
  close_bed(&bed);
}

static void rows_of_maps_on_the_device_are_not_looked_at(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, STG_BACKEND_CUDA, true);
  stg_step on_device = usual;
  on_device.on_device = true;
  step(&bed, &on_device);
  apply(&bed, 0);
  apply(&bed, 1);
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(0, stats.rows_steered);
  assert_int_equal(0, stats.rows_untouched);
  assert_int_equal(2 * ROWS, stats.rows_unseen);
  assert_int_equal(ROWS, stats.step_rows);
  assert_int_equal(16 - ROWS, stats.step_pad_rows);
  close_bed(&bed);
}

static void launches_are_counted_by_tier(void **state) {
  (void)state;
  for (int tier = 0; tier < 2; tier++) {
    struct bed bed;
    open_bed(&bed, STG_BACKEND_CUDA, tier == 0);
    step(&bed, &usual);
    apply(&bed, 0);
    apply(&bed, 2);
    step(&bed, &(stg_step){.struct_size = sizeof(stg_step)});
    apply(&bed, 0); /* no rows, no launch */
    const stg_stats stats = stats_of(&bed);
    assert_int_equal(tier == 0 ? 2 : 0, stats.tier0_launches);
    assert_int_equal(tier == 1 ? 2 : 0, stats.tier1_launches);
    assert_int_equal(2, stats.plain_launches);
    assert_int_equal(3, stats.applies);
    close_bed(&bed);
  }
}

/* Returns the bytes of the table. */
static size_t check_held(bool counters) {
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer_desc desc = describe(true);
  desc.counters = counters;
  open_described(&bed, STG_BACKEND_CUDA, &desc);
  size_t said = 0;
  ok(stg_steer_bytes(bed.engine, &bed.desc, &said, &error), &error);
  const stg_stats with_frame = stats_of(&bed);
  assert_true(with_frame.table_bytes > 0 && with_frame.bank_bytes > 0);
  assert_int_equal(said, with_frame.table_bytes + with_frame.bank_bytes);
  /* the map's header and 64 rows, and a record for each of 3 slots */
  assert_int_equal((4 + 64 + 3) * 4, with_frame.frame_bytes);
  stg_frame_destroy(bed.frame);
  bed.frame = NULL;
  const stg_stats without = stats_of(&bed);
  assert_int_equal(0, without.frame_bytes);
  assert_true(without.pinned_bytes > 0 && without.pinned_bytes < with_frame.pinned_bytes);
  ok(stg_steer_destroy(bed.steer, &error), &error);
  bed.steer = NULL;
  const stg_stats empty = stats_of(&bed);
  assert_int_equal(0, empty.table_bytes + empty.bank_bytes + empty.pinned_bytes);
  close_bed(&bed);
  return with_frame.table_bytes;
}

static void what_is_held_on_the_device_is_counted_while_it_is(void **state) {
  (void)state;
  const size_t plain = check_held(false), counted = check_held(true);
  /* 3 slots at 3 layers, and the heads of records */
  assert_true(counted >= plain + 9 * sizeof(struct stg_steer_counts));
}

static void tables_on_the_cpu_hold_no_device_memory(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, STG_BACKEND_CPU, true);
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(0, stats.table_bytes + stats.bank_bytes + stats.frame_bytes);
  assert_int_equal(0, stats.pinned_bytes + stats.kernel_bytes);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_with_and_without_a_chain_are_counted_by_layer),
      cmocka_unit_test(rows_outside_of_their_window_are_untouched),
      cmocka_unit_test(layer_sets_of_many_kinds_are_told_apart),
      cmocka_unit_test(padding_is_what_the_buckets_have_beyond),
      cmocka_unit_test(a_refused_step_counts_nothing),
      cmocka_unit_test(rows_of_maps_on_the_device_are_not_looked_at),
      cmocka_unit_test(launches_are_counted_by_tier),
      cmocka_unit_test(what_is_held_on_the_device_is_counted_while_it_is),
      cmocka_unit_test(tables_on_the_cpu_hold_no_device_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
