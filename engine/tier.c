/*
 * tier.c: see tier.h. Two lists under one lock: what waits, urgent jobs first, and what runs.
 */
#include "engine/tier.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/base/alloc.h"

struct job_list {
  struct stg_job *first, *last;
  size_t count;
};

struct stg_tiers {
  pid_t owner; /* the process that its threads are in */
  size_t max_threads, max_queued;
  pthread_mutex_t lock;
  pthread_cond_t work; /* a job, or the end */
  struct job_list queue, running;
  struct stg_job *last_urgent;        /* of the queue */
  size_t aside_queued, aside_running; /* of the lists */
  pthread_t *threads;
  size_t n_threads, n_idle;
  uint64_t refused;
  bool closing;
};

static void insert_after(struct job_list *list, struct stg_job *place, struct stg_job *job) {
  job->before = place;
  job->after = place != NULL ? place->after : list->first;
  if (job->before != NULL) {
    job->before->after = job;
  } else {
    list->first = job;
  }
  if (job->after != NULL) {
    job->after->before = job;
  } else {
    list->last = job;
  }
  list->count++;
}

static void unlink_job(struct job_list *list, struct stg_job *job) {
  if (job->before != NULL) {
    job->before->after = job->after;
  } else {
    list->first = job->after;
  }
  if (job->after != NULL) {
    job->after->before = job->before;
  } else {
    list->last = job->before;
  }
  job->before = job->after = NULL;
  list->count--;
}

static void enqueue(struct stg_tiers *tiers, struct stg_job *job, bool urgent) {
  insert_after(&tiers->queue, urgent ? tiers->last_urgent : tiers->queue.last, job);
  if (urgent) {
    tiers->last_urgent = job;
  }
  job->state = STG_JOB_QUEUED;
  tiers->aside_queued += job->aside ? 1 : 0;
}

static void dequeue(struct stg_tiers *tiers, struct stg_job *job) {
  if (tiers->last_urgent == job) {
    tiers->last_urgent = job->before; /* all ahead of an urgent job are */
  }
  unlink_job(&tiers->queue, job);
  tiers->aside_queued -= job->aside ? 1 : 0;
  job->state = STG_JOB_IDLE;
}

/* Run a job that is queued. The lock is held before and after, not meanwhile. */
static void run_job(struct stg_tiers *tiers, struct stg_job *job) {
  dequeue(tiers, job);
  insert_after(&tiers->running, NULL, job);
  job->state = STG_JOB_RUNNING;
  tiers->aside_running += job->aside ? 1 : 0;
  pthread_mutex_unlock(&tiers->lock);
  job->run(job);
  pthread_mutex_lock(&tiers->lock);
  unlink_job(&tiers->running, job);
  tiers->aside_running -= job->aside ? 1 : 0;
  job->state = STG_JOB_IDLE;
  void (*done)(struct stg_job *) = job->done;
  pthread_mutex_unlock(&tiers->lock);
  done(job); /* may be the end of it */
  pthread_mutex_lock(&tiers->lock);
}

static void *work(void *user) {
  struct stg_tiers *tiers = user;
  pthread_mutex_lock(&tiers->lock);
  while (!tiers->closing) {
    if (tiers->queue.first != NULL) {
      run_job(tiers, tiers->queue.first);
    } else {
      tiers->n_idle++;
      pthread_cond_wait(&tiers->work, &tiers->lock);
      tiers->n_idle--;
    }
  }
  pthread_mutex_unlock(&tiers->lock);
  return NULL;
}

/* One thread more. It gets the mask of its maker: no signal of the host's lands there, but for
 * those that say that the thread itself went wrong. */
static bool start_thread(struct stg_tiers *tiers) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t all, before;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    sigdelset(&all, own[i]);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&tiers->threads[tiers->n_threads], NULL, work, tiers) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  tiers->n_threads += started ? 1 : 0;
  return started;
}

