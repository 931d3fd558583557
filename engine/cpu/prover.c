/*
 * cpu/prover.c: see prover.h.
 *
 * A worker is a slot for one query, with all the memory that its way can need. Workers share the
 * next query's number and how many are done, nothing else; counters are summed at the end.
 * It must not know how a child is derived or judged.
 */
#include "engine/cpu/prover.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "codegen/prelude/gumbel.h"
#include "runtime/base/alloc.h"

struct run {
  const struct stg_cpu_pool *pool;
  struct stg_prove_result *results;
  atomic_size_t next, done;
};

struct worker {
  struct run *run;
  pthread_t thread;
  bool started;
  float *floats;  /* owns the three below */
  float *current; /* what the policy makes of the state, once it was asked */
  float *made;    /* and of its children */
  float *scratch;
  struct stg_prove_counts counts;
  /* the query */
  size_t query;
  bool judged; /* `current` is that of the state */
  struct stg_prove_state state;
  struct stg_cpu_path path;
  struct stg_prove_result result;
  struct stg_cpu_children children;
  float logits[STG_PROVE_MAX_CHILDREN];
};

static void begin_query(struct worker *w, size_t query) {
  w->query = query;
  w->judged = false;
  w->state = (struct stg_prove_state){.n = 1, .atoms = {w->run->pool->queries[query]}};
  w->path.n = 0;
  w->result = (struct stg_prove_result){.outcome = STG_PROVE_RUNNING};
  stg_cpu_path_add(&w->path, &w->state);
}

/* A child that is alone needs no judge. */
static void judge(struct worker *w) {
  const struct stg_cpu_policy *policy = w->run->pool->policy;
  const size_t stride = stg_cpu_policy_stride(policy);
  w->logits[0] = 0;
  if (w->children.n == 1) {
    return;
  }
  if (!w->judged) {
    stg_cpu_policy_run(policy, &w->state, 1, w->scratch, w->current);
    w->counts.states++;
  }
  stg_cpu_policy_run(policy, w->children.states, w->children.n, w->scratch, w->made);
  w->counts.states += w->children.n;
  for (uint32_t i = 0; i < w->children.n; i++) {
    w->logits[i] = stg_cpu_policy_logit(policy, w->current, w->made + i * stride);
  }
}

/* The largest logit, or the largest with noise; counts where the next is close. */
static uint32_t pick(struct worker *w) {
  const struct stg_cpu_pool *pool = w->run->pool;
  uint32_t best = 0;
  float most = 0;
  float next = 0;
  for (uint32_t i = 0; i < w->children.n; i++) {
    float key = w->logits[i];
    if (pool->sample) {
      key +=
          stg_gumbel_noise(stg_gumbel_word(pool->seed, pool->first + w->query, w->result.depth, i));
    }
    if (i == 0) {
      most = key;
    } else if (key > most) {
      next = most;
      most = key;
      best = i;
    } else if (i == 1 || key > next) {
      next = key;
    }
  }
  w->result.close += w->children.n > 1 && most - next <= STG_PROVE_CLOSE;
  return best;
}

static float log_softmax(const struct worker *w, uint32_t action) {
  float most = w->logits[0];
  float sum = 0;
  for (uint32_t i = 1; i < w->children.n; i++) {
    most = w->logits[i] > most ? w->logits[i] : most;
  }
  for (uint32_t i = 0; i < w->children.n; i++) {
    sum += stg_math_exp(w->logits[i] - most);
  }
  return w->logits[action] - most - stg_math_log(sum);
}

static enum stg_prove_outcome outcome_of(const struct worker *w) {
  const struct stg_cpu_pool *pool = w->run->pool;
  const int word = w->state.atoms[0].pred - pool->base->predicates;
  if (word == STG_PROVE_TRUE) {
    return STG_PROVE_PROVED;
  }
  if (word == STG_PROVE_FALSE) {
    return STG_PROVE_FAILED;
  }
  if (word == STG_PROVE_ENDF) {
    return STG_PROVE_GAVE_UP;
  }
  return w->result.depth == pool->limits.depth ? STG_PROVE_OUT_OF_STEPS : STG_PROVE_RUNNING;
}

static void write_down(const struct worker *w, uint32_t action) {
  const struct stg_cpu_pool *pool = w->run->pool;
  if (pool->steps == NULL || pool->traced != w->query) {
    return;
  }
  struct stg_prove_step *step = &pool->steps[w->result.depth];
  const size_t n = w->children.n;
  step->state = w->state;
  step->n_children = w->children.n;
  step->action = action;
  memcpy(step->children, w->children.states, n * sizeof step->children[0]);
  memcpy(step->logits, w->logits, n * sizeof step->logits[0]);
}

static void count_children(struct worker *w) {
  w->counts.children += w->children.n;
  w->counts.pairs += w->children.pairs;
  w->counts.cut += w->children.cut;
  w->counts.rejected += w->children.rejected;
  w->counts.seen += w->children.seen;
}

