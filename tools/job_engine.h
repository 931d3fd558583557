/*
 * job_engine.h: an engine as the command opens it, whatever the family of the work.
 */
#ifndef STG_TOOLS_JOB_ENGINE_H
#define STG_TOOLS_JOB_ENGINE_H

#include <steergraph/steer.h>

struct stg_job_options {
  stg_backend backend;
  stg_launch_mode launch;
  const char *cache_path;   /* NULL: from the environment */
  const char *pack_path;    /* NULL: the installed one, where there is one; "": none */
  uint32_t compile_threads; /* 0: the engine's default */
  stg_compile_mode compile; /* DEFAULT: block; the environment may forbid it */
  bool cache_read_only;     /* nothing will be stored */
  bool cache_is_own;        /* a folder of the command's own, so STEERGRAPH_CACHE is not about it */
  bool allow_outside;       /* paths of the workload may leave its folder */
  bool declare_used;        /* declare the ops in use instead of all ops there are */
  stg_log_fn log;           /* NULL: the command's */
  void *log_user;
};

/**
 * Open an engine with options from the environment, overridden by `options`, and the command's log
 * unless they name another.
 */
STG_NODISCARD stg_status stg_job_open_engine(const struct stg_job_options *options,
                                             stg_engine **ret_engine, stg_error *reterr);
/** "auto", "cpu" or "cuda", which the words' grammar has checked; NULL is auto. */
stg_backend stg_job_backend(const char *word);
/** Close it; that something is still alive would be a bug of the command. */
void stg_job_close_engine(stg_engine *engine);

/** Read an op definition file and register it. */
STG_NODISCARD stg_status stg_job_register_op(stg_engine *engine, const char *path,
                                             stg_error *reterr);

#endif
