/*
 * gpu_test.c: see gpu_test.h. Only public calls of runtime/ are used, so that a failure here is a
 * failure of them.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>

const char *const add_source =
    "extern \"C\" __global__ void test_add(float *x, float value, unsigned n) {\n"
    "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) {\n"
    "    x[i] += value;\n"
    "  }\n"
    "}\n";

const char *const scale_source =
    "extern \"C\" __global__ void test_scale(float *x, float value, unsigned n) {\n"
    "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) {\n"
    "    x[i] *= value;\n"
    "  }\n"
    "}\n";

int skip_without_gpu(void) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  const char *one_case = getenv("STG_TEST_CASE");
  if (one_case != NULL) {
    cmocka_set_test_filter(one_case);
  }
  stg_error error = STG_ERROR_INIT;
  struct stg_nvrtc_info nvrtc;
  int count = 0;
  int version = 0;
  if (stg_device_count(&count, &version, &error) != STG_OK) {
    printf("skipped: %s\n", error.message);
    return error.code == STG_E_NO_DEVICE ? EXIT_SKIPPED : 1;
  }
  if (count == 0) {
    printf("skipped: the driver sees no device\n");
    return EXIT_SKIPPED;
  }
  if (stg_nvrtc_info(&nvrtc, &error) != STG_OK) {
    printf("skipped: %s\n", error.message);
    return error.code == STG_E_NO_DEVICE ? EXIT_SKIPPED : 1;
  }
  return 0;
}

int gpu_setup(void **state) {
  stg_error error = STG_ERROR_INIT;
  struct gpu *gpu = calloc(1, sizeof *gpu);
  if (gpu == NULL) {
    return -1;
  }
  stg_status status = stg_device_open(0, &gpu->device, &error);
  if (status == STG_OK) {
    status = stg_stream_create(gpu->device, &gpu->stream, &error);
  }
  if (status != STG_OK) {
    print_error("%s\n", error.message);
    free(gpu);
    return -1;
  }
  *state = gpu;
  return 0;
}

int gpu_teardown(void **state) {
  struct gpu *gpu = *state;
  stg_stream_destroy(gpu->device, gpu->stream);
  stg_device_close(gpu->device);
  free(gpu);
  return 0;
}

void check_ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

struct stg_kernel_request gpu_request(const struct gpu *gpu, const char *name, const char *source) {
  return (struct stg_kernel_request){
      .signature = name,
      .name = name,
      .prelude = "",
      .source = source,
      .arch = stg_device_get_info(gpu->device)->arch,
      .threads = TEST_THREADS,
      .rows_per_block = 1,
  };
}

struct stg_module *load_kernel(const struct gpu *gpu, const char *name, const char *source) {
  const struct stg_log no_log = {0};
  struct stg_kernel_request request = gpu_request(gpu, name, source);
  struct stg_kernel_image image = {0};
  struct stg_module *module = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_compile(&request, &no_log, &image, &error), &error);
  stg_status status = stg_module_load(gpu->device, image.cubin, name, &module, &error);
  stg_kernel_image_finish(&image);
  check_ok(status, &error);
  return module;
}

uint64_t new_floats(const struct gpu *gpu, size_t n, float value) {
  uint64_t address = 0;
  uint32_t word = 0;
  stg_error error = STG_ERROR_INIT;
  memcpy(&word, &value, sizeof word);
  check_ok(stg_device_alloc(gpu->device, n * sizeof value, &address, &error), &error);
  check_ok(stg_fill_u32(gpu->device, address, word, n, gpu->stream, &error), &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  return address;
}

void assert_floats(const struct gpu *gpu, uint64_t address, size_t n, float expected) {
  stg_error error = STG_ERROR_INIT;
  void *host = NULL;
  check_ok(stg_pinned_alloc(gpu->device, n * sizeof(float), &host, &error), &error);
  check_ok(stg_copy_to_host(gpu->device, host, address, n * sizeof(float), gpu->stream, &error),
           &error);
  check_ok(stg_stream_synchronize(gpu->device, gpu->stream, &error), &error);
  const float *values = host;
  size_t wrong = 0;
  while (wrong < n && values[wrong] == expected) {
    wrong++;
  }
  float found = wrong < n ? values[wrong] : expected;
  stg_pinned_free(gpu->device, host);
  if (wrong < n) {
    fail_msg("element %zu of %zu is %g, not %g", wrong, n, (double)found, (double)expected);
  }
}

void set_vector_args(struct vector_args *args, uint64_t address, float value, unsigned n) {
  args->address = address;
  args->value = value;
  args->n = n;
  args->pointers[0] = &args->address;
  args->pointers[1] = &args->value;
  args->pointers[2] = &args->n;
}

struct stg_launch_dims vector_dims(unsigned n) {
  return (struct stg_launch_dims){
      .grid_x = (n + TEST_THREADS - 1) / TEST_THREADS,
      .block_x = TEST_THREADS,
  };
}

static const char *const wild_source =
    "extern \"C\" __global__ void test_wild(float *x, float value, unsigned n) {\n"
    "  x[threadIdx.x] = value * (float)n;\n"
    "}\n";

void lose_device(const struct gpu *gpu) {
  struct stg_module *module = load_kernel(gpu, "test_wild", wild_source);
  struct stg_launch_dims dims = {1, 1, 0};
  struct vector_args args;
  stg_error error = STG_ERROR_INIT;
  set_vector_args(&args, 64, 1.0f, 1);
  check_ok(stg_launch(gpu->device, module, &dims, args.pointers, gpu->stream, &error), &error);

  stg_status status = stg_stream_synchronize(gpu->device, gpu->stream, &error);

  assert_int_equal(status, STG_E_DEVICE_LOST);
  assert_non_null(
      strstr(error.message, "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS ("));
  stg_module_unload(gpu->device, module);
}

/* It leaves this in the environment of what it runs. */
bool under_compute_sanitizer(void) {
  return getenv("NV_SANITIZER_INJECTION_TRANSPORT_TYPE") != NULL;
}
