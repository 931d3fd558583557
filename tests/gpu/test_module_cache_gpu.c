/*
 * test_module_cache_gpu.c: from request to loaded kernel: memory, then disk, then NVRTC, each once.
 */
#include "tests/gpu/gpu_test.h"

#include <pthread.h>
#include <string.h>

#include "runtime/module_cache.h"
#include "tests/support/log_lines.h"
#include "tests/support/temp_folder.h"

/* A folder, a disk cache in it, and a module cache over both. Not for several threads' logs. */
struct fixture {
  struct gpu *gpu;
  void *folder; /* temp_folder's state */
  struct log_lines lines;
  struct stg_disk_cache *disk;
  struct stg_module_cache *cache;
};

static void open_caches(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  struct stg_log log = log_lines_to(&f->lines, STG_LOG_WARN);
  struct stg_disk_options options = {.path_list = f->folder, .log = log};
  check_ok(stg_disk_cache_open(&options, &f->disk, &error), &error);
  check_ok(stg_module_cache_create(f->gpu->device, f->disk, &log, &f->cache, &error), &error);
}

/* Memory is forgotten, as by a new process; the disk is not. */
static void close_caches(struct fixture *f) {
  stg_module_cache_destroy(f->cache);
  stg_disk_cache_close(f->disk);
}

static struct fixture *new_fixture(struct gpu *gpu) {
  struct fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  f->gpu = gpu;
  assert_int_equal(temp_folder_setup(&f->folder), 0);
  open_caches(f);
  return f;
}

static void finish_fixture(struct fixture *f) {
  close_caches(f);
  assert_int_equal(temp_folder_teardown(&f->folder), 0);
  free(f);
}

static struct stg_loaded_kernel get(struct fixture *f, const struct stg_kernel_request *request) {
  struct stg_loaded_kernel kernel = {0};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_module_cache_get(f->cache, request, true, &kernel, &error), &error);
  return kernel;
}

static struct stg_module_counters module_counters(const struct fixture *f) {
  struct stg_module_counters counters;
  stg_module_cache_counters(f->cache, &counters);
  return counters;
}

static struct stg_disk_counters disk_counters(const struct fixture *f) {
  struct stg_disk_counters counters;
  stg_disk_cache_counters(f->disk, &counters);
  return counters;
}

/* Run test_add and see that it adds. */
static void assert_adds(const struct fixture *f, const struct stg_loaded_kernel *kernel) {
  uint64_t x = new_floats(f->gpu, 100, 1.0f);
  struct stg_launch_dims dims = vector_dims(100);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 2.0f, 100);
  check_ok(stg_launch(f->gpu->device, kernel->module, &dims, args.pointers, f->gpu->stream, &error),
           &error);
  assert_floats(f->gpu, x, 100, 3.0f);
  stg_device_free(f->gpu->device, x);
}

static void compiles_then_remembers_then_reads_the_disk(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);

  struct stg_loaded_kernel first = get(f, &request);
  struct stg_loaded_kernel second = get(f, &request);

  assert_int_equal(first.origin, STG_FROM_COMPILER);
  assert_true(first.compile_ms > 0 && first.load_us > 0);
  assert_true(first.info.registers > 0);
  assert_int_equal(first.info.param_bytes, 16);
  assert_int_equal(second.origin, STG_FROM_MEMORY);
  assert_ptr_equal(second.module, first.module);
  assert_true(second.compile_ms == 0 && second.load_us == 0);
  assert_adds(f, &second);
  stg_module_cache_unref(f->cache, first.key);
  stg_module_cache_unref(f->cache, second.key);

  close_caches(f);
  open_caches(f);
  struct stg_loaded_kernel third = get(f, &request);
  assert_int_equal(third.origin, STG_FROM_DISK);
  assert_true(third.compile_ms == 0 && third.load_us > 0);
  assert_memory_equal(&third.info, &first.info, sizeof third.info);
  assert_adds(f, &third);
  stg_module_cache_unref(f->cache, third.key);
  assert_int_equal(f->lines.count, 0);
  finish_fixture(f);
}

