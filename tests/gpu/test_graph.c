/*
 * test_graph.c: graphs of kernels: order, changed arguments and grids, what a launch in flight
 * sees.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#define N 1000
#define N_MORE 3000

/* The kernels, a vector, and a graph that scales it by 2 and then adds 3. */
struct fixture {
  struct gpu *gpu;
  struct stg_module *scale, *add;
  uint64_t x;
  struct vector_args args[2];
  struct stg_graph_kernel kernels[2];
  struct stg_graph *graph;
};

static struct fixture new_fixture(struct gpu *gpu) {
  return (struct fixture){
      .gpu = gpu,
      .scale = load_kernel(gpu, "test_scale", scale_source),
      .add = load_kernel(gpu, "test_add", add_source),
      .x = new_floats(gpu, N, 1.0f),
  };
}

/* Apart from new_fixture: the kernels point at the fixture's own arguments. */
static void build_graph(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&f->args[0], f->x, 2.0f, N);
  set_vector_args(&f->args[1], f->x, 3.0f, N);
  f->kernels[0] = (struct stg_graph_kernel){f->scale, vector_dims(N), f->args[0].pointers};
  f->kernels[1] = (struct stg_graph_kernel){f->add, vector_dims(N), f->args[1].pointers};
  check_ok(stg_graph_create(f->gpu->device, f->kernels, 2, f->gpu->stream, &f->graph, &error),
           &error);
}

static void launch(struct fixture *f, int times) {
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < times; i++) {
    check_ok(stg_graph_launch(f->gpu->device, f->graph, f->gpu->stream, &error), &error);
  }
}

static void finish_fixture(struct fixture *f) {
  stg_graph_destroy(f->gpu->device, f->graph);
  stg_device_free(f->gpu->device, f->x);
  stg_module_unload(f->gpu->device, f->scale);
  stg_module_unload(f->gpu->device, f->add);
}

static void runs_its_kernels_one_after_the_other(void **state) {
  struct fixture f = new_fixture(*state);
  build_graph(&f);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 5.0f);
  launch(&f, 2);
  assert_floats(f.gpu, f.x, N, 29.0f); /* 5 -> 13 -> 29 */
  finish_fixture(&f);
}

static void keeps_its_own_copy_of_the_arguments(void **state) {
  struct fixture f = new_fixture(*state);
  build_graph(&f);
  memset(f.args, 0xff, sizeof f.args);
  memset(f.kernels, 0xff, sizeof f.kernels);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 5.0f);
  finish_fixture(&f);
}

static void takes_new_arguments_at_the_next_launch(void **state) {
  struct fixture f = new_fixture(*state);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  launch(&f, 1); /* 5; maybe still to run when the arguments change */

  set_vector_args(&args, f.x, 10.0f, N);
  const struct stg_graph_kernel node = {f.scale, vector_dims(N), args.pointers};
  check_ok(stg_graph_set(f.gpu->device, f.graph, 0, &node, &error), &error);
  memset(&args, 0xff, sizeof args);
  launch(&f, 1);

  assert_floats(f.gpu, f.x, N, 53.0f);
  finish_fixture(&f);
}

static void takes_a_new_grid_and_address_at_the_next_launch(void **state) {
  struct fixture f = new_fixture(*state);
  uint64_t y = new_floats(f.gpu, N_MORE, 1.0f);
  struct vector_args args;
  struct stg_launch_dims dims = vector_dims(N_MORE);
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);

  set_vector_args(&args, y, 7.0f, N_MORE);
  const struct stg_graph_kernel node = {f.add, dims, args.pointers};
  check_ok(stg_graph_set(f.gpu->device, f.graph, 1, &node, &error), &error);
  launch(&f, 1);

  assert_floats(f.gpu, f.x, N, 2.0f);
  assert_floats(f.gpu, y, N_MORE, 8.0f);
  stg_device_free(f.gpu->device, y);
  finish_fixture(&f);
}

static void follows_a_change_before_each_of_many_launches(void **state) {
  struct fixture f = new_fixture(*state);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  set_vector_args(&args, f.x, 1.0f, N);
  const struct stg_graph_kernel scale = {f.scale, vector_dims(N), args.pointers};
  const struct stg_graph_kernel add = {f.add, vector_dims(N), args.pointers};
  check_ok(stg_graph_set(f.gpu->device, f.graph, 0, &scale, &error), &error);
  for (unsigned i = 1; i <= 100; i++) {
    set_vector_args(&args, f.x, (float)i, N);
    check_ok(stg_graph_set(f.gpu->device, f.graph, 1, &add, &error), &error);
    launch(&f, 1);
  }
  assert_floats(f.gpu, f.x, N, 5051.0f); /* 1 + 1 + 2 + ... + 100 */
  finish_fixture(&f);
}

