/*
 * nvrtc_facts.c: what the loaded NVRTC says of itself: full version, architectures.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"

stg_status stg_nvrtc_fail(const struct stg_nvrtc *nvrtc, nvrtcResult result, const char *call,
                          stg_error *reterr) {
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return stg_error_set(reterr, STG_E_NO_DEVICE,
                         "NVRTC %d.%d ('%s') cannot use its %s%s: put that file beside it, or its "
                         "folder on LD_LIBRARY_PATH (package cuda-nvrtc)",
                         nvrtc->major, nvrtc->minor, nvrtc->path, nvrtc->builtins,
                         nvrtc->builtins_found ? "" : ", which was not found");
  }
  stg_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? STG_E_NO_MEMORY : STG_E_COMPILE;
  return stg_error_set(reterr, status, "%s of NVRTC %d.%d failed: %s", call, nvrtc->major,
                       nvrtc->minor, nvrtc->get_error_string(result));
}

stg_status stg_nvrtc_list_archs(const struct stg_nvrtc *nvrtc, int **ret_archs, size_t *ret_count,
                                stg_error *reterr) {
  int count = 0;
  nvrtcResult result = nvrtc->get_num_archs(&count);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(nvrtc, result, "nvrtcGetNumSupportedArchs", reterr);
  }
  int *archs = stg_calloc((size_t)count, sizeof *archs);
  if (archs == NULL) {
    return stg_error_memory(reterr, "the list of architectures", (size_t)count * sizeof *archs);
  }
  result = nvrtc->get_archs(archs);
  if (result != NVRTC_SUCCESS) {
    stg_free(archs);
    return stg_nvrtc_fail(nvrtc, result, "nvrtcGetSupportedArchs", reterr);
  }
  *ret_archs = archs;
  *ret_count = (size_t)count;
  return STG_OK;
}

stg_status stg_nvrtc_archs(int *ret, size_t capacity, size_t *ret_count, stg_error *reterr) {
  struct stg_nvrtc *nvrtc = NULL;
  int *archs = NULL;
  size_t count = 0;
  stg_status status = stg_nvrtc_get(&nvrtc, reterr);
  if (status == STG_OK) {
    status = stg_nvrtc_list_archs(nvrtc, &archs, &count, reterr);
  }
  if (status == STG_OK && archs != NULL) {
    *ret_count = count < capacity ? count : capacity;
    memcpy(ret, archs, *ret_count * sizeof *ret);
  }
  stg_free(archs);
  return status;
}

/* The number after " V13.0." in a PTX's head, or 0: a version without a build still names one. */
static int parse_build(const struct stg_nvrtc *nvrtc, const char *ptx) {
  char stem[32];
  snprintf(stem, sizeof stem, " V%d.%d.", nvrtc->major, nvrtc->minor);
  const char *at = strstr(ptx, stem);
  int build = 0;
  for (at = at != NULL ? at + strlen(stem) : ""; *at >= '0' && *at <= '9' && build < 100000; at++) {
    build = 10 * build + (*at - '0');
  }
  return build;
}

stg_status stg_nvrtc_learn_build(struct stg_nvrtc *nvrtc, nvrtcProgram program, stg_error *reterr) {
  if (atomic_load(&nvrtc->build) != STG_NVRTC_BUILD_UNKNOWN) {
    return STG_OK;
  }
  size_t size = 0;
  nvrtcResult result = nvrtc->get_ptx_size(program, &size);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(nvrtc, result, "nvrtcGetPTXSize", reterr);
  }
  char *ptx = stg_calloc(size + 1, 1);
  if (ptx == NULL) {
    return stg_error_memory(reterr, "a PTX text", size);
  }
  result = nvrtc->get_ptx(program, ptx);
  if (result == NVRTC_SUCCESS) {
    atomic_store(&nvrtc->build, parse_build(nvrtc, ptx));
  }
  stg_free(ptx);
  return result == NVRTC_SUCCESS ? STG_OK : stg_nvrtc_fail(nvrtc, result, "nvrtcGetPTX", reterr);
}

/* Who asks for the version before anything was compiled pays for the smallest compile. */
static stg_status ask_build(struct stg_nvrtc *nvrtc, stg_error *reterr) {
  if (atomic_load(&nvrtc->build) != STG_NVRTC_BUILD_UNKNOWN) {
    return STG_OK;
  }
  const char *options[] = {"--gpu-architecture=compute_80", "--modify-stack-limit=false",
                           "--no-cache"};
  int n_options = stg_nvrtc_since(nvrtc, 12, 9) ? 3 : 2;
  nvrtcProgram program = NULL;
  nvrtcResult result = nvrtc->create_program(&program, "", "version.cu", 0, NULL, NULL);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(nvrtc, result, "nvrtcCreateProgram", reterr);
  }
  result = stg_nvrtc_compile(nvrtc, program, n_options, options);
  stg_status status = result == NVRTC_SUCCESS
                          ? stg_nvrtc_learn_build(nvrtc, program, reterr)
                          : stg_nvrtc_fail(nvrtc, result, "nvrtcCompileProgram", reterr);
  nvrtc->destroy_program(&program);
  return status;
}

void stg_nvrtc_print_compiler(const struct stg_nvrtc *nvrtc, char ret[STG_COMPILER_CHARS]) {
  snprintf(ret, STG_COMPILER_CHARS, "nvrtc-%d.%d.%d", nvrtc->major, nvrtc->minor,
           atomic_load(&nvrtc->build));
}

bool stg_nvrtc_known_compiler(char ret[STG_COMPILER_CHARS]) {
  struct stg_nvrtc *nvrtc = NULL;
  if (!stg_nvrtc_is_loaded() || stg_nvrtc_get(&nvrtc, NULL) != STG_OK ||
      atomic_load(&nvrtc->build) == STG_NVRTC_BUILD_UNKNOWN) {
    return false;
  }
  stg_nvrtc_print_compiler(nvrtc, ret);
  return true;
}

stg_status stg_nvrtc_info(struct stg_nvrtc_info *ret_info, stg_error *reterr) {
  struct stg_nvrtc *nvrtc = NULL;
  stg_status status = stg_nvrtc_get(&nvrtc, reterr);
  if (status == STG_OK) {
    status = ask_build(nvrtc, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  ret_info->path = nvrtc->path;
  ret_info->major = nvrtc->major;
  ret_info->minor = nvrtc->minor;
  ret_info->build = atomic_load(&nvrtc->build);
  stg_nvrtc_print_compiler(nvrtc, ret_info->compiler);
  return STG_OK;
}
