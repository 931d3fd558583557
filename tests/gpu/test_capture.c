/*
 * test_capture.c: inside a host's capture in the strictest mode: what it records, and that the rest
 * of the engine leaves it valid.
 */
#include "tests/gpu/gpu_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define N 1000

/* The kernel and a vector that the captures record. */
struct fixture {
  struct gpu *gpu;
  struct stg_module *add;
  uint64_t x;
  struct vector_args args;
  struct stg_launch_dims dims;
};

static void init_fixture(struct fixture *f, struct gpu *gpu) {
  f->gpu = gpu;
  f->add = load_kernel(gpu, "test_add", add_source);
  f->x = new_floats(gpu, N, 1.0f);
  f->dims = vector_dims(N);
  set_vector_args(&f->args, f->x, 2.0f, N);
}

static void finish_fixture(struct fixture *f) {
  stg_device_free(f->gpu->device, f->x);
  stg_module_unload(f->gpu->device, f->add);
}

static void begin(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_capture_begin(f->gpu->device, f->gpu->stream, &error), &error);
}

static void launch(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_launch(f->gpu->device, f->add, &f->dims, f->args.pointers, f->gpu->stream, &error),
           &error);
}

static struct stg_graph *end(struct fixture *f, size_t expected_nodes) {
  struct stg_graph *graph = NULL;
  size_t nodes = 99;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_capture_end(f->gpu->device, f->gpu->stream, &graph, &nodes, &error), &error);
  assert_int_equal(nodes, expected_nodes);
  return graph;
}

static bool is_capturing(const struct fixture *f) {
  bool capturing = false;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_is_capturing(f->gpu->device, f->gpu->stream, &capturing, &error), &error);
  return capturing;
}

static void records_each_launch_as_one_node(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  assert_false(is_capturing(&f));
  begin(&f);
  assert_true(is_capturing(&f));
  launch(&f);
  launch(&f);
  launch(&f);
  struct stg_graph *graph = end(&f, 3);
  assert_false(is_capturing(&f));
  assert_floats(f.gpu, f.x, N, 1.0f); /* recorded, not run */

  for (int i = 0; i < 2; i++) {
    check_ok(stg_graph_launch(f.gpu->device, graph, f.gpu->stream, &error), &error);
  }

  assert_floats(f.gpu, f.x, N, 13.0f);
  stg_graph_destroy(f.gpu->device, graph);
  finish_fixture(&f);
}

static void a_capture_of_nothing_has_no_nodes(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  begin(&f);
  struct stg_graph *graph = end(&f, 0);
  check_ok(stg_graph_launch(f.gpu->device, graph, f.gpu->stream, &error), &error);
  const struct stg_graph_kernel node = {f.add, f.dims, f.args.pointers};
  assert_int_equal(stg_graph_set(f.gpu->device, graph, 0, &node, &error), STG_E_INVALID);
  stg_graph_destroy(f.gpu->device, graph);
  finish_fixture(&f);
}

static void replays_read_device_memory_as_it_is_then(void **state) {
  static const char *const source =
      "extern \"C\" __global__ void test_table(float *x, const float *table, unsigned n) {\n"
      "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) {\n"
      "    x[i] = table[0];\n"
      "  }\n"
      "}\n";
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  struct stg_module *module = load_kernel(f.gpu, "test_table", source);
  uint64_t table = new_floats(f.gpu, 1, 0.0f);
  unsigned n = N;
  void *args[] = {&f.x, &table, &n};
  begin(&f);
  check_ok(stg_launch(f.gpu->device, module, &f.dims, args, f.gpu->stream, &error), &error);
  struct stg_graph *graph = end(&f, 1);

  for (unsigned i = 1; i <= 100; i++) {
    float value = (float)i;
    uint32_t word = 0;
    memcpy(&word, &value, sizeof word);
    check_ok(stg_fill_u32(f.gpu->device, table, word, 1, f.gpu->stream, &error), &error);
    check_ok(stg_graph_launch(f.gpu->device, graph, f.gpu->stream, &error), &error);
    assert_floats(f.gpu, f.x, N, value);
  }

  stg_graph_destroy(f.gpu->device, graph);
  stg_device_free(f.gpu->device, table);
  stg_module_unload(f.gpu->device, module);
  finish_fixture(&f);
}

static void allocating_and_loading_on_the_same_thread_leave_a_capture_valid(void **state) {
  struct fixture f;
  uint64_t memory = 0;
  void *pinned = NULL;
  struct stg_event *event = NULL;
  stg_stream_handle other = NULL;
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  begin(&f);
  launch(&f);
  check_ok(stg_device_alloc(f.gpu->device, 1 << 20, &memory, &error), &error);
  check_ok(stg_pinned_alloc(f.gpu->device, 1 << 20, &pinned, &error), &error);
  check_ok(stg_event_create(f.gpu->device, false, &event, &error), &error);
  check_ok(stg_stream_create(f.gpu->device, &other, &error), &error);
  struct stg_module *scale = load_kernel(f.gpu, "test_scale", scale_source);
  /* work on a stream that does not capture, and waiting for it */
  check_ok(stg_fill_u32(f.gpu->device, memory, 7, 1 << 18, other, &error), &error);
  check_ok(stg_event_record(f.gpu->device, event, other, &error), &error);
  check_ok(stg_event_synchronize(f.gpu->device, event, &error), &error);
  check_ok(stg_stream_synchronize(f.gpu->device, other, &error), &error);
  launch(&f);
  struct stg_graph *graph = end(&f, 2);

  check_ok(stg_graph_launch(f.gpu->device, graph, f.gpu->stream, &error), &error);

  assert_floats(f.gpu, f.x, N, 5.0f);
  stg_graph_destroy(f.gpu->device, graph);
  stg_module_unload(f.gpu->device, scale);
  stg_stream_destroy(f.gpu->device, other);
  stg_event_destroy(f.gpu->device, event);
  stg_pinned_free(f.gpu->device, pinned);
  stg_device_free(f.gpu->device, memory);
  finish_fixture(&f);
}

