/*
 * test_region.c: regions on a device: recorded, replayed, recorded again and updated, evicted and
 * adopted; a record for each bucket at most; and what a callback that breaks its capture leaves.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#include <steergraph/steergraph.h>

#include "tests/support/quick.h"

#define N 1000

/* An engine beside the device of the group, whose kernels are a host's. */
struct fixture {
  struct gpu *gpu;
  stg_engine *engine;
  struct stg_module *scale, *add;
  uint64_t x, y;
  unsigned calls;
  bool waits, one_more; /* in records: wait for the stream, which breaks it; another kernel */
  bool fills;           /* put ones there first: a node that is no kernel */
};

static void open_with(struct fixture *f, struct gpu *gpu, uint32_t max_plans) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.max_plans = max_plans;
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  *f = (struct fixture){.gpu = gpu,
                        .scale = load_kernel(gpu, "test_scale", scale_source),
                        .add = load_kernel(gpu, "test_add", add_source),
                        .x = new_floats(gpu, N, 1.0f),
                        .y = new_floats(gpu, N, 1.0f)};
  check_ok(stg_engine_create(&options, &f->engine, &error), &error);
}

static void open_fixture(struct fixture *f, struct gpu *gpu) {
  open_with(f, gpu, 0);
}

static stg_stats stats_of(const struct fixture *f) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(f->engine, &stats);
  return stats;
}

static void close_fixture(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_engine_destroy(f->engine, &error), &error);
  stg_device_free(f->gpu->device, f->x);
  stg_device_free(f->gpu->device, f->y);
  stg_module_unload(f->gpu->device, f->scale);
  stg_module_unload(f->gpu->device, f->add);
}

static stg_status launch(const struct fixture *f, const struct stg_module *module, void *address,
                         float value, stg_stream stream, stg_error *reterr) {
  struct vector_args args;
  const struct stg_launch_dims dims = vector_dims(N);
  set_vector_args(&args, (uint64_t)(uintptr_t)address, value, N);
  return stg_launch(f->gpu->device, module, &dims, args.pointers, stream, reterr);
}

static stg_status put_ones(const struct fixture *f, uint64_t address, stg_stream stream,
                           stg_error *reterr) {
  const float one = 1.0f;
  uint32_t word = 0;
  memcpy(&word, &one, sizeof word);
  return stg_fill_u32(f->gpu->device, address, word, N, stream, reterr);
}

/* Each run begins with ones: values stay exact. */
static void fill_ones(const struct fixture *f, uint64_t address) {
  stg_error error = STG_ERROR_INIT;
  check_ok(put_ones(f, address, f->gpu->stream, &error), &error);
}

/* x = x * 2 + 3, in two kernels or three, of ones that are put there before, or of what is. */
static stg_status record(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  struct fixture *f = user;
  f->calls++;
  stg_status status = STG_OK;
  if (f->fills) {
    status = put_ones(f, (uint64_t)(uintptr_t)pointers[0], stream, reterr);
  }
  if (status == STG_OK) {
    status = launch(f, f->scale, pointers[0], 2.0f, stream, reterr);
  }
  if (status == STG_OK && f->waits && stream != f->gpu->stream) {
    /* what it says is lost on purpose: the capture is broken, and not by an error of ours */
    status =
        stg_stream_synchronize(f->gpu->device, stream, NULL) == STG_OK ? STG_E_INVALID : STG_OK;
  }
  if (status == STG_OK && f->one_more) {
    status = launch(f, f->add, pointers[0], 0.0f, stream, reterr);
  }
  return status == STG_OK ? launch(f, f->add, pointers[0], 3.0f, stream, reterr) : status;
}

static stg_status try_run(struct fixture *f, uint64_t address, stg_region_moves moves, int64_t rows,
                          stg_region_facts *ret_facts, stg_error *reterr) {
  const stg_region_pointer pointer = {
      .address = (void *)(uintptr_t)address, .bytes = N * sizeof(float), .moves = moves};
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = "scale and add",
                                .rows = rows,
                                .record = record,
                                .user = f,
                                .pointers = &pointer,
                                .n_pointers = 1};
  return stg_region_run(f->engine, &call, f->gpu->stream, ret_facts, reterr);
}

static stg_region_facts run_rows(struct fixture *f, uint64_t address, stg_region_moves moves,
                                 int64_t rows) {
  stg_region_facts facts = {.struct_size = sizeof facts};
  stg_error error = STG_ERROR_INIT;
  check_ok(try_run(f, address, moves, rows, &facts, &error), &error);
  return facts;
}

