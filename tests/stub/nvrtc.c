/*
 * nvrtc.c: a stub of NVRTC, of the version that STUB_MAJOR, STUB_MINOR and STUB_BUILD say.
 *
 * A compile takes the name of the `extern "C" __global__` kernel from the text and makes a cubin of
 * it (make_cubin.h), whose code is a hash of text, options and version: equal requests get equal
 * bytes, and no others do. What the environment says, read at each compile:
 *   STG_STUB_NVRTC_LOG=FILE   one line is appended for each compile of a kernel: pid, hash, arch
 *   STG_STUB_NVRTC_MS=N       a compile takes as long, and asks the flow callback each millisecond
 *   STG_STUB_NVRTC_FAIL=compile|memory   what a compile ends with
 *   STG_STUB_NVRTC_ARCHS=80,90           what it knows; otherwise 80, 90 and 100
 * Without its builtins (nvrtc_builtins.c) in the process it fails as NVRTC does.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): RTLD_NOLOAD */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/nvrtc.h"
#include "tests/stub/make_cubin.h"

#define EXPORT __attribute__((visibility("default")))
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION TEXT(STUB_MAJOR) "." TEXT(STUB_MINOR)
#define ARCH_OPTION "--gpu-architecture="
#define MAX_ARCHS 16
#define PARAM_BYTES 144
#define REGISTERS 40
#define MAX_THREADS 1024

typedef int (*flow_callback)(void *payload, void *reserved);

struct program {
  char *source;
  char log[256];
  unsigned char *cubin;
  size_t cubin_size;
  flow_callback callback;
  void *payload;
};

static const char ptx[] =
    "// Cuda compilation tools, release " VERSION ", V" VERSION "." TEXT(STUB_BUILD) "\n";

/* The library's own table says which these are; older headers do not declare the last. */
#define STG_NVRTC_FN(need, type, member, symbol, parameters) EXPORT type symbol parameters;
#include "runtime/nvrtc_api.def"
#undef STG_NVRTC_FN

static struct program *program_of(nvrtcProgram handle) {
  return (struct program *)(void *)handle;
}

static void hash(uint64_t *state, const char *text) {
  for (; *text != '\0'; text++) {
    *state = (*state ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  }
  *state = (*state ^ 0xff) * UINT64_C(0x100000001b3);
}

EXPORT const char *nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS                ? "NVRTC_SUCCESS"
         : result == NVRTC_ERROR_OUT_OF_MEMORY  ? "NVRTC_ERROR_OUT_OF_MEMORY"
         : result == NVRTC_ERROR_INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION"
                                                : "NVRTC_ERROR_COMPILATION";
}

EXPORT nvrtcResult nvrtcVersion(int *ret_major, int *ret_minor) {
  *ret_major = STUB_MAJOR;
  *ret_minor = STUB_MINOR;
  return NVRTC_SUCCESS;
}

static int list_archs(int *ret) {
  const char *text = getenv("STG_STUB_NVRTC_ARCHS");
  int count = 0;
  char *rest = NULL;
  for (text = text != NULL ? text : "80,90,100"; *text != '\0' && count < MAX_ARCHS;
       text = *rest == ',' ? rest + 1 : rest) {
    ret[count++] = (int)strtol(text, &rest, 10);
  }
  return count;
}

EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *ret_count) {
  int archs[MAX_ARCHS];
  *ret_count = list_archs(archs);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetSupportedArchs(int *ret_archs) {
  list_archs(ret_archs);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *ret_program, const char *source,
                                      const char *name, int n_headers, const char *const *headers,
                                      const char *const *include_names) {
  struct program *program = calloc(1, sizeof *program);
  (void)name;
  (void)n_headers;
  (void)headers;
  (void)include_names;
  if (program != NULL) {
    program->source = strdup(source);
  }
  if (program == NULL || program->source == NULL) {
    free(program);
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  *ret_program = (nvrtcProgram)(void *)program;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *handle) {
  struct program *program = program_of(*handle);
  free(program->source);
  free(program->cubin);
  free(program);
  *handle = NULL;
  return NVRTC_SUCCESS;
}

#if STUB_MAJOR >= 13 /* as in NVIDIA's: 12.4 cannot be stopped */
EXPORT nvrtcResult nvrtcSetFlowCallback(nvrtcProgram handle, flow_callback callback,
                                        void *payload) {
  program_of(handle)->callback = callback;
  program_of(handle)->payload = payload;
  return NVRTC_SUCCESS;
}
#endif

/* Of another one than ours nothing is known. */
static bool has_builtins(void) {
  void *library = dlopen("libnvrtc-builtins.so." VERSION, RTLD_NOW | RTLD_NOLOAD);
  const bool has = library != NULL && dlsym(library, "stub_nvrtc_builtins") != NULL;
  if (library != NULL) {
    dlclose(library);
  }
  return has;
}

/* False: the callback wants it to stop. */
static bool take_time(const struct program *program) {
  const char *text = getenv("STG_STUB_NVRTC_MS");
  const struct timespec pause = {.tv_nsec = 1000000};
  for (long ms = text != NULL ? strtol(text, NULL, 10) : 0; ms >= 0; ms--) {
    if (program->callback != NULL && program->callback(program->payload, NULL) != 0) {
      return false;
    }
    if (ms > 0) {
      nanosleep(&pause, NULL);
    }
  }
  return true;
}

/* The last word before the first '(' behind `__global__` that is not of an attribute. */
static bool find_kernel(const char *source, char ret_name[STUB_CUBIN_MAX_KERNEL + 1]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const char *at = strstr(source, "extern \"C\" __global__");
  at = at != NULL ? at + strlen("extern \"C\" __global__") : "";
  while (*at != '\0') {
    at += strcspn(at, letters);
    const size_t len = strspn(at, letters);
    const char *after = at + len + strspn(at + len, " \n");
    if (*after == '(' && len <= STUB_CUBIN_MAX_KERNEL && strncmp(at, "__", 2) != 0) {
      memcpy(ret_name, at, len);
      ret_name[len] = '\0';
      return true;
    }
    at += len;
  }
  return false;
}

static void write_log(uint64_t digest, const char *arch) {
  const char *path = getenv("STG_STUB_NVRTC_LOG");
  const int file = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
  char line[96];
  const int size = snprintf(line, sizeof line, "%ld %016llx %s\n", (long)getpid(),
                            (unsigned long long)digest, arch);
  if (file >= 0) {
    (void)!write(file, line, (size_t)size);
    close(file);
  }
}

/* What the stub of the driver can run (stub_launch_run). */
static bool runs_adds(const char *source) {
  return strstr(source, "typedef stg_f32 data;") != NULL &&
         strstr(source, "bool pair = false;") != NULL &&
         strstr(source, "bool windows = false;") != NULL;
}

static nvrtcResult make_cubin(struct program *program, const char *arch, uint64_t digest) {
  char kernel[STUB_CUBIN_MAX_KERNEL + 1];
  char code[128] = "";
  if (!find_kernel(program->source, kernel)) {
    snprintf(program->log, sizeof program->log,
             "steergraph.cu(1): error: the stub sees no extern \"C\" __global__ kernel\n");
    return NVRTC_ERROR_COMPILATION;
  }
  snprintf(code, sizeof code, "%snvrtc-" VERSION "." TEXT(STUB_BUILD) " %s %016llx",
           runs_adds(program->source) ? STUB_CUBIN_ADDS : "", arch, (unsigned long long)digest);
  const struct stub_cubin cubin = {.cuda_major = STUB_MAJOR,
                                   .sm = (uint32_t)strtoul(arch + strlen("sm_"), NULL, 10),
                                   .kernel = kernel,
                                   .param_bytes = PARAM_BYTES,
                                   .registers = REGISTERS,
                                   .max_threads = MAX_THREADS,
                                   .code = code,
                                   .code_bytes = sizeof code};
  program->cubin = stub_cubin_make(&cubin, &program->cubin_size);
  return program->cubin != NULL ? NVRTC_SUCCESS : NVRTC_ERROR_OUT_OF_MEMORY;
}

static nvrtcResult told_to_fail(struct program *program) {
  const char *text = getenv("STG_STUB_NVRTC_FAIL");
  if (text == NULL) {
    return NVRTC_SUCCESS;
  }
  if (strcmp(text, "memory") == 0) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  snprintf(program->log, sizeof program->log, "steergraph.cu(1): error: the stub was told to\n");
  return NVRTC_ERROR_COMPILATION;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int n_options,
                                       const char *const *options) {
  struct program *program = program_of(handle);
  const char *arch = "";
  uint64_t digest = UINT64_C(0xcbf29ce484222325);
  hash(&digest, program->source);
  for (int i = 0; i < n_options; i++) {
    hash(&digest, options[i]);
    if (strncmp(options[i], ARCH_OPTION, strlen(ARCH_OPTION)) == 0) {
      arch = options[i] + strlen(ARCH_OPTION);
    }
  }
  if (!has_builtins()) {
    return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
  }
  if (strncmp(arch, "sm_", 3) != 0) {
    return NVRTC_SUCCESS; /* asked for its version */
  }
  write_log(digest, arch);
  if (!take_time(program)) {
    return NVRTC_ERROR_COMPILATION;
  }
  const nvrtcResult result = told_to_fail(program);
  return result == NVRTC_SUCCESS ? make_cubin(program, arch, digest) : result;
}

EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram handle, size_t *ret_size) {
  *ret_size = strlen(program_of(handle)->log) + 1;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram handle, char *ret_log) {
  memcpy(ret_log, program_of(handle)->log, strlen(program_of(handle)->log) + 1);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram handle, size_t *ret_size) {
  *ret_size = program_of(handle)->cubin_size;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram handle, char *ret_cubin) {
  memcpy(ret_cubin, program_of(handle)->cubin, program_of(handle)->cubin_size);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram handle, size_t *ret_size) {
  (void)handle;
  *ret_size = sizeof ptx;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram handle, char *ret_ptx) {
  (void)handle;
  memcpy(ret_ptx, ptx, sizeof ptx);
  return NVRTC_SUCCESS;
}
