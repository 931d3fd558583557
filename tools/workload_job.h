/*
 * workload_job.h: from a workload file to an engine that can serve it.
 *
 * The bridge between specs/ (what the file says) and engine/ (what the library takes). A job is
 * what `run`, `explain` and `build` have in common: the workload, an engine with its user ops, the
 * description of its steer table, and its batch.
 */
#ifndef STG_TOOLS_WORKLOAD_JOB_H
#define STG_TOOLS_WORKLOAD_JOB_H

#include <steergraph/steer.h>

#include "specs/workload.h"

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

/* A vector of the workload, and which copy of it. */
struct stg_job_ref {
  uint32_t vector;
  uint32_t copy;
};

struct stg_job {
  struct stg_workload workload;
  stg_engine *engine;
  stg_steer_desc desc;                    /* text and lists live in the workload or the arena */
  const int32_t *row_map;                 /* [workload.rows]: slot, or STG_ROW_UNSTEERED */
  const int32_t *positions, *prompt_lens; /* [workload.rows] of each; NULL without windows */
  uint32_t requests;                      /* of the batch */
  uint32_t longest;                       /* rows of its longest request */
  struct stg_job_ref *refs;               /* vectors in use by any slot, sorted, each once */
  size_t n_refs;
  struct stg_arena arena;
};

/**
 * Load `path`, open an engine, register the workload's ops, describe its table and batch. Messages
 * carry the file and the place. `ret_job` is to be closed after success only.
 */
STG_NODISCARD stg_status stg_job_open(const char *path, const struct stg_job_options *options,
                                      struct stg_job *ret_job, stg_error *reterr);
/** Close what stg_job_open gave; everything made from its engine must have been destroyed. */
void stg_job_close(struct stg_job *job);

/** Index in job->refs of a vector in use. */
size_t stg_job_find_ref(const struct stg_job *job, struct stg_job_ref ref);

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