static stg_region_facts run(struct fixture *f, uint64_t address, stg_region_moves moves) {
  return run_rows(f, address, moves, N);
}

static void is_recorded_once_and_replayed(void **state) {
  struct fixture f;
  open_fixture(&f, *state);
  assert_true(run(&f, f.x, STG_REGION_FIXED).recorded);
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_true(run(&f, f.x, STG_REGION_FIXED).replayed);
  assert_true(run(&f, f.x, STG_REGION_FIXED).replayed);
  assert_floats(f.gpu, f.x, N, 29.0f);
  assert_int_equal(1, f.calls);
  assert_int_equal(1, stats_of(&f).regions_recorded);
  close_fixture(&f);
}

static void moving_tensors_go_through_buffers(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f, *state);
  assert_true(run(&f, f.x, STG_REGION_INOUT).recorded);
  assert_true(run(&f, f.y, STG_REGION_INOUT).replayed);
  assert_true(run(&f, f.y, STG_REGION_INOUT).replayed);
  assert_floats(f.gpu, f.x, N, 5.0f); /* the first result is intact */
  assert_floats(f.gpu, f.y, N, 13.0f);
  assert_true(stats_of(&f).region_bytes >= N * sizeof(float));
  check_ok(stg_region_forget(f.engine, "scale and add", &error), &error);
  assert_int_equal(0, stats_of(&f).region_bytes);
  close_fixture(&f);
}

static void a_new_address_updates_the_graph_and_other_nodes_make_it_anew(void **state) {
  struct fixture f;
  open_fixture(&f, *state);
  assert_true(run(&f, f.x, STG_REGION_RECORD).recorded);
  assert_true(run(&f, f.y, STG_REGION_RECORD).recorded);
  assert_true(run(&f, f.y, STG_REGION_RECORD).replayed);
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_floats(f.gpu, f.y, N, 13.0f);
  assert_int_equal(1, stats_of(&f).graph_updates);
  assert_int_equal(1, stats_of(&f).graphs_created);
  f.one_more = true; /* the driver refuses the update: another topology */
  assert_true(run(&f, f.x, STG_REGION_RECORD).recorded);
  assert_floats(f.gpu, f.x, N, 13.0f);
  assert_int_equal(1, stats_of(&f).graph_updates);
  assert_int_equal(2, stats_of(&f).graphs_created);
  close_fixture(&f);
}

static void a_broken_capture_leaves_the_stream_usable_and_the_work_done(void **state) {
  struct fixture f;
  open_fixture(&f, *state);
  f.waits = true;
  const stg_region_facts facts = run(&f, f.x, STG_REGION_FIXED);
  assert_true(facts.eager);
  assert_int_equal(STG_E_CAPTURE, facts.status);
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_true(run(&f, f.x, STG_REGION_FIXED).eager);
  assert_floats(f.gpu, f.x, N, 13.0f);
  assert_int_equal(3, f.calls);
  assert_int_equal(1, stats_of(&f).region_failures);
  close_fixture(&f);
}

static void a_hosts_capture_has_the_work_itself(void **state) {
  struct fixture f;
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f, *state);
  check_ok(stg_capture_begin(f.gpu->device, f.gpu->stream, &error), &error);
  const stg_region_facts facts = run(&f, f.x, STG_REGION_FIXED);
  check_ok(stg_capture_end(f.gpu->device, f.gpu->stream, &graph, &nodes, &error), &error);
  assert_false(facts.recorded || facts.replayed || facts.eager);
  assert_int_equal(2, nodes);
  check_ok(stg_graph_launch(f.gpu->device, graph, f.gpu->stream, &error), &error);
  assert_floats(f.gpu, f.x, N, 5.0f);
  stg_graph_destroy(f.gpu->device, graph);
  close_fixture(&f);
}

static void nodes_that_are_no_kernels_are_replayed_and_updated_too(void **state) {
  struct fixture f;
  open_fixture(&f, *state);
  f.fills = true;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(i == 0, run(&f, f.x, STG_REGION_RECORD).recorded);
    assert_floats(f.gpu, f.x, N, 5.0f);
  }
  assert_true(run(&f, f.y, STG_REGION_RECORD).recorded);
  assert_floats(f.gpu, f.y, N, 5.0f);
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_int_equal(1, stats_of(&f).graph_updates);
  close_fixture(&f);
}

