/*
 * test_region.c: regions on a device: recorded, replayed, recorded again and updated; and what a
 * callback that breaks its capture leaves.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#include <steergraph/steergraph.h>

#define N 1000

/* An engine beside the device of the group, whose kernels are a host's. */
struct fixture {
  struct gpu *gpu;
  stg_engine *engine;
  struct stg_module *scale, *add;
  uint64_t x, y;
  unsigned calls;
  bool waits, one_more; /* in records: wait for the stream, which breaks it; another kernel */
};

static void open_fixture(struct fixture *f, struct gpu *gpu) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  *f = (struct fixture){.gpu = gpu,
                        .scale = load_kernel(gpu, "test_scale", scale_source),
                        .add = load_kernel(gpu, "test_add", add_source),
                        .x = new_floats(gpu, N, 1.0f),
                        .y = new_floats(gpu, N, 1.0f)};
  check_ok(stg_engine_create(&options, &f->engine, &error), &error);
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

/* x = x * 2 + 3, in two kernels or three. */
static stg_status record(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  struct fixture *f = user;
  f->calls++;
  stg_status status = launch(f, f->scale, pointers[0], 2.0f, stream, reterr);
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

static stg_region_facts run(struct fixture *f, uint64_t address, stg_region_moves moves) {
  const stg_region_pointer pointer = {
      .address = (void *)(uintptr_t)address, .bytes = N * sizeof(float), .moves = moves};
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = "scale and add",
                                .rows = N,
                                .record = record,
                                .user = f,
                                .pointers = &pointer,
                                .n_pointers = 1};
  stg_region_facts facts = {.struct_size = sizeof facts};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_region_run(f->engine, &call, f->gpu->stream, &facts, &error), &error);
  return facts;
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
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
