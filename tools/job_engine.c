/*
 * job_engine.c: an engine as the command opens it.
 */
#include "tools/job_engine.h"

#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/json.h"
#include "tools/report.h"

/* What the environment switches off stays off. */
static stg_cache_mode cache_mode(const struct stg_job_options *options,
                                 stg_cache_mode of_environment) {
  const bool writes = of_environment == STG_CACHE_DEFAULT || of_environment == STG_CACHE_REFRESH;
  if (options->cache_read_only && (writes || options->cache_is_own)) {
    return STG_CACHE_READ_ONLY;
  }
  return options->cache_is_own ? STG_CACHE_DEFAULT : of_environment;
}

stg_status stg_job_open_engine(const struct stg_job_options *options, stg_engine **ret_engine,
                               stg_error *reterr) {
  stg_options engine_options;
  stg_status status = stg_options_for_command(&engine_options, reterr);
  if (status != STG_OK) {
    return status;
  }
  engine_options.backend = options->backend;
  engine_options.launch = options->launch;
  if (options->cache_path != NULL) {
    engine_options.cache_path = options->cache_path;
  }
  engine_options.pack_path = options->pack_path;
  engine_options.compile_threads = options->compile_threads;
  engine_options.cache_mode = cache_mode(options, engine_options.cache_mode);
  if (engine_options.compile == STG_COMPILE_DEFAULT) {
    /* block: what is reported is the declared kernel */
    engine_options.compile =
        options->compile != STG_COMPILE_DEFAULT ? options->compile : STG_COMPILE_BLOCK;
  }
  engine_options.log = options->log != NULL ? options->log : stg_report_log;
  engine_options.log_user = options->log_user;
  return stg_engine_create(&engine_options, ret_engine, reterr);
}

stg_backend stg_job_backend(const char *word) {
  if (word == NULL || strcmp(word, "auto") == 0) {
    return STG_BACKEND_AUTO;
  }
  return strcmp(word, "cuda") == 0 ? STG_BACKEND_CUDA : STG_BACKEND_CPU;
}

void stg_job_close_engine(stg_engine *engine) {
  if (engine == NULL) {
    return;
  }
  stg_error err = STG_ERROR_INIT;
  if (stg_engine_destroy(engine, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
}

stg_status stg_job_register_op(stg_engine *engine, const char *path, stg_error *reterr) {
  char *text = NULL;
  size_t size = 0;
  stg_status status = stg_file_read(path, STG_JSON_MAX_BYTES, &text, &size, reterr);
  if (status == STG_OK) {
    status = stg_op_register(engine, path, text, size, reterr);
  }
  stg_free(text);
  return status;
}
