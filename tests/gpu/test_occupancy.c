/*
 * test_occupancy.c: what `cache show` works out of an entry, against what the driver says of the
 * kernel that is loaded from it.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#include <steergraph/cache.h>
#include <steergraph/steergraph.h>

#include "runtime/context.h"
#include "runtime/cubin.h"
#include "tests/gpu/driver_calls.h"
#include "tests/support/temp_folder.h"
#include "tools/cache/occupancy.h"

/* Blocks that the driver would have on a multiprocessor at a time. */
static int ask_driver(const struct gpu *gpu, const struct stg_module *module, uint32_t threads,
                      size_t dynamic_bytes) {
  int (*max_active_blocks)(int *ret_blocks, CUfunction function, int threads, size_t bytes) = NULL;
  struct stg_scope scope;
  stg_error error = STG_ERROR_INIT;
  int blocks = -1;
  driver_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &max_active_blocks,
              sizeof max_active_blocks);
  check_ok(stg_scope_enter(&scope, gpu->device, &error), &error);
  int result = max_active_blocks(&blocks, module->function, (int)threads, dynamic_bytes);
  stg_scope_exit(&scope);
  assert_int_equal(0, result);
  return blocks;
}

/* Ours against the driver's. An architecture that ours does not know is nothing to be compared. */
static void assert_agrees(const struct gpu *gpu, const struct stg_module *module,
                          const struct stg_occupancy_ask *ask) {
  struct stg_occupancy ours = {0};
  if (!stg_occupancy_of(ask, &ours)) {
    fail_msg("occupancy of sm_%u is not known", ask->sm);
  }
  int theirs = ask_driver(gpu, module, ask->threads, ask->dynamic_bytes);
  if ((int)ours.blocks != theirs) {
    fail_msg("sm_%u, %u threads, %u registers, %u B static, %u B dynamic: %u blocks, the driver "
             "says %d",
             ask->sm, ask->threads, ask->registers, ask->static_bytes, ask->dynamic_bytes,
             ours.blocks, theirs);
  }
}

/* Load an entry's kernel, and compare all block sizes and much shared memory. Returns the blocks of
 * a launch of the entry's own. */
static uint32_t compare_entry(const struct gpu *gpu, const stg_cache_entry *entry) {
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  struct stg_occupancy own = {0};
  void *image = malloc(entry->cubin_bytes); /* aligned, as an ELF must be */
  assert_non_null(image);
  memcpy(image, entry->cubin, entry->cubin_bytes);
  stg_status status = stg_module_load(gpu->device, image, entry->kernel, &module, &error);
  free(image);
  check_ok(status, &error);
  struct stg_occupancy_ask ask = {.sm = stg_device_get_info(gpu->device)->sm,
                                  .threads = entry->threads,
                                  .registers = entry->registers,
                                  .static_bytes = entry->shared_bytes,
                                  .dynamic_bytes = entry->stage_bytes};
  assert_true(stg_occupancy_of(&ask, &own));
  assert_agrees(gpu, module, &ask);
  ask.dynamic_bytes = entry->wide_stage_bytes;
  assert_agrees(gpu, module, &ask);
  for (ask.threads = 32; ask.threads <= entry->max_threads; ask.threads += 32) {
    for (ask.dynamic_bytes = 0; ask.dynamic_bytes < 96 * 1024; ask.dynamic_bytes += 5000) {
      assert_agrees(gpu, module, &ask);
    }
  }
  stg_module_unload(gpu->device, module);
  return own.blocks;
}

/* The kernels that a table loads, as its cache folder has them. */
static void compare_table(const struct gpu *gpu, const char *folder, const stg_steer_desc *desc) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_steer *steer = NULL;
  stg_cache *cache = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.enabled = true;
  options.backend = STG_BACKEND_CUDA;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = folder;
  options.pack_path = "";
  check_ok(stg_engine_create(&options, &engine, &error), &error);
  check_ok(stg_steer_create(engine, desc, &steer, &error), &error);
  check_ok(stg_cache_open(folder, &cache, &error), &error);
  assert_true(stg_cache_count(cache) >= 2);
  for (size_t i = 0; i < stg_cache_count(cache); i++) {
    stg_cache_entry entry;
    check_ok(stg_cache_get(cache, i, &entry, &error), &error);
    assert_true(entry.ok);
    assert_true(compare_entry(gpu, &entry) > 0);
  }
  stg_cache_close(cache);
  check_ok(stg_steer_destroy(steer, &error), &error);
  check_ok(stg_engine_destroy(engine, &error), &error);
}

static void agrees_with_the_driver_on_the_kernels_of_tables(void **state) {
  struct gpu *gpu = *state;
  static const stg_steer_desc descs[] = {
      {.struct_size = sizeof(stg_steer_desc), .hidden_size = 4096, .dtype = STG_BF16},
      {.struct_size = sizeof(stg_steer_desc), .hidden_size = 768, .dtype = STG_F32},
      {.struct_size = sizeof(stg_steer_desc),
       .hidden_size = 8192,
       .dtype = STG_F16,
       .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
       .epilogue = STG_EPILOGUE_ADD_RMSNORM,
       .epsilon = 1e-5f},
  };
  for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) {
    void *folder = NULL;
    assert_int_equal(temp_folder_setup(&folder), 0);
    compare_table(gpu, folder, &descs[i]);
    assert_int_equal(temp_folder_teardown(&folder), 0);
  }
}

/* Compile and load `source`, and compare blocks of any size with all that a block may have. */
static void compare_source(const struct gpu *gpu, const char *name, const char *source) {
  const struct stg_log no_log = {0};
  struct stg_kernel_request request = gpu_request(gpu, name, source);
  struct stg_kernel_image image = {0};
  struct stg_cubin_info info = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  check_ok(stg_cubin_read(image.cubin, image.cubin_size, name, &info, &error), &error);
  stg_status status = stg_module_load(gpu->device, image.cubin, name, &module, &error);
  stg_kernel_image_finish(&image);
  check_ok(status, &error);
  struct stg_occupancy_ask ask = {.sm = stg_device_get_info(gpu->device)->sm,
                                  .registers = info.registers,
                                  .static_bytes = info.shared_bytes};
  const uint32_t most = info.max_threads != 0 ? info.max_threads : 1024;
  const uint32_t room = (uint32_t)gpu->device->shared_optin - info.shared_bytes;
  for (ask.threads = 1; ask.threads <= most; ask.threads += 31) {
    for (ask.dynamic_bytes = 0; ask.dynamic_bytes <= room; ask.dynamic_bytes += 3001) {
      assert_agrees(gpu, module, &ask);
    }
  }
  stg_module_unload(gpu->device, module);
}

/* As many registers as three blocks of it leave, and static shared memory. */
static const char *const wide_source =
    "extern \"C\" __global__ void __launch_bounds__(256, 3) test_wide(float *x, float value,\n"
    "                                                                unsigned n) {\n"
    "  __shared__ float room[777];\n"
    "  float v[96];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 96; i++) v[i] = x[i * n + threadIdx.x];\n"
    "  room[threadIdx.x] = value;\n"
    "  __syncthreads();\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 96; i++) x[i * n + threadIdx.x] = v[95 - i] * room[(n + i) % 256];\n"
    "}\n";

static void agrees_with_the_driver_on_any_block(void **state) {
  struct gpu *gpu = *state;
  compare_source(gpu, "test_add", add_source);
  compare_source(gpu, "test_wide", wide_source);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_the_driver_on_the_kernels_of_tables),
      cmocka_unit_test(agrees_with_the_driver_on_any_block),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
