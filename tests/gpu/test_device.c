/*
 * test_device.c: an open device, its memory, streams and events, and whose context is current.
 */
#include "tests/gpu/gpu_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/context.h"
#include "tests/support/test_fork.h"

static void counts_devices_and_reads_the_drivers_version(void **state) {
  (void)state;
  int count = 0;
  int version = 0;
  assert_int_equal(stg_device_count(&count, &version, NULL), STG_OK);
  assert_true(count >= 1);
  assert_true(version >= 12000);
}

static void describes_the_device(void **state) {
  struct gpu *gpu = *state;
  const struct stg_device_info *info = stg_device_get_info(gpu->device);
  char arch[STG_ARCH_CHARS];
  snprintf(arch, sizeof arch, "sm_%d", info->sm);
  assert_int_equal(info->ordinal, 0);
  assert_true(strlen(info->name) > 0);
  assert_int_equal(strlen(info->uuid_hex), 32);
  assert_int_equal(strspn(info->uuid_hex, "0123456789abcdef"), 32);
  assert_true(info->sm >= 80);
  assert_string_equal(info->arch, arch);
  assert_true(info->multiprocessors > 0);
  assert_true(info->memory_bytes > (uint64_t)1 << 30);
  assert_true(info->l2_bytes > (uint64_t)1 << 20);
  assert_true(info->driver_version >= 12000);
  assert_int_equal(stg_device_check(gpu->device, NULL), STG_OK);
}

static void refuses_a_device_that_does_not_exist(void **state) {
  (void)state;
  static const int ordinals[] = {-1, 1000};
  for (size_t i = 0; i < 2; i++) {
    struct stg_device *device = NULL;
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(stg_device_open(ordinals[i], &device, &error), STG_E_INVALID);
    assert_non_null(strstr(error.message, "does not exist: the driver sees "));
    assert_null(device);
  }
}

static void opens_the_same_device_twice(void **state) {
  struct gpu *gpu = *state;
  struct stg_device *second = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_device_open(0, &second, &error), &error);
  assert_string_equal(stg_device_get_info(second)->uuid_hex,
                      stg_device_get_info(gpu->device)->uuid_hex);
  stg_device_close(second);
  /* the first still holds the context */
  stg_device_free(gpu->device, new_floats(gpu, 4, 1.0f));
}

static void copies_there_on_the_device_and_back(void **state) {
  enum { N = 1000 };
  struct gpu *gpu = *state;
  stg_error error = STG_ERROR_INIT;
  uint64_t a = new_floats(gpu, N, 1.0f);
  uint64_t b = new_floats(gpu, N, 2.0f);
  void *host = NULL;
  check_ok(stg_pinned_alloc(gpu->device, N * sizeof(float), &host, &error), &error);
  for (size_t i = 0; i < N; i++) {
    ((float *)host)[i] = 7.5f;
  }

  check_ok(stg_copy_to_device(gpu->device, a, host, N * sizeof(float), gpu->stream, &error),
           &error);
  check_ok(stg_copy_on_device(gpu->device, b, a, N / 2 * sizeof(float), gpu->stream, &error),
           &error);

  assert_floats(gpu, a, N, 7.5f);
  assert_floats(gpu, b, N / 2, 7.5f);
  assert_floats(gpu, b + N / 2 * sizeof(float), N / 2, 2.0f);
  stg_pinned_free(gpu->device, host);
  stg_device_free(gpu->device, a);
  stg_device_free(gpu->device, b);
}

static void does_nothing_for_nothing(void **state) {
  struct gpu *gpu = *state;
  uint64_t empty = 0;
  void *host = NULL;
  assert_int_equal(stg_device_alloc(gpu->device, 0, &empty, NULL), STG_OK);
  assert_int_equal(stg_pinned_alloc(gpu->device, 0, &host, NULL), STG_OK);
  assert_true(empty != 0);
  assert_non_null(host);
  assert_int_equal(stg_fill_u32(gpu->device, empty, 1, 0, gpu->stream, NULL), STG_OK);
  assert_int_equal(stg_copy_to_device(gpu->device, empty, host, 0, gpu->stream, NULL), STG_OK);
  assert_int_equal(stg_copy_to_host(gpu->device, host, empty, 0, gpu->stream, NULL), STG_OK);
  assert_int_equal(stg_copy_on_device(gpu->device, empty, empty, 0, gpu->stream, NULL), STG_OK);
  stg_device_free(gpu->device, empty);
  stg_pinned_free(gpu->device, host);
  stg_device_free(gpu->device, 0);
  stg_pinned_free(gpu->device, NULL);
  stg_stream_destroy(gpu->device, NULL);
  stg_event_destroy(gpu->device, NULL);
  stg_module_unload(gpu->device, NULL);
  stg_graph_destroy(gpu->device, NULL);
  stg_device_close(NULL);
}

