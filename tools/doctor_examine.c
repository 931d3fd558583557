/*
 * doctor_examine.c: what there is on this machine.
 *
 * Each part is tried, not guessed at: a backend by opening an engine, the compiler by compiling,
 * the cache by opening it. Prints nothing.
 */
#include "tools/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "tools/cache_folder.h"
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

/* The last folder of "RO:RO:RW" is the one that is written to. */
static const char *last_folder(const char *path_list) {
  const char *colon = strrchr(path_list, ':');
  return colon == NULL ? path_list : colon + 1;
}

/* A folder that is not there yet is made on the first store, where its parent allows. */
static stg_status check_folder(const char *folder, bool *ret_writable, stg_error *reterr) {
  char path[4096];
  struct stat facts;
  bool is_there = true;
  copy_text(path, sizeof path, folder);
  while (lstat(path, &facts) != 0) {
    is_there = false;
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
      copy_text(path, sizeof path, slash == NULL ? "." : "/");
      break;
    }
    *slash = '\0';
  }
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return stg_error_set(reterr, STG_E_IO, "the cache folder '%s': '%s' is no folder", folder,
                         path);
  }
  bool writable = access(path, W_OK | X_OK) == 0;
  if (!is_there && !writable) {
    return stg_error_set(reterr, STG_E_IO,
                         "the cache folder '%s' is not there, and '%s' cannot be written", folder,
                         path);
  }
  *ret_writable = writable;
  return STG_OK;
}

/* Note an element of the list that is a pack, when no engine would use it. */
static stg_status check_pack(struct stg_doctor_cache *cache, const char *element, size_t len,
                             stg_error *reterr) {
  struct stg_doctor_passed_over pack = {0};
  struct stat facts;
  stg_strbuf_mem(&pack.path, element, len);
  stg_status status = stg_strbuf_status(&pack.path, reterr);
  const char *path = stg_strbuf_text(&pack.path);
  if (status != STG_OK || len == 0 || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      stg_offline_pack_check(path, &pack.found.problem) == STG_OK) {
    stg_strbuf_finish(&pack.path);
    return status;
  }
  size_t bytes = (cache->n_packs + 1) * sizeof *cache->packs;
  struct stg_doctor_passed_over *packs = stg_realloc(cache->packs, bytes);
  if (packs == NULL) {
    stg_strbuf_finish(&pack.path);
    return stg_error_memory(reterr, "a list of packs", bytes);
  }
  cache->packs = packs;
  cache->packs[cache->n_packs++] = pack;
  return STG_OK;
}

static stg_status check_packs(struct stg_doctor_cache *cache, stg_error *reterr) {
  stg_status status = STG_OK;
  for (const char *piece = cache->path; piece != NULL && status == STG_OK;) {
    size_t len = strcspn(piece, ":");
    status = check_pack(cache, piece, len, reterr);
    piece = piece[len] == ':' ? piece + len + 1 : NULL;
  }
  return status;
}

static void cache_finish(struct stg_doctor_cache *cache) {
  for (size_t i = 0; i < cache->n_packs; i++) {
    stg_strbuf_finish(&cache->packs[i].path);
  }
  stg_free(cache->packs);
}

static void examine_cache(struct stg_doctor_cache *ret) {
  stg_options options;
  stg_error *problem = &ret->found.problem;
  if (stg_options_for_command(&options, problem) != STG_OK) {
    return;
  }
  ret->path = options.cache_path;
  if (ret->path == NULL || ret->path[0] == '\0') {
    ret->path = NULL;
    ret->found.ok = true;
    return;
  }
  stg_cache *cache = NULL;
  ret->found.ok = stg_cache_open_as_engine(ret->path, NULL, false, &cache, problem) == STG_OK &&
                  check_packs(ret, problem) == STG_OK &&
                  check_folder(last_folder(ret->path), &ret->writable, problem) == STG_OK;
  ret->entries = cache != NULL ? stg_cache_count(cache) : 0;
  for (size_t i = 0; i < ret->entries && ret->found.ok; i++) {
    stg_cache_entry entry;
    ret->found.ok = stg_cache_get(cache, i, &entry, problem) == STG_OK;
    ret->bad += ret->found.ok && !entry.ok && !entry.other_format;
  }
  stg_cache_close(cache);
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
  examine_cache(&ret->cache);
  examine_pack(&ret->pack);
}

void stg_doctor_finish(struct stg_diagnosis *diagnosis) {
  cache_finish(&diagnosis->cache);
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    stg_strbuf_finish(&diagnosis->variables[i].value);
  }
}