/* What a swap of kernels between two launches is. */
static void takes_another_kernel_at_the_next_launch(void **state) {
  struct fixture f = new_fixture(*state);
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  launch(&f, 1); /* 5; maybe still to run when the kernel changes */
  f.kernels[0].module = f.add;
  check_ok(stg_graph_set(f.gpu->device, f.graph, 0, &f.kernels[0], &error), &error);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 10.0f); /* 5 + 2 + 3 */
  f.kernels[0].module = f.scale;
  check_ok(stg_graph_set(f.gpu->device, f.graph, 0, &f.kernels[0], &error), &error);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 23.0f);
  finish_fixture(&f);
}

static void an_update_that_is_refused_leaves_the_graph_as_it_was(void **state) {
  struct fixture f = new_fixture(*state);
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  struct stg_graph_kernel impossible = f.kernels[0];
  impossible.dims.block_x = 4096;
  assert_int_equal(stg_graph_set(f.gpu->device, f.graph, 0, &impossible, &error), STG_E_CUDA);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 5.0f);
  finish_fixture(&f);
}

static void can_be_made_anew_in_its_place(void **state) {
  struct fixture f = new_fixture(*state);
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  launch(&f, 1); /* maybe still to run when its graph goes */
  f.kernels[0].module = f.add;
  check_ok(stg_graph_remake(f.gpu->device, f.graph, f.kernels, f.gpu->stream, &error), &error);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 10.0f);
  check_ok(stg_graph_set(f.gpu->device, f.graph, 1, &f.kernels[0], &error), &error);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 14.0f);
  f.kernels[0].dims.block_x = 4096;
  assert_int_equal(stg_graph_remake(f.gpu->device, f.graph, f.kernels, f.gpu->stream, &error),
                   STG_E_CUDA);
  launch(&f, 1);
  assert_floats(f.gpu, f.x, N, 18.0f);
  finish_fixture(&f);
}

static void runs_on_any_stream(void **state) {
  struct fixture f = new_fixture(*state);
  stg_stream_handle other = NULL;
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  check_ok(stg_stream_create(f.gpu->device, &other, &error), &error);
  check_ok(stg_graph_launch(f.gpu->device, f.graph, other, &error), &error);
  check_ok(stg_stream_synchronize(f.gpu->device, other, &error), &error);
  assert_floats(f.gpu, f.x, N, 5.0f);
  stg_stream_destroy(f.gpu->device, other);
  finish_fixture(&f);
}

static void refuses_a_node_that_does_not_exist(void **state) {
  struct fixture f = new_fixture(*state);
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  assert_int_equal(stg_graph_set(f.gpu->device, f.graph, 2, &f.kernels[0], &error), STG_E_INVALID);
  assert_non_null(strstr(error.message, "graph node 2 does not exist or was captured: 2 can be"));
  finish_fixture(&f);
}

static void reports_an_impossible_node_and_builds_nothing(void **state) {
  struct fixture f = new_fixture(*state);
  struct stg_graph *graph = NULL;
  stg_error error = STG_ERROR_INIT;
  build_graph(&f);
  f.kernels[1].dims.block_x = 4096;
  assert_int_equal(stg_graph_create(f.gpu->device, f.kernels, 2, f.gpu->stream, &graph, &error),
                   STG_E_CUDA);
  assert_null(graph);
  assert_non_null(strstr(error.message, " failed: CUDA_ERROR_"));
  launch(&f, 1); /* the graph there is works on */
  assert_floats(f.gpu, f.x, N, 5.0f);
  finish_fixture(&f);
}

static void may_be_destroyed_in_flight(void **state) {
  struct fixture f = new_fixture(*state);
  build_graph(&f);
  launch(&f, 20);
  stg_graph_destroy(f.gpu->device, f.graph);
  f.graph = NULL;
  assert_floats(f.gpu, f.x, N, 4194301.0f); /* x -> 2x + 3, 20 times: 4 * 2^20 - 3 */
  finish_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_its_kernels_one_after_the_other),
      cmocka_unit_test(keeps_its_own_copy_of_the_arguments),
      cmocka_unit_test(takes_new_arguments_at_the_next_launch),
      cmocka_unit_test(takes_a_new_grid_and_address_at_the_next_launch),
      cmocka_unit_test(follows_a_change_before_each_of_many_launches),
      cmocka_unit_test(takes_another_kernel_at_the_next_launch),
      cmocka_unit_test(an_update_that_is_refused_leaves_the_graph_as_it_was),
      cmocka_unit_test(can_be_made_anew_in_its_place),
      cmocka_unit_test(runs_on_any_stream),
      cmocka_unit_test(refuses_a_node_that_does_not_exist),
      cmocka_unit_test(reports_an_impossible_node_and_builds_nothing),
      cmocka_unit_test(may_be_destroyed_in_flight),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