static void step(struct worker *w) {
  const struct stg_cpu_pool *pool = w->run->pool;
  w->counts.slot_steps++;
  stg_cpu_derive(pool->base, &pool->limits, pool->queries[w->query], &w->path, &w->state,
                 &w->children);
  count_children(w);
  judge(w);
  const uint32_t action = pick(w);
  write_down(w, action);
  if (w->children.n > 1) {
    const size_t stride = stg_cpu_policy_stride(pool->policy);
    w->result.logp += log_softmax(w, action);
    memcpy(w->current, w->made + action * stride, stride * sizeof *w->current);
    w->judged = true;
  }
  w->result.actions[w->result.depth++] = (uint8_t)action;
  w->state = w->children.states[action];
  stg_cpu_path_add(&w->path, &w->state);
  w->result.outcome = outcome_of(w);
}

static void finish_query(struct worker *w) {
  w->counts.query_steps += w->result.depth;
  w->counts.close += w->result.close;
  w->counts.proofs += w->result.outcome == STG_PROVE_PROVED;
  w->run->results[w->query] = w->result;
}

static void work_through(struct worker *w, bool tells) {
  const struct stg_cpu_pool *pool = w->run->pool;
  for (;;) {
    const size_t query = atomic_fetch_add(&w->run->next, 1);
    if (query >= pool->n) {
      return;
    }
    begin_query(w, query);
    while (w->result.outcome == STG_PROVE_RUNNING) {
      step(w);
    }
    finish_query(w);
    const size_t done = atomic_fetch_add(&w->run->done, 1) + 1;
    if (tells && done < pool->n) {
      pool->progress(pool->user, done, pool->n);
    }
  }
}

static void *work(void *user) {
  work_through(user, false);
  return NULL;
}

/* Signals of the host's land in its own threads, but for those that say that one went wrong. */
static void start(struct worker *w) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    sigdelset(&all, own[i]);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  w->started = pthread_create(&w->thread, NULL, work, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool worker_init(struct worker *w, struct run *run) {
  const struct stg_cpu_policy *policy = run->pool->policy;
  const size_t stride = stg_cpu_policy_stride(policy);
  const size_t made = run->pool->limits.children * stride;
  const size_t scratch = stg_cpu_policy_scratch(policy, run->pool->limits.children);
  w->run = run;
  w->floats = stg_malloc_aligned((stride + made + scratch) * sizeof *w->floats);
  if (w->floats == NULL) {
    return false;
  }
  w->current = w->floats;
  w->made = w->current + stride;
  w->scratch = w->made + made;
  return true;
}

static void add_counts(const struct stg_prove_counts *from, struct stg_prove_counts *to) {
  to->slot_steps += from->slot_steps;
  to->query_steps += from->query_steps;
  to->children += from->children;
  to->states += from->states;
  to->pairs += from->pairs;
  to->proofs += from->proofs;
  to->close += from->close;
  to->cut += from->cut;
  to->rejected += from->rejected;
  to->seen += from->seen;
}

static void run_workers(struct worker *workers, size_t n, struct stg_prove_counts *ret_counts) {
  const struct stg_cpu_pool *pool = workers[0].run->pool;
  for (size_t i = 1; i < n; i++) {
    start(&workers[i]);
  }
  work_through(&workers[0], pool->progress != NULL);
  *ret_counts = (struct stg_prove_counts){0};
  for (size_t i = 0; i < n; i++) {
    if (workers[i].started) {
      pthread_join(workers[i].thread, NULL);
    }
    add_counts(&workers[i].counts, ret_counts);
  }
  if (pool->progress != NULL && pool->n > 0) {
    pool->progress(pool->user, pool->n, pool->n);
  }
}

stg_status stg_cpu_prove(const struct stg_cpu_pool *pool, struct stg_prove_result *ret_results,
                         struct stg_prove_counts *ret_counts, stg_error *reterr) {
  struct run run = {.pool = pool, .results = ret_results};
  const size_t most = pool->n < pool->threads ? pool->n : pool->threads;
  const size_t n = most > 0 ? most : 1;
  struct worker *workers = stg_calloc(n, sizeof *workers);
  bool ready = workers != NULL;
  assert(pool->threads >= 1);
  assert(pool->limits.depth >= 1 && pool->limits.depth <= STG_PROVE_MAX_DEPTH);
  for (size_t i = 0; i < n && ready; i++) {
    ready = worker_init(&workers[i], &run);
  }
  if (ready) {
    run_workers(workers, n, ret_counts);
  }
  for (size_t i = 0; i < n && workers != NULL; i++) {
    stg_free(workers[i].floats);
  }
  stg_free(workers);
  return ready ? STG_OK
               : stg_error_memory(reterr, "workers of the proof search", n * sizeof *workers);
}