stg_status stg_tiers_create(size_t threads, size_t queue, struct stg_tiers **ret_tiers,
                            stg_error *reterr) {
  struct stg_tiers *tiers = stg_calloc(1, sizeof *tiers);
  pthread_t *handles = stg_calloc(threads, sizeof *handles);
  if (tiers == NULL || handles == NULL) {
    stg_free(tiers);
    stg_free(handles);
    return stg_error_memory(reterr, "threads that compile", threads * sizeof *handles);
  }
  *tiers = (struct stg_tiers){
      .owner = getpid(), .max_threads = threads, .max_queued = queue, .threads = handles};
  pthread_mutex_init(&tiers->lock, NULL);
  pthread_cond_init(&tiers->work, NULL);
  *ret_tiers = tiers;
  return STG_OK;
}

bool stg_tiers_is_forked(const struct stg_tiers *tiers) {
  return tiers->owner != getpid();
}

void stg_tiers_destroy(struct stg_tiers *tiers) {
  if (tiers == NULL) {
    return;
  }
  assert(!stg_tiers_is_forked(tiers));
  pthread_mutex_lock(&tiers->lock);
  tiers->closing = true;
  for (struct stg_job *job = tiers->running.first; job != NULL; job = job->after) {
    atomic_store(&job->cancel, true);
  }
  while (tiers->queue.first != NULL) {
    struct stg_job *job = tiers->queue.first;
    dequeue(tiers, job);
    pthread_mutex_unlock(&tiers->lock);
    job->done(job);
    pthread_mutex_lock(&tiers->lock);
  }
  pthread_cond_broadcast(&tiers->work);
  pthread_mutex_unlock(&tiers->lock);
  for (size_t i = 0; i < tiers->n_threads; i++) {
    pthread_join(tiers->threads[i], NULL);
  }
  pthread_cond_destroy(&tiers->work);
  pthread_mutex_destroy(&tiers->lock);
  stg_free(tiers->threads);
  stg_free(tiers);
}

/* Under the lock, for a job that is idle. */
static stg_status add_job(struct stg_tiers *tiers, struct stg_job *job, bool urgent,
                          stg_error *reterr) {
  const size_t compiles = tiers->queue.count - tiers->aside_queued;
  if (job->aside && tiers->n_threads == 0) {
    return stg_error_set(reterr, STG_E_CAPACITY, "no thread compiles");
  }
  if (!urgent && !job->aside && compiles >= tiers->max_queued) {
    tiers->refused++;
    return stg_error_set(reterr, STG_E_CAPACITY, "%zu compiles wait already", compiles);
  }
  if (!job->aside && tiers->n_idle <= tiers->queue.count && tiers->n_threads < tiers->max_threads &&
      !start_thread(tiers) && tiers->n_threads == 0) {
    return stg_error_set(reterr, STG_E_NO_MEMORY, "no thread to compile on can be started");
  }
  enqueue(tiers, job, urgent);
  pthread_cond_signal(&tiers->work);
  return STG_OK;
}

stg_status stg_tiers_submit(struct stg_tiers *tiers, struct stg_job *job, bool urgent,
                            stg_error *reterr) {
  if (stg_tiers_is_forked(tiers)) {
    return stg_error_set(reterr, STG_E_FORKED,
                         "the threads that compile are in the parent process");
  }
  stg_status status = STG_OK;
  pthread_mutex_lock(&tiers->lock);
  assert(!tiers->closing);
  if (job->state == STG_JOB_IDLE) {
    status = add_job(tiers, job, urgent, reterr);
  } else if (job->state == STG_JOB_QUEUED && urgent) {
    dequeue(tiers, job);
    enqueue(tiers, job, true);
  }
  pthread_mutex_unlock(&tiers->lock);
  return status;
}

bool stg_tiers_help(struct stg_tiers *tiers, struct stg_job *job) {
  pthread_mutex_lock(&tiers->lock);
  const bool queued = job->state == STG_JOB_QUEUED;
  if (queued) {
    run_job(tiers, job);
  }
  pthread_mutex_unlock(&tiers->lock);
  return queued;
}

void stg_tiers_counters(struct stg_tiers *tiers, struct stg_tier_counters *ret) {
  pthread_mutex_lock(&tiers->lock);
  *ret = (struct stg_tier_counters){
      .threads = tiers->n_threads,
      .max_threads = tiers->max_threads,
      .queued = tiers->queue.count - tiers->aside_queued,
      .running = tiers->running.count - tiers->aside_running,
      .refused = tiers->refused,
  };
  pthread_mutex_unlock(&tiers->lock);
}
