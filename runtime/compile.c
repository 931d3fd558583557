/*
 * compile.c: one kernel's text to a cubin, through NVRTC.
 *
 * Knows the options that make our numbers ours, and how to say what NVRTC complains about. Knows no
 * cache and no device.
 */
#include "runtime/compile.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/thread.h"
#include "runtime/clock.h"
#include "runtime/cubin.h"
#include "runtime/nvrtc.h"
#include "runtime/nvtx.h"

#define SOURCE_NAME "steergraph.cu" /* fixed: a name of the user's would get into the output */
#define KEY_ONLY_PREFIX "env:"      /* an option that NVRTC reads from the environment by itself */
#define N_FIXED_OPTIONS 5

/* One program on its way. `text` and `log` are owned. */
struct compilation {
  struct stg_nvrtc *nvrtc;
  nvrtcProgram program;
  char *text;
  char *log;
};

static void finish_compilation(struct compilation *c) {
  if (c->program != NULL) {
    c->nvrtc->destroy_program(&c->program);
  }
  stg_free(c->text);
  stg_free(c->log);
}

static stg_status unknown_arch(const struct stg_nvrtc *nvrtc, uint32_t sm, const char *arch,
                               const int *archs, size_t count, stg_error *reterr) {
  char list[256] = "";
  size_t used = 0;
  bool too_old = true; /* newer ones drop architectures: it may be too new */
  for (size_t i = 0; i < count && used < sizeof list; i++) {
    int n = snprintf(list + used, sizeof list - used, " sm_%d", archs[i]);
    used += n > 0 ? (size_t)n : 0;
    too_old = too_old && archs[i] < (int)sm;
  }
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "NVRTC %d.%d ('%s') does not know architecture '%s'; put the folder of %s "
                       "one on LD_LIBRARY_PATH (package cuda-nvrtc); this one knows%s",
                       nvrtc->major, nvrtc->minor, nvrtc->path, arch,
                       too_old ? "a newer" : "another", list);
}

static stg_status check_arch(const struct stg_nvrtc *nvrtc, const char *arch, stg_error *reterr) {
  uint32_t sm = 0;
  if (!stg_arch_parse(arch, &sm)) {
    return stg_error_set(reterr, STG_E_INVALID, "architecture '%s' is not of the form sm_90", arch);
  }
  int *archs = NULL;
  size_t count = 0;
  stg_status status = stg_nvrtc_list_archs(nvrtc, &archs, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  bool known = false;
  for (size_t i = 0; i < count; i++) {
    known = known || archs[i] == (int)sm;
  }
  if (!known) {
    status = unknown_arch(nvrtc, sm, arch, archs, count, reterr);
  }
  stg_free(archs);
  return status;
}

/* Prelude and source as one text; the log's line numbers count in it. */
static stg_status join_source(struct compilation *c, const struct stg_kernel_request *request,
                              stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, request->prelude);
  stg_strbuf_str(&text, request->source);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    c->text = stg_strbuf_take(&text);
  }
  stg_strbuf_finish(&text);
  return status;
}

static nvrtcResult run_compiler(const struct compilation *c,
                                const struct stg_kernel_request *request, const char **options) {
  char arch[32 + STG_ARCH_CHARS];
  snprintf(arch, sizeof arch, "--gpu-architecture=%s", request->arch);
  int n = 0;
  options[n++] = arch;
  for (size_t i = 0; i < STG_FIXED_OPTION_COUNT; i++) {
    options[n++] = stg_fixed_options[i];
  }
  if (stg_nvrtc_since(c->nvrtc, 12, 9)) {
    options[n++] = "--no-cache"; /* its own cache loads libcuda and writes to the home folder */
  }
  for (size_t i = 0; i < request->n_options; i++) {
    if (strncmp(request->options[i], KEY_ONLY_PREFIX, strlen(KEY_ONLY_PREFIX)) != 0) {
      options[n++] = request->options[i];
    }
  }
  return stg_nvrtc_compile(c->nvrtc, c->program, n, options);
}

/* Fetched before the result is looked at: a failure explains itself only here. */
static stg_status fetch_log(struct compilation *c, stg_error *reterr) {
  size_t size = 0;
  nvrtcResult result = c->nvrtc->get_log_size(c->program, &size);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(c->nvrtc, result, "nvrtcGetProgramLogSize", reterr);
  }
  c->log = stg_calloc(size + 1, 1);
  if (c->log == NULL) {
    return stg_error_memory(reterr, "the compiler's log", size);
  }
  result = c->nvrtc->get_log(c->program, c->log);
  return result == NVRTC_SUCCESS ? STG_OK
                                 : stg_nvrtc_fail(c->nvrtc, result, "nvrtcGetProgramLog", reterr);
}

