/*
 * test_device_lost.c: after a sticky error every call says so, nothing hangs, and no cache entry is
 * blamed. A process of its own, since its context is of no use afterwards.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#include "runtime/module_cache.h"
#include "tests/support/temp_folder.h"

static void says_so_at_every_call_and_blames_no_entry(void **state) {
  struct gpu *gpu = *state;
  void *folder = NULL;
  const struct stg_log no_log = {0};
  struct stg_disk_cache *disk = NULL;
  struct stg_module_cache *cache = NULL;
  struct stg_loaded_kernel kernel = {0};
  struct stg_disk_counters counters;
  bool compiled = false;
  double ms = 0;
  uint64_t address = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(temp_folder_setup(&folder), 0);
  struct stg_disk_options options = {.path_list = folder};
  check_ok(stg_disk_cache_open(&options, &disk, &error), &error);
  check_ok(stg_module_cache_create(gpu->device, disk, &no_log, &cache, &error), &error);
  struct stg_kernel_request request = gpu_request(gpu, "test_add", add_source);
  check_ok(stg_module_build(disk, &request, &no_log, &compiled, &ms, &error), &error);

  lose_device(gpu);

  assert_int_equal(stg_device_check(gpu->device, &error), STG_E_DEVICE_LOST);
  assert_non_null(strstr(error.message, "device 0 is lost since CUDA_ERROR_ILLEGAL_ADDRESS ("));
  assert_int_equal(stg_device_alloc(gpu->device, 64, &address, &error), STG_E_DEVICE_LOST);
  assert_int_equal(stg_stream_synchronize(gpu->device, gpu->stream, &error), STG_E_DEVICE_LOST);
  assert_int_equal(stg_module_cache_get(cache, &request, true, &kernel, &error), STG_E_DEVICE_LOST);
  stg_disk_cache_counters(disk, &counters);
  assert_int_equal(counters.quarantined, 0);
  check_ok(stg_module_build(disk, &request, &no_log, &compiled, &ms, &error), &error);
  assert_false(compiled); /* the entry is where it was */
  stg_module_cache_destroy(cache);
  stg_disk_cache_close(disk);
  assert_int_equal(temp_folder_teardown(&folder), 0);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_so_at_every_call_and_blames_no_entry),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