static void a_foreign_pointer_is_refused_before_anything_is_launched(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f, *state);
  assert_true(run(&f, f.x, STG_REGION_FIXED).recorded);
  assert_int_equal(STG_E_INVALID, try_run(&f, f.y, STG_REGION_FIXED, N, NULL, &error));
  assert_non_null(strstr(error.message, "pointer 0 of region 'scale and add' is 0x"));
  assert_non_null(strstr(error.message, "; declare it as moving"));
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_floats(f.gpu, f.y, N, 1.0f);
  close_fixture(&f);
}

static void a_thousand_random_batches_give_at_most_a_record_for_each_bucket(void **state) {
  static const int64_t sizes[] = {8, 16, 32, 64, 100, 250, 500, 1000};
  enum { N_SIZES = sizeof sizes / sizeof sizes[0] };
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  const unsigned runs = test_is_quick() ? 100 : 1000;
  open_fixture(&f, *state);
  uint32_t random = 1;
  for (unsigned i = 0; i < runs; i++) {
    int64_t padded = 0;
    random = random * 1664525U + 1013904223U;
    check_ok(stg_region_bucket(sizes, N_SIZES, 1 + (int64_t)(random >> 16) % N, &padded, &error),
             &error);
    const uint64_t to = random >> 31 != 0 ? f.x : f.y;
    fill_ones(&f, to);
    run_rows(&f, to, STG_REGION_INOUT, padded);
    if (i % 50 == 0) {
      assert_floats(f.gpu, to, N, 5.0f);
    }
  }
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_floats(f.gpu, f.y, N, 5.0f);
  const stg_stats stats = stats_of(&f);
  assert_true(stats.regions_recorded <= N_SIZES);
  assert_int_equal(stats.regions_recorded, f.calls);
  assert_int_equal(runs, stats.regions_recorded + stats.region_replays);
  assert_int_equal(0, stats.region_failures);
  close_fixture(&f);
}

/* With room for two of three, each run records: what goes is still in flight. */
static void records_that_are_evicted_in_flight_are_right_and_freed(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_with(&f, *state, 2);
  for (int i = 0; i < 60; i++) {
    fill_ones(&f, f.x);
    assert_true(run_rows(&f, f.x, STG_REGION_INOUT, 1 + i % 3).recorded);
    if (i % 7 == 0) {
      assert_floats(f.gpu, f.x, N, 5.0f);
    }
  }
  assert_floats(f.gpu, f.x, N, 5.0f);
  stg_stats stats = stats_of(&f);
  assert_int_equal(2, stats.plans_live);
  assert_int_equal(58, stats.plan_evictions);
  check_ok(stg_region_forget(f.engine, "scale and add", &error), &error);
  stats = stats_of(&f);
  assert_int_equal(0, stats.plans_live);
  assert_int_equal(0, stats.region_bytes);
  close_fixture(&f);
}

/* What a host captured itself. */
struct owned {
  struct fixture *f;
  struct stg_graph *graph;
};

static stg_status launch_owned(void *user, stg_stream stream, stg_error *reterr) {
  const struct owned *owned = user;
  return stg_graph_launch(owned->f->gpu->device, owned->graph, stream, reterr);
}

static struct owned capture_owned(struct fixture *f, stg_stream stream) {
  struct owned owned = {.f = f};
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  void *const pointers[] = {(void *)(uintptr_t)f->x};
  check_ok(stg_capture_begin(f->gpu->device, stream, &error), &error);
  check_ok(record(f, stream, pointers, &error), &error);
  check_ok(stg_capture_end(f->gpu->device, stream, &owned.graph, &nodes, &error), &error);
  assert_int_equal(2, nodes);
  return owned;
}

static void adopt(struct owned *owned, uint64_t token) {
  const stg_region_owner owner = {.struct_size = sizeof owner,
                                  .signature = "owned",
                                  .launch = launch_owned,
                                  .user = owned,
                                  .token = token,
                                  .bytes = 4096};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_region_adopt(owned->f->engine, &owner, owned->f->gpu->stream, &error), &error);
}

static size_t told(const struct fixture *f, uint64_t *ret_token) {
  stg_error error = STG_ERROR_INIT;
  size_t count = 0;
  check_ok(stg_region_dropped(f->engine, ret_token, 1, &count, &error), &error);
  return count;
}