/* What the threads beside a capture do, over and over, until they are told to stop. */
struct churn {
  struct gpu *gpu;
  const void *cubin;
  atomic_bool stop;
  atomic_int rounds;
  atomic_int failures;
  stg_error error; /* of one failure */
};

static stg_status churn_once(const struct churn *churn, stg_stream_handle stream,
                             stg_error *reterr) {
  struct stg_device *device = churn->gpu->device;
  struct stg_module *module = NULL;
  uint64_t memory = 0;
  stg_status status = stg_module_load(device, churn->cubin, "test_add", &module, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(device, 4096, &memory, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(device, memory, 1, 1024, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_stream_synchronize(device, stream, reterr);
  }
  stg_device_free(device, memory);
  stg_module_unload(device, module);
  return status;
}

static void *churn_in_a_thread(void *user) {
  struct churn *churn = user;
  stg_stream_handle stream = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_stream_create(churn->gpu->device, &stream, &error);
  while (status == STG_OK && !atomic_load(&churn->stop)) {
    status = churn_once(churn, stream, &error);
    atomic_fetch_add(&churn->rounds, 1);
  }
  stg_stream_destroy(churn->gpu->device, stream);
  if (status != STG_OK && atomic_fetch_add(&churn->failures, 1) == 0) {
    churn->error = error;
  }
  return NULL;
}

static void loading_on_other_threads_leaves_captures_valid(void **state) {
  enum { THREADS = 4, CAPTURES = 200 };
  const struct stg_log no_log = {0};
  struct fixture f;
  struct stg_kernel_image image = {0};
  pthread_t threads[THREADS];
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  struct stg_kernel_request request = gpu_request(f.gpu, "test_add", add_source);
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  struct churn churn = {.gpu = f.gpu, .cubin = image.cubin};
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, churn_in_a_thread, &churn), 0);
  }
  /* no assert before the threads are gone */
  stg_status status = STG_OK;
  size_t nodes = 0;
  for (int i = 0; status == STG_OK && (i < CAPTURES || atomic_load(&churn.rounds) < 50); i++) {
    struct stg_graph *graph = NULL;
    status = stg_capture_begin(f.gpu->device, f.gpu->stream, &error);
    if (status == STG_OK) {
      status = stg_launch(f.gpu->device, f.add, &f.dims, f.args.pointers, f.gpu->stream, &error);
    }
    if (status == STG_OK) {
      status = stg_capture_end(f.gpu->device, f.gpu->stream, &graph, &nodes, &error);
    }
    stg_graph_destroy(f.gpu->device, graph);
  }
  atomic_store(&churn.stop, true);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  check_ok(status, &error);
  if (churn.failures != 0) {
    fail_msg("%s", churn.error.message);
  }
  assert_int_equal(nodes, 1);
  stg_kernel_image_finish(&image);
  finish_fixture(&f);
}

static void a_broken_capture_is_reported_and_over(void **state) {
  struct fixture f;
  struct stg_graph *graph = NULL;
  size_t nodes = 77;
  stg_error error = STG_ERROR_INIT;
  init_fixture(&f, *state);
  begin(&f);
  launch(&f);

  /* waiting for what will never run breaks the capture, as CUDA says */
  assert_int_equal(stg_stream_synchronize(f.gpu->device, f.gpu->stream, &error), STG_E_CAPTURING);
  assert_non_null(strstr(error.message, "cuStreamSynchronize failed: CUDA_ERROR_STREAM_CAPTURE_"));
  assert_true(is_capturing(&f));
  assert_int_equal(stg_capture_end(f.gpu->device, f.gpu->stream, &graph, &nodes, &error),
                   STG_E_CUDA);

  assert_non_null(strstr(error.message, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ("));
  assert_null(graph);
  assert_int_equal(nodes, 77);
  assert_false(is_capturing(&f));
  launch(&f);
  assert_floats(f.gpu, f.x, N, 3.0f);
  finish_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_each_launch_as_one_node),
      cmocka_unit_test(a_capture_of_nothing_has_no_nodes),
      cmocka_unit_test(replays_read_device_memory_as_it_is_then),
      cmocka_unit_test(allocating_and_loading_on_the_same_thread_leave_a_capture_valid),
      cmocka_unit_test(a_broken_capture_is_reported_and_over),
  };
  const struct CMUnitTest beside_loads[] = {
      cmocka_unit_test(loading_on_other_threads_leaves_captures_valid),
  };
  int failed = cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
  if (under_compute_sanitizer()) {
    /* The tool acts on every module that is loaded, and that breaks the captures of other threads
     * or ends the process now and then: a program of bare driver calls (cuModuleLoadData,
     * cuModuleGetFunction, cuFuncLoad, cuFuncSetAttribute, cuModuleUnload in RELAXED mode beside a
     * GLOBAL capture) failed so in 8 of 20 runs under memcheck. Without the tool this case passed
     * in every run. */
    print_message("loads beside a capture are left out under compute-sanitizer\n");
    return failed;
  }
  return failed + cmocka_run_group_tests(beside_loads, gpu_setup, gpu_teardown);
}
