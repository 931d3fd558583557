/*
 * options.c: defaults and the environment, which is read here and nowhere else.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/engine.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

void stg_options_init(stg_options *options) {
  *options = (stg_options){.struct_size = sizeof *options};
}

/* "0" or "1"; unset and empty are 0. */
static stg_status read_switch(const char *name, bool *ret_on, stg_error *reterr) {
  const char *value = getenv(name);
  if (value == NULL || value[0] == '\0' || strcmp(value, "0") == 0) {
    *ret_on = false;
    return STG_OK;
  }
  if (strcmp(value, "1") == 0) {
    *ret_on = true;
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_INVALID, "%s: '%s' is neither 0 nor 1", name, value);
}

static stg_status read_log_level(stg_log_level *ret_level, stg_error *reterr) {
  static const struct {
    const char *name;
    stg_log_level level;
  } levels[] = {
      {"off", STG_LOG_OFF},   {"error", STG_LOG_ERROR}, {"warn", STG_LOG_WARN},
      {"info", STG_LOG_INFO}, {"debug", STG_LOG_DEBUG},
  };
  const char *value = getenv("STEERGRAPH_LOG");
  if (value == NULL || value[0] == '\0') {
    return STG_OK;
  }
  for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
    if (strcmp(value, levels[i].name) == 0) {
      *ret_level = levels[i].level;
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "STEERGRAPH_LOG: '%s' is none of off, error, warn, info, debug", value);
}

static stg_status read_cache_mode(stg_cache_mode *ret_mode, stg_error *reterr) {
  static const struct {
    const char *name;
    stg_cache_mode mode;
  } modes[] = {
      {"on", STG_CACHE_DEFAULT},      {"off", STG_CACHE_OFF},
      {"memory", STG_CACHE_MEMORY},   {"read-only", STG_CACHE_READ_ONLY},
      {"refresh", STG_CACHE_REFRESH},
  };
  const char *value = getenv("STEERGRAPH_CACHE");
  if (value == NULL || value[0] == '\0') {
    return STG_OK;
  }
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    if (strcmp(value, modes[i].name) == 0) {
      *ret_mode = modes[i].mode;
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "STEERGRAPH_CACHE: '%s' is none of on, off, memory, read-only, refresh",
                       value);
}

bool stg_limit_parse(const char *text, bool is_size, uint64_t *ret_limit) {
  static const char units[] = "KMG";
  uint64_t number = 0;
  const char *c = text;
  if (strcmp(text, "none") == 0) {
    *ret_limit = UINT64_MAX;
    return true;
  }
  for (; *c >= '0' && *c <= '9'; c++) {
    const uint64_t digit = (uint64_t)(*c - '0');
    if (number > (UINT64_MAX - digit) / 10) {
      return false;
    }
    number = number * 10 + digit;
  }
  const char *unit = *c != '\0' && is_size ? strchr(units, *c) : NULL;
  const unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
  c += unit != NULL;
  if (c == text || *c != '\0' || number == 0 || number > UINT64_MAX >> shift) {
    return false;
  }
  *ret_limit = number << shift;
  return true;
}

static stg_status read_limits(stg_options *options, stg_error *reterr) {
  const char *size = getenv("STEERGRAPH_CACHE_MAX_SIZE");
  const char *entries = getenv("STEERGRAPH_CACHE_MAX_ENTRIES");
  if (size != NULL && size[0] != '\0' && !stg_limit_parse(size, true, &options->cache_max_bytes)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "STEERGRAPH_CACHE_MAX_SIZE: '%s' is no size; write bytes or a number "
                         "with K, M or G, or none",
                         size);
  }
  if (entries != NULL && entries[0] != '\0' &&
      !stg_limit_parse(entries, false, &options->cache_max_entries)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "STEERGRAPH_CACHE_MAX_ENTRIES: '%s' is no number above 0, nor none",
                         entries);
  }
  return STG_OK;
}

#define MAX_PATH_BYTES 4096

/* Paths that were made up, which live as long as the process: one of each. */
struct kept_path {
  struct kept_path *next;
  char text[];
};

static const char *keep_path(const char *base, const char *tail) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct kept_path *kept;
  const size_t bytes = strlen(base) + strlen(tail) + 1;
  struct kept_path *made = bytes <= MAX_PATH_BYTES ? stg_malloc(sizeof *made + bytes) : NULL;
  if (made == NULL) {
    return NULL;
  }
  snprintf(made->text, bytes, "%s%s", base, tail);
  pthread_mutex_lock(&lock);
  struct kept_path *found = kept;
  while (found != NULL && strcmp(found->text, made->text) != 0) {
    found = found->next;
  }
  if (found == NULL) {
    made->next = kept;
    kept = made;
  }
  pthread_mutex_unlock(&lock);
  if (found != NULL) {
    stg_free(made);
  }
  return found != NULL ? found->text : made->text;
}

/* The folder behind a home or cache variable; NULL where there is none or its path is too long. */
static const char *default_cache_path(void) {
  const char *direct = getenv("STEERGRAPH_CACHE_DIR");
  const char *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  if (direct != NULL && direct[0] != '\0') {
    return direct;
  }
  const char *base = xdg != NULL && xdg[0] == '/'     ? xdg
                     : home != NULL && home[0] == '/' ? home
                                                      : NULL;
  const char *tail = base == xdg && base != NULL ? "/steergraph" : "/.cache/steergraph";
  return base != NULL ? keep_path(base, tail) : NULL;
}

stg_status stg_options_for_command(stg_options *options, stg_error *reterr) {
  stg_options read;
  stg_options_init(&read);
  bool no_jit = false;
  stg_status status = read_switch("STEERGRAPH_NO_JIT", &no_jit, reterr);
  if (status == STG_OK) {
    status = read_log_level(&read.log_level, reterr);
  }
  if (status == STG_OK) {
    status = read_cache_mode(&read.cache_mode, reterr);
  }
  if (status == STG_OK) {
    status = read_limits(&read, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  read.compile = no_jit ? STG_COMPILE_NEVER : STG_COMPILE_DEFAULT;
  read.cache_path = default_cache_path();
  read.nvrtc_options = getenv("NVRTC_APPEND_FLAGS");
  *options = read;
  return STG_OK;
}

stg_status stg_options_from_env(stg_options *options, stg_error *reterr) {
  if (options == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_options_from_env: options is NULL");
  }
  stg_options read;
  bool enabled = false;
  stg_status status = read_switch("STEERLLM_COMPILE_STEERING", &enabled, reterr);
  if (status == STG_OK) {
    status = stg_options_for_command(&read, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  read.enabled = enabled;
  *options = read;
  return STG_OK;
}

bool stg_enabled(const stg_options *options) {
  return options != NULL && options->struct_size == sizeof *options && options->enabled;
}