static void unloads_with_the_last_reference(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);
  struct stg_loaded_kernel kernel = get(f, &request);
  stg_module_cache_unref(f->cache, kernel.key);

  kernel = get(f, &request);

  assert_int_equal(kernel.origin, STG_FROM_DISK); /* no longer in memory */
  struct stg_module_counters counters = module_counters(f);
  assert_true(counters.code_bytes > 0 && counters.code_bytes == kernel.info.code_bytes);
  assert_int_equal(counters.compiles, 1);
  assert_int_equal(counters.disk_hits, 1);
  assert_int_equal(counters.memory_hits, 0);
  assert_true(counters.compile_ms > 0 && counters.load_us > 0);
  stg_module_cache_unref(f->cache, kernel.key);
  assert_int_equal(module_counters(f).code_bytes, 0);
  finish_fixture(f);
}

#define N_THREADS 8

struct asker {
  struct fixture *fixture;
  const struct stg_kernel_request *request;
  struct stg_loaded_kernel kernel;
  stg_error error;
  stg_status status;
};

static void *ask(void *user) {
  struct asker *asker = user;
  asker->status = stg_module_cache_get(asker->fixture->cache, asker->request, true, &asker->kernel,
                                       &asker->error);
  return NULL;
}

static void ask_from_threads(struct asker askers[N_THREADS], struct fixture *f,
                             const struct stg_kernel_request *request) {
  pthread_t threads[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) {
    askers[i] = (struct asker){.fixture = f, .request = request};
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void eight_threads_get_one_compile(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);
  struct asker askers[N_THREADS];
  int compilers = 0;

  ask_from_threads(askers, f, &request);

  for (int i = 0; i < N_THREADS; i++) {
    check_ok(askers[i].status, &askers[i].error);
    assert_ptr_equal(askers[i].kernel.module, askers[0].kernel.module);
    compilers += askers[i].kernel.origin == STG_FROM_COMPILER;
  }
  assert_int_equal(compilers, 1);
  assert_int_equal(module_counters(f).compiles, 1);
  assert_int_equal(module_counters(f).memory_hits, N_THREADS - 1);
  assert_int_equal(disk_counters(f).stores, 1);
  assert_adds(f, &askers[0].kernel);
  for (int i = 0; i < N_THREADS; i++) {
    stg_module_cache_unref(f->cache, askers[i].kernel.key);
  }
  finish_fixture(f);
}

static void every_thread_hears_why_there_is_no_kernel(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", "no CUDA at all\n");
  struct asker askers[N_THREADS];

  ask_from_threads(askers, f, &request);

  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(askers[i].status, STG_E_COMPILE);
    assert_non_null(strstr(askers[i].error.message, "refuses kernel 'test_add' for sm_"));
    assert_non_null(strstr(askers[i].error.message, "steergraph.cu(1): error: "));
  }
  assert_int_equal(module_counters(f).compiles, 0);
  assert_int_equal(disk_counters(f).stores, 0);
  finish_fixture(f);
}

static void a_miss_that_may_not_compile_names_the_signature(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);
  struct stg_loaded_kernel kernel = {0};
  stg_error error = STG_ERROR_INIT;
  request.signature = "steer v1 | ops=add";

  assert_int_equal(stg_module_cache_get(f->cache, &request, false, &kernel, &error),
                   STG_E_NOT_WARM);

  assert_non_null(strstr(error.message, "kernel 'steer v1 | ops=add' is in no cache"));
  assert_null(kernel.module);
  struct stg_loaded_kernel made = get(f, &request);
  check_ok(stg_module_cache_get(f->cache, &request, false, &kernel, &error), &error);
  assert_int_equal(kernel.origin, STG_FROM_MEMORY);
  stg_module_cache_unref(f->cache, made.key);
  stg_module_cache_unref(f->cache, kernel.key);
  check_ok(stg_module_cache_get(f->cache, &request, false, &kernel, &error), &error);
  assert_int_equal(kernel.origin, STG_FROM_DISK);
  stg_module_cache_unref(f->cache, kernel.key);
  finish_fixture(f);
}

