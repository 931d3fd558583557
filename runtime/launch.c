/*
 * launch.c: load a cubin, get its kernel ready, launch it.
 *
 * stg_launch is the hot path: no lock, no allocation. Graphs are graph.c.
 */
#include "runtime/launch.h"

#include <stddef.h>

#include "runtime/base/alloc.h"
#include "runtime/context.h"

/* The image is at fault, whatever machine state: quarantine it and compile again. */
static bool blames_image(CUresult result) {
  return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         result == CUDA_ERROR_INVALID_PTX;
}

/*
 * Let the kernel ask for all the shared memory a block may have beside its static part; the default
 * limit is 48 KiB. Asking for less at launch costs nothing.
 */
static CUresult raise_shared_limit(const struct stg_device *device, CUfunction function,
                                   const char **ret_call) {
  int static_bytes = 0;
  *ret_call = "cuFuncGetAttribute";
  CUresult result = device->driver->func_get_attribute(
      &static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  if (result != CUDA_SUCCESS || static_bytes >= device->shared_optin) {
    return result;
  }
  *ret_call = "cuFuncSetAttribute";
  return device->driver->func_set_attribute(function,
                                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            device->shared_optin - static_bytes);
}

/* Under lazy loading a kernel is loaded at its first use, which must not happen in a capture. */
static CUresult load_eagerly(const struct stg_device *device, const void *cubin, const char *kernel,
                             struct stg_module *module, const char **ret_call) {
  const struct stg_driver *driver = device->driver;
  *ret_call = "cuModuleLoadData";
  CUresult result = driver->module_load_data(&module->module, cubin);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuModuleGetFunction";
  result = driver->module_get_function(&module->function, module->module, kernel);
  if (result == CUDA_SUCCESS && driver->func_load != NULL) {
    *ret_call = "cuFuncLoad";
    result = driver->func_load(module->function);
  }
  if (result == CUDA_SUCCESS) {
    result = raise_shared_limit(device, module->function, ret_call);
  }
  if (result != CUDA_SUCCESS) {
    driver->module_unload(module->module);
  }
  return result;
}

stg_status stg_module_load(struct stg_device *device, const void *cubin, const char *kernel,
                           struct stg_module **ret_module, stg_error *reterr) {
  struct stg_module *module = stg_calloc(1, sizeof *module);
  if (module == NULL) {
    return stg_error_memory(reterr, "a module", sizeof *module);
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    stg_free(module);
    return status;
  }
  const char *call = NULL;
  CUresult result = load_eagerly(device, cubin, kernel, module, &call);
  status = stg_scope_leave(&scope, result, call, reterr);
  if (status != STG_OK) {
    if (blames_image(result)) {
      status = stg_error_set(reterr, STG_E_CORRUPT,
                             "the driver refuses the cubin of kernel '%s' on %s: %s answered %s "
                             "(%s)",
                             kernel, device->info.arch, call,
                             stg_driver_error_name(device->driver, result),
                             stg_driver_error_text(device->driver, result));
    }
    stg_free(module);
    return status;
  }
  *ret_module = module;
  return STG_OK;
}

void stg_module_unload(struct stg_device *device, struct stg_module *module) {
  if (module == NULL) {
    return;
  }
  struct stg_scope scope;
  if (stg_scope_enter_relaxed(&scope, device, NULL) == STG_OK) {
    device->driver->module_unload(module->module);
    stg_scope_exit(&scope);
  }
  stg_free(module);
}

stg_status stg_launch(struct stg_device *device, const struct stg_module *module,
                      const struct stg_launch_dims *dims, void **args, stg_stream_handle stream,
                      stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result =
      device->driver->launch_kernel(module->function, dims->grid_x, 1, 1, dims->block_x, 1, 1,
                                    dims->shared_bytes, stream, args, NULL);
  return stg_scope_leave(&scope, result, "cuLaunchKernel", reterr);
}

stg_status stg_launch_early(struct stg_device *device, const struct stg_module *module,
                            const struct stg_launch_dims *dims, void **args,
                            stg_stream_handle stream, stg_error *reterr) {
  /* older drivers do not capture such a launch */
  if (device->info.sm < 90 || device->info.driver_version < 12030) {
    return stg_launch(device, module, dims, args, stream, reterr);
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                             .value.programmaticStreamSerializationAllowed = 1};
  const CUlaunchConfig config = {
      .gridDimX = dims->grid_x,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = dims->block_x,
      .blockDimY = 1,
      .blockDimZ = 1,
      .sharedMemBytes = dims->shared_bytes,
      .hStream = stream,
      .attrs = &early,
      .numAttrs = 1,
  };
  CUresult result = device->driver->launch_kernel_ex(&config, module->function, args, NULL);
  return stg_scope_leave(&scope, result, "cuLaunchKernelEx", reterr);
}
