/*
 * module.c: the stub's modules and launches. A module is held against the device's architecture and
 * against the kernel that is asked of it; its code says at most that it runs chains of `add`.
 */
#include "tests/stub/cuda/stub.h"

#include <stdio.h>
#include <string.h>

#include "tests/stub/make_cubin.h"
#include "tests/support/host_device.h"

#define MACHINE_CUDA 190
#define DEVICE_SM 90
#define SECTION_BYTES 64
#define MAX_THREADS 1024

static uint64_t load(const unsigned char *at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) {
    value = value << 8 | at[i];
  }
  return value;
}

/* As the driver: the image has no size, and is trusted in all but what makes it a cubin. */
static CUresult check_image(const unsigned char *image) {
  if (memcmp(image, "\177ELF\2\1", 6) != 0 || load(image + 18, 2) != MACHINE_CUDA) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const uint64_t flags = load(image + 48, 4);
  const uint64_t sm = (image[8] == 7 ? flags : flags >> 8) & 0xff;
  return sm / 10 == DEVICE_SM / 10 && sm <= DEVICE_SM ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* The kernel of an image, by its first section of code. */
static void read_kernel(const unsigned char *image, struct stub_module *module) {
  static const char prefix[] = ".text.";
  const unsigned char *table = image + load(image + 40, 8);
  const uint64_t n_sections = load(image + 60, 2);
  const unsigned char *names = image + load(table + load(image + 62, 2) * SECTION_BYTES + 24, 8);
  for (uint64_t i = 1; i < n_sections; i++) {
    const char *name = (const char *)names + load(table + i * SECTION_BYTES, 4);
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
      const unsigned char *code = image + load(table + i * SECTION_BYTES + 24, 8);
      snprintf(module->kernel, sizeof module->kernel, "%s", name + sizeof prefix - 1);
      module->adds = memcmp(code, STUB_CUBIN_ADDS, strlen(STUB_CUBIN_ADDS)) == 0;
      return;
    }
  }
}

CUresult CUDAAPI stub_module_load_data(CUmodule *ret_module, const void *image) {
  CUresult result = stub_enter_unsafe("cuModuleLoadData");
  if (result == CUDA_SUCCESS) {
    result = check_image(image);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct stub_module *module = stub_new(STUB_MODULE, sizeof *module);
  if (module == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  read_kernel(image, module);
  *ret_module = (CUmodule)(void *)module;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_module_unload(CUmodule module) {
  const CUresult result = stub_enter_destroy("cuModuleUnload", module, STUB_MODULE);
  if (result == CUDA_SUCCESS) {
    stub_free(module);
  }
  return result;
}

CUresult CUDAAPI stub_module_get_function(CUfunction *ret_function, CUmodule handle,
                                          const char *name) {
  const CUresult result = stub_enter_context("cuModuleGetFunction");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const struct stub_module *module = stub_find("cuModuleGetFunction", handle, STUB_MODULE);
  if (module == NULL) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *ret_function = (CUfunction)(void *)handle;
  return strcmp(module->kernel, name) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult enter_function(const char *call, CUfunction function, bool unsafe) {
  const CUresult result = unsafe ? stub_enter_unsafe(call) : stub_enter_context(call);
  if (result == CUDA_SUCCESS && stub_find(call, function, STUB_MODULE) == NULL) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return result;
}

CUresult CUDAAPI stub_func_load(CUfunction function) {
  return enter_function("cuFuncLoad", function, true);
}

CUresult CUDAAPI stub_func_get_attribute(int *ret_value, CUfunction_attribute attribute,
                                         CUfunction function) {
  (void)attribute;
  *ret_value = 1024;
  return enter_function("cuFuncGetAttribute", function, false);
}

CUresult CUDAAPI stub_func_set_attribute(CUfunction function, CUfunction_attribute attribute,
                                         int value) {
  (void)attribute;
  (void)value;
  return enter_function("cuFuncSetAttribute", function, false);
}

CUresult stub_launch_read(const char *call, CUfunction function, unsigned blocks, unsigned threads,
                          void **args, struct stub_launch *ret) {
  struct stub_module *module = stub_find(call, function, STUB_MODULE);
  if (module == NULL) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (blocks == 0 || threads == 0 || threads > MAX_THREADS || args == NULL) {
    return stub_misuse(call, "a launch of nothing", CUDA_ERROR_INVALID_VALUE);
  }
  ret->module = module;
  if (module->adds) { /* other kernels do nothing, and may be given less */
    memcpy(&ret->args, args[0], sizeof ret->args);
  }
  return CUDA_SUCCESS;
}

void stub_launch_run(const struct stub_launch *launch) {
  struct stg_steer_args args = launch->args;
  if (launch->to != NULL) {
    memcpy(launch->to, launch->from, launch->bytes);
    return;
  }
  if (launch->module == NULL || !launch->module->adds || args.hidden == 0) {
    return;
  }
  if (args.out != args.hidden) {
    memcpy((void *)(uintptr_t)args.out, (const void *)(uintptr_t)args.hidden,
           (size_t)args.rows * (size_t)args.row_stride * sizeof(float));
    args.hidden = args.out;
  }
  host_device_add_chains(&args);
}

static CUresult launch(const char *call, CUfunction function, unsigned blocks, unsigned threads,
                       CUstream handle, void **args) {
  CUresult result = stub_enter_context(call);
  struct stub_launch launched = {.module = NULL};
  struct stub_stream *stream = NULL;
  if (result == CUDA_SUCCESS && !stub_stream_of(call, handle, &stream)) {
    result = CUDA_ERROR_INVALID_HANDLE;
  }
  if (result == CUDA_SUCCESS) {
    result = stub_launch_read(call, function, blocks, threads, args, &launched);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (stream == NULL || stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) {
    stub_launch_run(&launched);
    return CUDA_SUCCESS;
  }
  return stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE
             ? stub_graph_append(stream->capture.graph, &launched, NULL)
             : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* NOLINTNEXTLINE(readability-function-size): the driver's parameters */
CUresult CUDAAPI stub_launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                    unsigned grid_z, unsigned block_x, unsigned block_y,
                                    unsigned block_z, unsigned shared_bytes, CUstream stream,
                                    void **args, void **extra) {
  (void)shared_bytes;
  (void)extra;
  return launch("cuLaunchKernel", function, grid_x * grid_y * grid_z, block_x * block_y * block_z,
                stream, args);
}

CUresult CUDAAPI stub_launch_kernel_ex(const CUlaunchConfig *config, CUfunction function,
                                       void **args, void **extra) {
  (void)extra;
  return launch("cuLaunchKernelEx", function,
                config->gridDimX * config->gridDimY * config->gridDimZ,
                config->blockDimX * config->blockDimY * config->blockDimZ, config->hStream, args);
}
