/*
 * doctor/examine.c: what there is on this machine.
 *
 * Each part is tried, not guessed at: a backend by opening an engine, the compiler by compiling,
 * the cache by opening it (cache.c). Prints nothing.
 */
#include "tools/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "engine/offline.h"
#include "tools/workload_job.h"

/* Known to every toolkit that can serve a supported GPU. */
#define TRIAL_ARCH "sm_80"

const char *const stg_doctor_variables[STG_DOCTOR_VARIABLES] = {
    "STEERGRAPH_CACHE_DIR",
    "STEERGRAPH_CACHE",
    "STEERGRAPH_CACHE_MAX_SIZE",
    "STEERGRAPH_CACHE_MAX_ENTRIES",
    "STEERGRAPH_NO_JIT",
    "STEERGRAPH_LOG",
    "STEERLLM_COMPILE_STEERING",
    "NVRTC_APPEND_FLAGS",
    "XDG_CACHE_HOME",
    "HOME",
};

static void copy_text(char *to, size_t capacity, const char *from) {
  size_t len = strlen(from);
  len = len < capacity ? len : capacity - 1;
  memcpy(to, from, len);
  to[len] = '\0';
}

static void examine_backend(stg_backend backend, struct stg_doctor_backend *ret) {
  const struct stg_job_options options = {.backend = backend, .cache_path = "", .pack_path = ""};
  stg_engine *engine = NULL;
  ret->found.ok = stg_job_open_engine(&options, &engine, &ret->found.problem) == STG_OK;
  if (ret->found.ok) {
    stg_engine_info info = {.struct_size = sizeof info};
    stg_engine_get_info(engine, &info);
    copy_text(ret->device, sizeof ret->device, info.device);
    copy_text(ret->arch, sizeof ret->arch, info.arch);
    ret->driver_version = info.driver_version;
  }
  stg_job_close_engine(engine);
}

static void examine_pack(struct stg_doctor_pack *ret) {
  stg_cache *cache = NULL;
  ret->path = stg_installed_pack();
  ret->found.ok =
      ret->path == NULL || (stg_offline_pack_check(ret->path, &ret->found.problem) == STG_OK &&
                            stg_cache_open(ret->path, &cache, &ret->found.problem) == STG_OK);
  ret->entries = stg_cache_count(cache);
  stg_cache_close(cache);
}

/* The variable that a message "NAME: ..." is about, or NULL. */
static struct stg_doctor_variable *find_variable(struct stg_diagnosis *d, const char *message) {
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    size_t len = strlen(stg_doctor_variables[i]);
    if (strncmp(message, stg_doctor_variables[i], len) == 0 && message[len] == ':') {
      return &d->variables[i];
    }
  }
  return NULL;
}

/* Note what each variable is, also the one that hosts alone read. One with a wrong value is unset
 * for the rest of the process, so that it is said once and everything else is seen with defaults.
 */
static void examine_environment(struct stg_diagnosis *ret) {
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    const char *value = getenv(stg_doctor_variables[i]);
    ret->variables[i].set = value != NULL;
    ret->variables[i].found.ok = true;
    stg_strbuf_str(&ret->variables[i].value, value != NULL ? value : "");
  }
  stg_options options;
  stg_error problem = STG_ERROR_INIT;
  ret->environment_ok = true;
  ret->environment_serves = stg_options_for_command(&options, &problem) == STG_OK;
  while (stg_options_from_env(&options, &problem) != STG_OK) {
    ret->environment_ok = false;
    struct stg_doctor_variable *variable = find_variable(ret, problem.message);
    if (variable == NULL || !variable->found.ok) {
      return;
    }
    variable->found = (struct stg_doctor_finding){.ok = false, .problem = problem};
    unsetenv(stg_doctor_variables[variable - ret->variables]);
  }
}

void stg_doctor_examine(struct stg_diagnosis *ret) {
  examine_environment(ret);
  examine_backend(STG_BACKEND_CPU, &ret->cpu);
  examine_backend(STG_BACKEND_CUDA, &ret->gpu);
  ret->compiler.ok = stg_trial_compile(ret->gpu.found.ok ? ret->gpu.arch : TRIAL_ARCH, &ret->trial,
                                       &ret->compiler.problem) == STG_OK;
  stg_doctor_cache_examine(&ret->cache);
  examine_pack(&ret->pack);
}

void stg_doctor_finish(struct stg_diagnosis *diagnosis) {
  stg_doctor_cache_finish(&diagnosis->cache);
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    stg_strbuf_finish(&diagnosis->variables[i].value);
  }
}