static void what_a_host_captured_is_replayed_and_told_when_its_launches_are_over(void **state) {
  struct fixture f;
  stg_stream_handle side = NULL;
  stg_error error = STG_ERROR_INIT;
  uint64_t token = 0;
  const unsigned launches = test_is_quick() ? 20 : 200;
  open_fixture(&f, *state);
  check_ok(stg_stream_create(f.gpu->device, &side, &error), &error);
  struct owned owned[2] = {capture_owned(&f, side), capture_owned(&f, side)};
  adopt(&owned[0], 11);
  for (unsigned i = 0; i < launches; i++) {
    fill_ones(&f, f.x);
    check_ok(stg_region_replay(f.engine, "owned", 0, 0, 0, f.gpu->stream, &error), &error);
  }
  adopt(&owned[1], 12); /* in its place, which may still run */
  assert_floats(f.gpu, f.x, N, 5.0f);
  assert_int_equal(1, told(&f, &token));
  assert_int_equal(11, token);
  stg_graph_destroy(f.gpu->device, owned[0].graph);
  check_ok(stg_region_replay(f.engine, "owned", 0, 0, 0, f.gpu->stream, &error), &error);
  assert_floats(f.gpu, f.x, N, 13.0f);
  assert_int_equal(STG_E_NOT_FOUND, stg_region_replay(f.engine, "owned", 0, 0, 0, side, &error));
  assert_int_equal(2, stats_of(&f).regions_recorded);
  assert_int_equal(launches + 1, stats_of(&f).region_replays);
  assert_int_equal(4096, stats_of(&f).region_bytes);
  check_ok(stg_region_forget(f.engine, "owned", &error), &error);
  assert_int_equal(1, told(&f, &token));
  assert_int_equal(12, token);
  assert_int_equal(0, told(&f, &token));
  assert_int_equal(0, stats_of(&f).region_bytes);
  stg_graph_destroy(f.gpu->device, owned[1].graph);
  stg_stream_destroy(f.gpu->device, side);
  close_fixture(&f);
}

static void a_capture_refuses_to_replay_what_a_host_captured(void **state) {
  struct fixture f;
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f, *state);
  struct owned owned = capture_owned(&f, f.gpu->stream);
  adopt(&owned, 1);
  check_ok(stg_capture_begin(f.gpu->device, f.gpu->stream, &error), &error);
  const stg_status status = stg_region_replay(f.engine, "owned", 0, 0, 0, f.gpu->stream, &error);
  stg_error ended = STG_ERROR_INIT;
  void *const pointers[] = {(void *)(uintptr_t)f.x};
  check_ok(record(&f, f.gpu->stream, pointers, &ended), &ended);
  check_ok(stg_capture_end(f.gpu->device, f.gpu->stream, &graph, &nodes, &ended), &ended);
  assert_int_equal(STG_E_CAPTURING, status);
  assert_string_equal(
      "stg_region_replay: the stream captures; let it have the work of region 'owned' itself",
      error.message);
  assert_int_equal(2, nodes);
  stg_graph_destroy(f.gpu->device, graph);
  check_ok(stg_region_replay(f.engine, "owned", 0, 0, 0, f.gpu->stream, &error), &error);
  assert_floats(f.gpu, f.x, N, 5.0f);
  close_fixture(&f); /* the engine waits for its last launch */
  stg_graph_destroy(f.gpu->device, owned.graph);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_recorded_once_and_replayed),
      cmocka_unit_test(moving_tensors_go_through_buffers),
      cmocka_unit_test(a_new_address_updates_the_graph_and_other_nodes_make_it_anew),
      cmocka_unit_test(a_broken_capture_leaves_the_stream_usable_and_the_work_done),
      cmocka_unit_test(a_hosts_capture_has_the_work_itself),
      cmocka_unit_test(nodes_that_are_no_kernels_are_replayed_and_updated_too),
      cmocka_unit_test(a_foreign_pointer_is_refused_before_anything_is_launched),
      cmocka_unit_test(a_thousand_random_batches_give_at_most_a_record_for_each_bucket),
      cmocka_unit_test(records_that_are_evicted_in_flight_are_right_and_freed),
      cmocka_unit_test(what_a_host_captured_is_replayed_and_told_when_its_launches_are_over),
      cmocka_unit_test(a_capture_refuses_to_replay_what_a_host_captured),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