static void what_was_built_without_a_device_is_hit(void **state) {
  struct fixture *f = new_fixture(*state);
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);
  const struct stg_log no_log = {0};
  bool compiled = false;
  double ms = 0;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_module_build(f->disk, &request, &no_log, &compiled, &ms, &error), &error);
  assert_true(compiled);

  struct stg_loaded_kernel kernel = get(f, &request);

  assert_int_equal(kernel.origin, STG_FROM_DISK);
  assert_int_equal(module_counters(f).compiles, 0);
  assert_adds(f, &kernel);
  stg_module_cache_unref(f->cache, kernel.key);
  finish_fixture(f);
}

static void an_entry_that_the_driver_refuses_is_quarantined_and_compiled_again(void **state) {
  struct fixture *f = new_fixture(*state);
  /* a sound entry, of an architecture whose code this device does not run */
  bool blackwell = stg_device_get_info(f->gpu->device)->sm / 10 == 10;
  struct stg_kernel_request request = gpu_request(f->gpu, "test_add", add_source);
  const struct stg_log no_log = {0};
  struct stg_loaded_kernel kernel = {0};
  bool compiled = false;
  double ms = 0;
  stg_error error = STG_ERROR_INIT;
  request.arch = blackwell ? "sm_90" : "sm_100";
  check_ok(stg_module_build(f->disk, &request, &no_log, &compiled, &ms, &error), &error);

  stg_status status = stg_module_cache_get(f->cache, &request, true, &kernel, &error);

  /* what was compiled again is refused too, which is no entry's fault */
  assert_int_equal(status, STG_E_CORRUPT);
  assert_non_null(strstr(error.message, "the driver refuses the cubin of kernel 'test_add'"));
  assert_int_equal(disk_counters(f).quarantined, 1);
  assert_int_equal(disk_counters(f).stores, 2); /* stored before it is loaded */
  assert_int_equal(f->lines.count, 1);
  assert_int_equal(f->lines.level[0], STG_LOG_WARN);
  finish_fixture(f);
}

static void works_from_memory_alone(void **state) {
  struct gpu *gpu = *state;
  struct stg_kernel_request request = gpu_request(gpu, "test_add", add_source);
  struct stg_disk_options options = {.mode = STG_DISK_OFF};
  struct fixture f = {.gpu = gpu};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_disk_cache_open(&options, &f.disk, &error), &error);
  check_ok(stg_module_cache_create(gpu->device, f.disk, NULL, &f.cache, &error), &error);

  struct stg_loaded_kernel first = get(&f, &request);
  struct stg_loaded_kernel second = get(&f, &request);

  assert_int_equal(first.origin, STG_FROM_COMPILER);
  assert_int_equal(second.origin, STG_FROM_MEMORY);
  assert_adds(&f, &second);
  stg_module_cache_unref(f.cache, first.key);
  stg_module_cache_unref(f.cache, second.key);
  close_caches(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiles_then_remembers_then_reads_the_disk),
      cmocka_unit_test(unloads_with_the_last_reference),
      cmocka_unit_test(eight_threads_get_one_compile),
      cmocka_unit_test(every_thread_hears_why_there_is_no_kernel),
      cmocka_unit_test(a_miss_that_may_not_compile_names_the_signature),
      cmocka_unit_test(what_was_built_without_a_device_is_hit),
      cmocka_unit_test(an_entry_that_the_driver_refuses_is_quarantined_and_compiled_again),
      cmocka_unit_test(works_from_memory_alone),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
