/*
 * test_launch.c: cubins that load and run, and how one that does not is told apart.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

#include "tests/data/cubins.h"

static void runs_a_kernel_over_its_arguments(void **state) {
  enum { N = 1000 };
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_add", add_source);
  uint64_t x = new_floats(gpu, N, 1.0f);
  struct stg_launch_dims dims = vector_dims(N - 1);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 0.5f, N - 1);

  for (int i = 0; i < 3; i++) {
    check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);
  }

  assert_floats(gpu, x, N - 1, 2.5f);
  assert_floats(gpu, x + (N - 1) * sizeof(float), 1, 1.0f);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

static void copies_the_arguments_at_the_launch(void **state) {
  enum { N = 1 << 20 };
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_add", add_source);
  uint64_t x = new_floats(gpu, N, 0.0f);
  struct stg_launch_dims dims = vector_dims(N);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  for (int i = 1; i <= 4; i++) {
    set_vector_args(&args, x, (float)i, N);
    check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);
  }
  assert_floats(gpu, x, N, 10.0f);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

static void runs_on_the_legacy_stream_too(void **state) {
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_add", add_source);
  uint64_t x = new_floats(gpu, 10, 1.0f);
  struct stg_launch_dims dims = vector_dims(10);
  struct vector_args args;
  bool capturing = true;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 1.0f, 10);
  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, NULL, &error), &error);
  check_ok(stg_stream_is_capturing(gpu->device, NULL, &capturing, &error), &error);
  check_ok(stg_stream_synchronize(gpu->device, NULL, &error), &error);
  assert_false(capturing);
  assert_floats(gpu, x, 10, 2.0f);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

/* Each thread writes its number backwards through shared memory. */
static const char *const shared_source =
    "extern \"C\" __global__ void test_shared(float *x, float value, unsigned n) {\n"
    "  extern __shared__ float test_room[];\n"
    "  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {\n"
    "    test_room[i] = value;\n"
    "  }\n"
    "  __syncthreads();\n"
    "  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {\n"
    "    x[i] = test_room[n - 1 - i];\n"
    "  }\n"
    "}\n";

static void gives_a_kernel_more_shared_memory_than_the_default_limit(void **state) {
  enum { N = 16000, BYTES = N * 4 }; /* 62.5 KiB, above 48 KiB and within sm_80's and sm_89's */
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_shared", shared_source);
  uint64_t x = new_floats(gpu, N, 0.0f);
  struct stg_launch_dims dims = {1, TEST_THREADS, BYTES};
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 4.25f, N);
  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);
  assert_floats(gpu, x, N, 4.25f);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

static void reports_an_impossible_launch_and_goes_on(void **state) {
  struct gpu *gpu = *state;
  struct stg_module *module = load_kernel(gpu, "test_add", add_source);
  uint64_t x = new_floats(gpu, 10, 1.0f);
  struct stg_launch_dims too_wide = {1, 4096, 0};
  struct stg_launch_dims dims = vector_dims(10);
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, x, 1.0f, 10);

  assert_int_equal(stg_launch(gpu->device, module, &too_wide, args.pointers, gpu->stream, &error),
                   STG_E_CUDA);

  assert_non_null(strstr(error.message, "cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE ("));
  check_ok(stg_device_check(gpu->device, &error), &error);
  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);
  assert_floats(gpu, x, 10, 2.0f);
  stg_device_free(gpu->device, x);
  stg_module_unload(gpu->device, module);
}

static void does_not_blame_a_cubin_without_the_kernel(void **state) {
  const struct stg_log no_log = {0};
  struct gpu *gpu = *state;
  struct stg_kernel_request request = gpu_request(gpu, "test_add", add_source);
  struct stg_kernel_image image = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);

  stg_status status = stg_module_load(gpu->device, image.cubin, "test_other", &module, &error);

  stg_kernel_image_finish(&image);
  assert_int_equal(status, STG_E_CUDA);
  assert_null(module);
  assert_non_null(strstr(error.message, "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND ("));
}

static void blames_a_cubin_of_another_architecture(void **state) {
  struct gpu *gpu = *state;
  const struct stg_device_info *info = stg_device_get_info(gpu->device);
  bool blackwell = info->sm / 10 == 10;
  const struct stg_embedded_file *file = test_cubin(blackwell ? "cuda13_sm_90" : "cuda13_sm_100");
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_non_null(file);
  void *image = malloc(file->len); /* aligned, as an ELF must be */
  assert_non_null(image);
  memcpy(image, file->text, file->len);

  stg_status status = stg_module_load(gpu->device, image, "fixture_plain", &module, &error);

  free(image);
  assert_int_equal(status, STG_E_CORRUPT);
  assert_null(module);
  assert_non_null(strstr(error.message, info->arch));
  assert_non_null(strstr(error.message, "cuModuleLoadData answered CUDA_ERROR_"));
  check_ok(stg_device_check(gpu->device, &error), &error);
}

static void blames_bytes_that_are_no_cubin(void **state) {
  struct gpu *gpu = *state;
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  /* ends with a NUL: the driver reads what is no ELF as PTX text */
  static const char text[] = "this is neither a cubin nor PTX\n";
  assert_int_equal(stg_module_load(gpu->device, text, "test_add", &module, &error), STG_E_CORRUPT);
  assert_null(module);
}

static void loads_and_unloads_over_and_over(void **state) {
  const struct stg_log no_log = {0};
  struct gpu *gpu = *state;
  struct stg_kernel_request request = gpu_request(gpu, "test_add", add_source);
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  for (int i = 0; i < 200; i++) {
    struct stg_module *module = NULL;
    check_ok(stg_module_load(gpu->device, image.cubin, "test_add", &module, &error), &error);
    stg_module_unload(gpu->device, module);
  }
  stg_kernel_image_finish(&image);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_a_kernel_over_its_arguments),
      cmocka_unit_test(copies_the_arguments_at_the_launch),
      cmocka_unit_test(runs_on_the_legacy_stream_too),
      cmocka_unit_test(gives_a_kernel_more_shared_memory_than_the_default_limit),
      cmocka_unit_test(reports_an_impossible_launch_and_goes_on),
      cmocka_unit_test(does_not_blame_a_cubin_without_the_kernel),
      cmocka_unit_test(blames_a_cubin_of_another_architecture),
      cmocka_unit_test(blames_bytes_that_are_no_cubin),
      cmocka_unit_test(loads_and_unloads_over_and_over),
  };
  return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
