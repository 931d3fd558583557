/*
 * tier.h: the threads that compile for an engine: a few of them, and a bounded queue of jobs.
 *
 * Knows jobs and nothing of kernels. A job is a member of what it works on, and that keeps itself
 * alive until `done` was called. Threads are started when there is work for them, and block all
 * signals but faults of their own. The lock is a leaf: `run` and `done` are called without it.
 */
#ifndef STG_ENGINE_TIER_H
#define STG_ENGINE_TIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_tiers;

enum stg_job_state { STG_JOB_IDLE, STG_JOB_QUEUED, STG_JOB_RUNNING };

/* {0} but for `run`, `done` and `aside`. The rest is the pool's, under its lock. */
struct stg_job {
  void (*run)(struct stg_job *job);  /* the work: `cancel` says when to give it up */
  void (*done)(struct stg_job *job); /* once per submission: after `run`, or in place of it */
  atomic_bool cancel;                /* the pool is closing */
  bool aside; /* no compile: takes no room, is not counted, and no thread is started for it */
  enum stg_job_state state;
  struct stg_job *before, *after; /* in the queue, or among those that run */
};

/** Up to `threads` threads (at least 1), and up to `queue` jobs that wait. Starts nothing. */
STG_NODISCARD stg_status stg_tiers_create(size_t threads, size_t queue,
                                          struct stg_tiers **ret_tiers, stg_error *reterr);
/**
 * Call off what is queued (`done` without `run`), set `cancel` of what runs, and wait for the
 * threads. Not in a forked child, where there are none. NULL is fine.
 */
void stg_tiers_destroy(struct stg_tiers *tiers);

/**
 * Queue a job; `urgent` ahead of those that are not. One that is queued is only promoted, and one
 * that runs is left alone: STG_OK.
 * @return STG_E_CAPACITY when the queue is full (never for an urgent job) or, of a job that is
 * aside, when no thread was started so far, STG_E_NO_MEMORY when
 * there is no thread and none can be started, STG_E_FORKED; `done` is then not called. Any thread.
 */
STG_NODISCARD stg_status stg_tiers_submit(struct stg_tiers *tiers, struct stg_job *job, bool urgent,
                                          stg_error *reterr);
/**
 * Run a job on this thread, if it is still queued, with its `done`; false if it is not. The caller
 * keeps it alive. Any thread but the pool's.
 */
bool stg_tiers_help(struct stg_tiers *tiers, struct stg_job *job);
/** Whether this process is a child of the one that made the pool: its locks may be held for ever.
 */
bool stg_tiers_is_forked(const struct stg_tiers *tiers);

struct stg_tier_counters {
  uint64_t threads;     /* started */
  uint64_t max_threads; /* that may be */
  uint64_t queued, running;
  uint64_t refused; /* because the queue was full */
};
void stg_tiers_counters(struct stg_tiers *tiers, struct stg_tier_counters *ret);

#endif