/* The line of `log` that says what is wrong; its length in `*ret_len`. */
static const char *first_diagnostic(const char *log, size_t *ret_len) {
  static const char *const marks[] = {"error:", "error", "fatal"};
  const char *at = NULL;
  for (size_t i = 0; at == NULL && i < sizeof marks / sizeof marks[0]; i++) {
    at = strstr(log, marks[i]);
  }
  at = at != NULL ? at : log;
  while (at > log && at[-1] != '\n') {
    at--;
  }
  *ret_len = strcspn(at, "\n");
  return at;
}

static void log_numbered(const struct stg_log *log, const char *text) {
  struct stg_strbuf numbered = {0};
  unsigned line = 1;
  while (*text != '\0') {
    size_t len = strcspn(text, "\n");
    stg_strbuf_printf(&numbered, "%5u  %.*s\n", line++, (int)len, text);
    text += len + (text[len] == '\n');
  }
  stg_log_text(log, STG_LOG_DEBUG, stg_strbuf_text(&numbered));
  stg_strbuf_finish(&numbered);
}

static stg_status compile_fail(const struct compilation *c,
                               const struct stg_kernel_request *request, nvrtcResult result,
                               const struct stg_log *log, stg_error *reterr) {
  const struct stg_nvrtc *nvrtc = c->nvrtc;
  if (c->log[0] != '\0') {
    stg_log_text(log, STG_LOG_ERROR, c->log);
  }
  log_numbered(log, c->text);
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return stg_nvrtc_fail(nvrtc, result, "nvrtcCompileProgram", reterr);
  }
  size_t len = 0;
  const char *line = first_diagnostic(c->log, &len);
  if (len == 0) {
    line = nvrtc->get_error_string(result);
    len = strlen(line);
  }
  /* a suffix that the number does not have ("sm_80a") comes out under the front end's own name */
  bool bad_arch = strstr(line, "gpu-architecture") != NULL || strstr(line, "nv_arch") != NULL;
  stg_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? STG_E_NO_MEMORY
                      : bad_arch                          ? STG_E_UNSUPPORTED
                                                          : STG_E_COMPILE;
  return stg_error_set(reterr, status, "NVRTC %d.%d refuses kernel '%s' for %s: %.*s", nvrtc->major,
                       nvrtc->minor, request->name, request->arch, (int)len, line);
}

static stg_status fetch_cubin(const struct compilation *c, struct stg_kernel_image *image,
                              stg_error *reterr) {
  size_t size = 0;
  nvrtcResult result = c->nvrtc->get_cubin_size(c->program, &size);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(c->nvrtc, result, "nvrtcGetCUBINSize", reterr);
  }
  char *cubin = stg_malloc(size);
  if (cubin == NULL) {
    return stg_error_memory(reterr, "a cubin", size);
  }
  result = c->nvrtc->get_cubin(c->program, cubin);
  if (result != NVRTC_SUCCESS) {
    stg_free(cubin);
    return stg_nvrtc_fail(c->nvrtc, result, "nvrtcGetCUBIN", reterr);
  }
  image->cubin = cubin;
  image->cubin_size = size;
  return STG_OK;
}

static bool is_cancelled(const struct stg_kernel_request *request) {
  return stg_nvrtc_is_ending() || (request->cancel != NULL && atomic_load(request->cancel));
}

/* NVRTC asks this at several points of a compile; `payload` is the request. */
static int wants_to_stop(void *payload, void *reserved) {
  (void)reserved;
  stg_nvrtc_stay_ahead();
  return is_cancelled(payload) ? 1 : 0;
}

static stg_status cancelled(const struct stg_kernel_request *request, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_CANCELLED, "the compile of kernel '%s' for %s was given up",
                       request->name, request->arch);
}

