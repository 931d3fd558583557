/*
 * trial_compile.c: one small kernel through the whole path: source, NVRTC, entry, cache.
 *
 * Leaves nothing behind. Must not touch the user's cache.
 */
#include "tools/trial_compile.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/cache.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/report.h"
#include "tools/workload_job.h"

#define OPEN_FOLDERS 8

/* What an engine says of itself when it opens is no news here: whoever asks for a trial has had it
 * from an engine of its own. What the compiler does is. */
struct trial_log {
  bool is_open;
};

static void log_trial(void *user, stg_log_level level, const char *message) {
  const struct trial_log *log = user;
  if (log->is_open || level < STG_LOG_INFO) {
    stg_report_log(NULL, level, message);
  }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info;
  (void)kind;
  (void)place;
  return remove(path);
}

static stg_status make_folder(char **ret_folder, stg_error *reterr) {
  const char *parent = getenv("TMPDIR");
  if (parent == NULL || parent[0] == '\0') {
    parent = "/tmp";
  }
  char *folder = stg_path_join(parent, "steergraph-doctor-XXXXXX");
  if (folder == NULL) {
    stg_error_memory(reterr, "a path", strlen(parent));
    return STG_E_NO_MEMORY;
  }
  if (mkdtemp(folder) == NULL) {
    stg_error_io(reterr, errno, "make a folder like", folder);
    stg_free(folder);
    return STG_E_IO;
  }
  *ret_folder = folder;
  return STG_OK;
}

static stg_status compile_into(const char *folder, const char *arch, stg_error *reterr) {
  struct trial_log log = {.is_open = false};
  const struct stg_job_options options = {.backend = STG_BACKEND_CPU,
                                          .cache_path = folder,
                                          .pack_path = "",
                                          .cache_is_own = true,
                                          .log = log_trial,
                                          .log_user = &log};
  const char *const ops[] = {"add"};
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = 64,
                               .dtype = STG_F32,
                               .max_chain = 1,
                               .ops = ops,
                               .n_ops = 1};
  const struct stg_declared *declared = NULL;
  struct stg_arena arena = {0};
  stg_engine *engine = NULL;
  stg_status status = stg_job_open_engine(&options, &engine, reterr);
  if (status == STG_OK) {
    status = stg_declare_steer(engine, &desc, &arena, &declared, reterr);
  }
  if (status == STG_OK) {
    bool compiled = false;
    double compile_ms = 0;
    log.is_open = true;
    status = stg_offline_build(engine, declared, 0, arch, &compiled, &compile_ms, reterr);
  }
  stg_arena_finish(&arena);
  stg_job_close_engine(engine);
  return status;
}

static stg_status read_back(const char *folder, struct stg_trial *ret_trial, stg_error *reterr) {
  stg_cache *cache = NULL;
  stg_cache_entry entry = {0};
  stg_status status = stg_cache_open(folder, &cache, reterr);
  if (status == STG_OK) {
    status = stg_cache_get(cache, 0, &entry, reterr);
  }
  if (status == STG_OK && !entry.ok) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "%s: %s", entry.path, entry.problem);
  }
  if (status == STG_OK) {
    snprintf(ret_trial->compiler, sizeof ret_trial->compiler, "%s", entry.compiler);
    ret_trial->compile_ms = entry.compile_ms;
  }
  stg_cache_close(cache);
  return status;
}

stg_status stg_trial_compile(const char *arch, struct stg_trial *ret_trial, stg_error *reterr) {
  char *folder = NULL;
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = make_folder(&folder, reterr);
  if (status == STG_OK) {
    status = compile_into(folder, arch, reterr);
    if (status == STG_OK) {
      status = read_back(folder, ret_trial, reterr);
    }
    nftw(folder, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
  }
  stg_free(folder);
  stg_interrupt_release(&hold);
  return status;
}