static void says_how_much_memory_there_was_no_room_for(void **state) {
  struct gpu *gpu = *state;
  uint64_t address = 77;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_device_alloc(gpu->device, (size_t)1 << 50, &address, &error),
                   STG_E_NO_MEMORY);
  assert_non_null(strstr(error.message, "no room for 1125899906842624 bytes"));
  assert_int_equal(address, 77);
  stg_device_free(gpu->device, new_floats(gpu, 4, 1.0f)); /* the device is as good as before */
}

/* Keeps the device busy for about a fifth of a second, so that an event can be seen to be open. */
static const char *const wait_source =
    "extern \"C\" __global__ void test_wait(float *x, float value, unsigned n) {\n"
    "  for (unsigned i = 0; i < 200000u; i++) {\n"
    "    __nanosleep(1000u);\n"
    "  }\n"
    "  x[0] = value * (float)n;\n"
    "}\n";

static void an_event_is_open_until_the_work_before_it_is_done(void **state) {
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_wait", wait_source);
  uint64_t x = new_floats(gpu, 1, 0.0f);
  struct stg_launch_dims dims = {1, 1, 0};
  struct vector_args args;
  struct stg_event *event = NULL;
  bool done = true;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 2.0f, 3);
  check_ok(stg_event_create(gpu->device, false, &event, &error), &error);

  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);
  check_ok(stg_event_record(gpu->device, event, gpu->stream, &error), &error);
  check_ok(stg_event_query(gpu->device, event, &done, &error), &error);
  assert_false(done);
  check_ok(stg_event_synchronize(gpu->device, event, &error), &error);
  check_ok(stg_event_query(gpu->device, event, &done, &error), &error);

  assert_true(done);
  assert_floats(gpu, x, 1, 6.0f);
  stg_event_destroy(gpu->device, event);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

static void a_stream_waits_for_an_event_of_another(void **state) {
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_wait", wait_source);
  uint64_t x = new_floats(gpu, 1, 0.0f);
  uint64_t y = new_floats(gpu, 1, 0.0f);
  struct stg_launch_dims dims = {1, 1, 0};
  struct vector_args args;
  struct stg_event *event = NULL;
  stg_stream_handle other = NULL;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 2.0f, 3);
  check_ok(stg_event_create(gpu->device, false, &event, &error), &error);
  check_ok(stg_stream_create(gpu->device, &other, &error), &error);

  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, other, &error), &error);
  check_ok(stg_event_record(gpu->device, event, other, &error), &error);
  check_ok(stg_event_wait(gpu->device, event, gpu->stream, &error), &error);
  check_ok(stg_copy_on_device(gpu->device, y, x, sizeof(float), gpu->stream, &error), &error);

  assert_floats(gpu, y, 1, 6.0f);
  stg_stream_destroy(gpu->device, other);
  stg_event_destroy(gpu->device, event);
  stg_device_free(gpu->device, x);
  stg_device_free(gpu->device, y);
  stg_module_unload(gpu->device, module);
}

static void measures_time_between_events_made_for_it(void **state) {
  struct gpu *gpu = *state;
  struct stg_event *timing[2] = {NULL, NULL};
  struct stg_event *plain = NULL;
  uint64_t x = new_floats(gpu, 1 << 20, 0.0f);
  double us = -1;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_event_create(gpu->device, true, &timing[0], &error), &error);
  check_ok(stg_event_create(gpu->device, true, &timing[1], &error), &error);
  check_ok(stg_event_create(gpu->device, false, &plain, &error), &error);

  check_ok(stg_event_record(gpu->device, timing[0], gpu->stream, &error), &error);
  check_ok(stg_fill_u32(gpu->device, x, 5, 1 << 20, gpu->stream, &error), &error);
  check_ok(stg_event_record(gpu->device, timing[1], gpu->stream, &error), &error);
  check_ok(stg_event_record(gpu->device, plain, gpu->stream, &error), &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);

  check_ok(stg_event_elapsed_us(gpu->device, timing[0], timing[1], &us, &error), &error);
  assert_true(us > 0 && us < 1e6);
  assert_int_equal(stg_event_elapsed_us(gpu->device, timing[0], plain, &us, &error), STG_E_CUDA);
  assert_non_null(strstr(error.message, "cuEventElapsedTime failed: CUDA_ERROR_INVALID_HANDLE ("));
  stg_event_destroy(gpu->device, timing[0]);
  stg_event_destroy(gpu->device, timing[1]);
  stg_event_destroy(gpu->device, plain);
  stg_device_free(gpu->device, x);
}

static CUcontext current_context(const struct gpu *gpu) {
  CUcontext current = NULL;
  assert_int_equal(gpu->device->driver->ctx_get_current(&current), CUDA_SUCCESS);
  return current;
}

static void use_device(struct gpu *gpu) {
  uint64_t x = new_floats(gpu, 100, 3.0f);
  assert_floats(gpu, x, 100, 3.0f);
  stg_device_free(gpu->device, x);
}

static void leaves_a_thread_without_a_context_without_one(void **state) {
  struct gpu *gpu = *state;
  assert_null(current_context(gpu));
  use_device(gpu);
  assert_null(current_context(gpu));
}