static stg_status create_and_compile(struct compilation *c,
                                     const struct stg_kernel_request *request,
                                     const struct stg_log *log, stg_error *reterr) {
  nvrtcResult result = c->nvrtc->create_program(&c->program, c->text, SOURCE_NAME, 0, NULL, NULL);
  if (result != NVRTC_SUCCESS) {
    return stg_nvrtc_fail(c->nvrtc, result, "nvrtcCreateProgram", reterr);
  }
  struct stg_kernel_request asked = *request;
  if (c->nvrtc->set_flow_callback != NULL) {
    result = c->nvrtc->set_flow_callback(c->program, wants_to_stop, &asked);
    if (result != NVRTC_SUCCESS) {
      return stg_nvrtc_fail(c->nvrtc, result, "nvrtcSetFlowCallback", reterr);
    }
  }
  const char **options = stg_calloc(request->n_options + N_FIXED_OPTIONS, sizeof *options);
  if (options == NULL) {
    return stg_error_memory(reterr, "compile options", request->n_options * sizeof *options);
  }
  result = run_compiler(c, request, options);
  stg_free(options);
  if (is_cancelled(request)) {
    return cancelled(request, reterr);
  }
  stg_status status = fetch_log(c, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (result != NVRTC_SUCCESS) {
    return compile_fail(c, request, result, log, reterr);
  }
  if (c->log[0] != '\0') {
    stg_log_text(log, STG_LOG_DEBUG, c->log);
  }
  return STG_OK;
}

static stg_status compile(struct compilation *c, const struct stg_kernel_request *request,
                          const struct stg_log *log, struct stg_kernel_image *image,
                          stg_error *reterr) {
  stg_status status = check_arch(c->nvrtc, request->arch, reterr);
  if (status == STG_OK) {
    status = join_source(c, request, reterr);
  }
  if (status == STG_OK) {
    status = create_and_compile(c, request, log, reterr);
  }
  if (status == STG_OK) {
    status = fetch_cubin(c, image, reterr);
  }
  return status == STG_OK ? stg_nvrtc_learn_build(c->nvrtc, c->program, reterr) : status;
}

/* A stretch of time on a thread, as compile.h describes it. */
static void log_interval(const struct stg_log *log, const char *what,
                         const struct stg_nvrtc_load *at, const char *failure, const char *about) {
  const uint64_t second = 1000000000;
  stg_log_printf(
      log, STG_LOG_INFO,
      "nvrtc: %s on thread %ld from %llu.%09llu to %llu.%09llu (%.1f ms%s%s): %s", what, at->thread,
      (unsigned long long)(at->from_ns / second), (unsigned long long)(at->from_ns % second),
      (unsigned long long)(at->to_ns / second), (unsigned long long)(at->to_ns % second),
      (double)(at->to_ns - at->from_ns) * 1e-6, failure[0] != '\0' ? ", " : "", failure, about);
}

static void log_compile(const struct stg_log *log, const struct stg_kernel_request *request,
                        uint64_t from_ns, stg_status status) {
  const struct stg_nvrtc_load at = {
      .thread = stg_thread_id(), .from_ns = from_ns, .to_ns = stg_clock_ns()};
  struct stg_key key = {0};
  char what[16 + STG_KEY_HEX_CHARS + 1] = "compile ";
  if (stg_kernel_request_key(request, &key, NULL) == STG_OK) {
    stg_key_hex(key, what + strlen(what));
  }
  log_interval(log, what, &at, status != STG_OK ? stg_status_name(status) : "", request->signature);
}

static stg_status compile_image(const struct stg_kernel_request *request, const struct stg_log *log,
                                struct stg_kernel_image *ret_image, stg_error *reterr) {
  uint64_t start_ns = stg_clock_ns();
  struct compilation c = {0};
  struct stg_kernel_image image = {0};
  struct stg_nvrtc_load load;
  if (is_cancelled(request)) {
    return cancelled(request, reterr);
  }
  stg_status status = stg_nvrtc_get(&c.nvrtc, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_nvrtc_take_load(&load)) {
    log_interval(log, "load", &load, "", c.nvrtc->path);
  }
  uint64_t entered_ns = stg_clock_ns();
  if (!stg_nvrtc_enter()) {
    return cancelled(request, reterr);
  }
  status = compile(&c, request, log, &image, reterr);
  finish_compilation(&c);
  stg_nvrtc_stay_ahead();
  stg_nvrtc_leave();
  log_compile(log, request, entered_ns, status);
  if (status != STG_OK) {
    stg_free(image.cubin);
    return status;
  }
  stg_nvrtc_print_compiler(c.nvrtc, image.compiler);
  image.compile_ms = (double)(stg_clock_ns() - start_ns) * 1e-6;
  *ret_image = image;
  return STG_OK;
}

stg_status stg_compile(const struct stg_kernel_request *request, const struct stg_log *log,
                       struct stg_kernel_image *ret_image, stg_error *reterr) {
  stg_nvtx_push("compile");
  const stg_status status = compile_image(request, log, ret_image, reterr);
  stg_nvtx_pop();
  return status;
}
