/*
 * nvrtc.c: find libnvrtc and the builtins library beside it, fill the table, learn its version.
 *
 * Loading costs 200 to 400 ms, so nothing but a compile, and who asks for its version, comes here.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): dladdr */
#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "runtime/base/thread.h"
#include "runtime/clock.h"
#include "runtime/compile.h"

/* The rows are written by hand, so hold each against the toolkit's own declaration. */
#define HOLD_REQUIRED(member, symbol)                                                              \
  _Static_assert(__builtin_types_compatible_p(__typeof__(((struct stg_nvrtc *)0)->member),         \
                                              __typeof__(&symbol)),                                \
                 #symbol ": the row differs from the header");
#define HOLD_OPTIONAL(member, symbol) /* older headers do not declare it */
#define STG_NVRTC_FN(need, type, member, symbol, parameters) HOLD_##need(member, symbol)
#include "runtime/nvrtc_api.def"
#undef STG_NVRTC_FN

struct nvrtc_row {
  const char *symbol;
  size_t offset;
  enum { REQUIRED, OPTIONAL } need;
};

static const struct nvrtc_row nvrtc_rows[] = {
#define STG_NVRTC_FN(need, type, member, symbol, parameters)                                       \
  {#symbol, offsetof(struct stg_nvrtc, member), need},
#include "runtime/nvrtc_api.def"
#undef STG_NVRTC_FN
};

/* How long a process that ends waits for who is in NVRTC: 10 s, a poll each 2 ms. */
#define END_POLL_NS 2000000
#define END_POLLS 5000
/* How often that is registered: by then NVRTC has made all that it makes at first use. */
#define MOST_REGISTERED 1000

/* Newest first; "" is the loader's own search, which also finds what the host has loaded. */
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
static const char *const nvrtc_folders[] = {
    "",
    STG_TOOLKIT_ROOT "/lib64/",
    "/usr/local/cuda/lib64/",
    "/opt/cuda/lib64/",
};

static struct stg_nvrtc nvrtc_table;
static stg_status nvrtc_status;
static stg_error nvrtc_error;
static atomic_bool nvrtc_loaded, nvrtc_load_taken;
static struct stg_nvrtc_load nvrtc_load;
static pid_t nvrtc_owner; /* the process that loaded it */
static atomic_uint nvrtc_inside, nvrtc_registered;
static atomic_bool nvrtc_ending;
static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;

/* A file that is there but does not load tells more than one that is not. */
static void keep_reason(char *reason, size_t size) {
  const char *text = dlerror();
  if (reason[0] == '\0' && text != NULL && strstr(text, "No such file") == NULL) {
    snprintf(reason, size, " (%s)", text);
  }
}

/* The toolkit the build used may be the usual one, which is then tried and named once. */
static bool is_repeated(size_t folder) {
  for (size_t i = 0; i < folder; i++) {
    if (strcmp(nvrtc_folders[i], nvrtc_folders[folder]) == 0) {
      return true;
    }
  }
  return false;
}

static stg_status find_library(void **ret_library, stg_error *reterr) {
  char reason[160] = "";
  char tried[200] = "";
  for (size_t f = 0; f < sizeof nvrtc_folders / sizeof nvrtc_folders[0]; f++) {
    if (is_repeated(f)) {
      continue;
    }
    size_t used = strlen(tried);
    snprintf(tried + used, sizeof tried - used, "%s%s", f == 0 ? "the loader's path" : ", ",
             nvrtc_folders[f]);
    for (size_t n = 0; n < sizeof nvrtc_names / sizeof nvrtc_names[0]; n++) {
      char path[512];
      snprintf(path, sizeof path, "%s%s", nvrtc_folders[f], nvrtc_names[n]);
      *ret_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (*ret_library != NULL) {
        return STG_OK;
      }
      keep_reason(reason, sizeof reason);
    }
  }
  return stg_error_set(reterr, STG_E_NO_DEVICE,
                       "no NVRTC: %s and %s are in none of %s%s; install NVRTC 12 or 13 (package "
                       "cuda-nvrtc) or put its folder on LD_LIBRARY_PATH",
                       nvrtc_names[0], nvrtc_names[1], tried, reason);
}

static stg_status fill_table(struct stg_nvrtc *table, void *library, stg_error *reterr) {
  for (size_t i = 0; i < sizeof nvrtc_rows / sizeof nvrtc_rows[0]; i++) {
    void *address = dlsym(library, nvrtc_rows[i].symbol);
    if (address == NULL && nvrtc_rows[i].need == REQUIRED) {
      return stg_error_set(reterr, STG_E_NO_DEVICE,
                           "the NVRTC that was found has no %s; install NVRTC 12 or 13",
                           nvrtc_rows[i].symbol);
    }
    /* dlsym gives an object pointer; ISO C has no cast from it to a function */
    memcpy((char *)table + nvrtc_rows[i].offset, &address, sizeof address);
  }
  nvrtcResult result = table->version(&table->major, &table->minor);
  if (result != NVRTC_SUCCESS) {
    return stg_error_set(reterr, STG_E_NO_DEVICE, "nvrtcVersion failed: %s",
                         table->get_error_string(result));
  }
  return STG_OK;
}

static stg_status learn_path(struct stg_nvrtc *table, void *library, stg_error *reterr) {
  Dl_info info = {0};
  void *address = dlsym(library, "nvrtcVersion");
  const char *path = dladdr(address, &info) != 0 ? info.dli_fname : NULL;
  table->path = stg_strdup(path != NULL ? path : "libnvrtc");
  return table->path != NULL ? STG_OK : stg_error_memory(reterr, "NVRTC's path", 0);
}

/*
 * NVRTC opens its builtins by bare name at the first compile, which fails for a library that was
 * itself found outside of the loader's path. Loaded before, the name is taken.
 */
static stg_status preload_builtins(struct stg_nvrtc *table, stg_error *reterr) {
  snprintf(table->builtins, sizeof table->builtins, "libnvrtc-builtins.so.%d.%d", table->major,
           table->minor);
  char *folder = stg_path_folder(table->path);
  char *path = folder != NULL ? stg_path_join(folder, table->builtins) : NULL;
  stg_free(folder);
  if (path == NULL) {
    return stg_error_memory(reterr, "the path of NVRTC's builtins", 0);
  }
  table->builtins_found = dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL ||
                          dlopen(table->builtins, RTLD_NOW | RTLD_LOCAL) != NULL;
  stg_free(path);
  return STG_OK;
}

/*
 * At exit, ahead of NVRTC's own destructors, since it is registered behind them. Not in a child,
 * where the threads that were inside do not exist; and not for ever, if one of them is this one:
 * all that are registered share one wait.
 */
static void end_nvrtc(void) {
  static unsigned polls = END_POLLS;
  const struct timespec pause = {.tv_nsec = END_POLL_NS};
  atomic_store(&nvrtc_ending, true);
  for (; polls > 0 && getpid() == nvrtc_owner; polls--) {
    if (atomic_load(&nvrtc_inside) == 0) {
      return;
    }
    nanosleep(&pause, NULL);
  }
}

void stg_nvrtc_stay_ahead(void) {
  if (atomic_load(&nvrtc_registered) < MOST_REGISTERED && !atomic_load(&nvrtc_ending)) {
    atomic_fetch_add(&nvrtc_registered, 1);
    (void)atexit(end_nvrtc);
  }
}

bool stg_nvrtc_enter(void) {
  atomic_fetch_add(&nvrtc_inside, 1);
  if (atomic_load(&nvrtc_ending)) {
    atomic_fetch_sub(&nvrtc_inside, 1);
    return false;
  }
  return true;
}

void stg_nvrtc_leave(void) {
  atomic_fetch_sub(&nvrtc_inside, 1);
}

bool stg_nvrtc_is_ending(void) {
  return atomic_load(&nvrtc_ending);
}

static void load_nvrtc(void) {
  void *library = NULL;
  nvrtc_load = (struct stg_nvrtc_load){.thread = stg_thread_id(), .from_ns = stg_clock_ns()};
  atomic_store(&nvrtc_table.build, STG_NVRTC_BUILD_UNKNOWN);
  nvrtc_status = find_library(&library, &nvrtc_error);
  if (nvrtc_status == STG_OK) {
    nvrtc_status = fill_table(&nvrtc_table, library, &nvrtc_error);
  }
  if (nvrtc_status == STG_OK) {
    nvrtc_status = learn_path(&nvrtc_table, library, &nvrtc_error);
  }
  if (nvrtc_status == STG_OK) {
    nvrtc_status = preload_builtins(&nvrtc_table, &nvrtc_error);
  }
  nvrtc_owner = getpid();
  if (nvrtc_status == STG_OK && atexit(end_nvrtc) != 0) {
    nvrtc_status = stg_error_memory(&nvrtc_error, "what is to be done at exit", 0);
  }
  nvrtc_load.to_ns = stg_clock_ns();
  atomic_store(&nvrtc_loaded, nvrtc_status == STG_OK);
}

stg_status stg_nvrtc_get(struct stg_nvrtc **ret_nvrtc, stg_error *reterr) {
  pthread_once(&nvrtc_once, load_nvrtc);
  if (nvrtc_status != STG_OK) {
    stg_error_set(reterr, nvrtc_status, "%s", nvrtc_error.message);
    return nvrtc_status;
  }
  *ret_nvrtc = &nvrtc_table;
  return STG_OK;
}

bool stg_nvrtc_take_load(struct stg_nvrtc_load *ret_load) {
  if (!atomic_load(&nvrtc_loaded) || atomic_exchange(&nvrtc_load_taken, true)) {
    return false;
  }
  *ret_load = nvrtc_load;
  return true;
}

bool stg_nvrtc_is_loaded(void) {
  return atomic_load(&nvrtc_loaded);
}

nvrtcResult stg_nvrtc_compile(const struct stg_nvrtc *nvrtc, nvrtcProgram program, int n_options,
                              const char *const *options) {
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  nvrtcResult result = nvrtc->compile_program(program, n_options, options);
  stg_interrupt_release(&hold);
  return result;
}

bool stg_nvrtc_since(const struct stg_nvrtc *nvrtc, int major, int minor) {
  return nvrtc->major > major || (nvrtc->major == major && nvrtc->minor >= minor);
}