static void leaves_our_own_context_current(void **state) {
  struct gpu *gpu = *state;
  CUcontext popped = NULL;
  assert_int_equal(gpu->device->driver->ctx_push_current(gpu->device->context), CUDA_SUCCESS);
  use_device(gpu);
  assert_ptr_equal(current_context(gpu), gpu->device->context);
  assert_int_equal(gpu->device->driver->ctx_pop_current(&popped), CUDA_SUCCESS);
  assert_ptr_equal(popped, gpu->device->context);
  assert_null(current_context(gpu));
}

/* The calls of a host that makes contexts of its own; the engine has no use for them. */
typedef CUresult (*create_context_fn)(CUcontext *ret_context, unsigned flags, CUdevice device);
typedef CUresult (*destroy_context_fn)(CUcontext context);

static void leaves_a_hosts_own_context_current(void **state) {
  struct gpu *gpu = *state;
  create_context_fn create = NULL;
  destroy_context_fn destroy = NULL;
  CUcontext host = NULL;
  CUcontext popped = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *address = dlsym(library, "cuCtxCreate_v2");
  memcpy(&create, &address, sizeof address);
  address = dlsym(library, "cuCtxDestroy_v2");
  memcpy(&destroy, &address, sizeof address);
  assert_int_equal(create(&host, 0, gpu->device->handle), CUDA_SUCCESS); /* and makes it current */

  use_device(gpu);

  assert_ptr_equal(current_context(gpu), host);
  assert_ptr_not_equal(host, gpu->device->context);
  assert_int_equal(gpu->device->driver->ctx_pop_current(&popped), CUDA_SUCCESS);
  assert_int_equal(destroy(host), CUDA_SUCCESS);
  assert_null(current_context(gpu));
}

static void *copy_in_a_thread(void *user) {
  struct gpu *gpu = user;
  uint64_t address = 0;
  stg_error error = STG_ERROR_INIT;
  CUcontext current = NULL;
  stg_status status = stg_device_alloc(gpu->device, 64, &address, &error);
  if (status == STG_OK) {
    status = stg_fill_u32(gpu->device, address, 1, 16, gpu->stream, &error);
  }
  stg_device_free(gpu->device, address);
  gpu->device->driver->ctx_get_current(&current);
  return status == STG_OK && current == NULL ? user : NULL;
}

static void serves_any_thread(void **state) {
  enum { N = 8 };
  pthread_t threads[N];
  for (int i = 0; i < N; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, copy_in_a_thread, *state), 0);
  }
  for (int i = 0; i < N; i++) {
    void *result = NULL;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_ptr_equal(result, *state);
  }
}

/* In the child: the number of the first thing that is not as it should be, or 0. */
static int use_parents_device(struct gpu *gpu) {
  stg_error error = STG_ERROR_INIT;
  struct stg_device *device = NULL;
  uint64_t address = 0;
  int count = 0;
  int version = 0;
  if (stg_device_check(gpu->device, &error) != STG_E_FORKED) {
    return 1;
  }
  if (strstr(error.message, "opened by the parent process") == NULL) {
    return 2;
  }
  if (stg_device_alloc(gpu->device, 64, &address, &error) != STG_E_FORKED) {
    return 3;
  }
  if (stg_stream_synchronize(gpu->device, gpu->stream, &error) != STG_E_FORKED) {
    return 4;
  }
  if (stg_device_open(0, &device, &error) != STG_E_FORKED) {
    return 5;
  }
  if (stg_device_count(&count, &version, &error) != STG_E_FORKED) {
    return 6;
  }
  return 0;
}

static void tells_a_forked_child_that_the_device_is_its_parents(void **state) {
  struct gpu *gpu = *state;
  fflush(NULL);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(60); /* a hang would kill it */
    int wrong = use_parents_device(gpu);
    gpu_teardown(state); /* silent, and touches nothing of the parent's */
    _exit(wrong);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  use_device(gpu); /* the parent goes on */
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_devices_and_reads_the_drivers_version),
      cmocka_unit_test(describes_the_device),
      cmocka_unit_test(refuses_a_device_that_does_not_exist),
      cmocka_unit_test(opens_the_same_device_twice),
      cmocka_unit_test(copies_there_on_the_device_and_back),
      cmocka_unit_test(does_nothing_for_nothing),
      cmocka_unit_test(says_how_much_memory_there_was_no_room_for),
      cmocka_unit_test(an_event_is_open_until_the_work_before_it_is_done),
      cmocka_unit_test(a_stream_waits_for_an_event_of_another),
      cmocka_unit_test(measures_time_between_events_made_for_it),
      cmocka_unit_test(leaves_a_thread_without_a_context_without_one),
      cmocka_unit_test(leaves_our_own_context_current),
      cmocka_unit_test(leaves_a_hosts_own_context_current),
      cmocka_unit_test(serves_any_thread),
      cmocka_unit_test(tells_a_forked_child_that_the_device_is_its_parents),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
