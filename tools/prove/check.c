/*
 * prove/check.c: see check.h. Threads take candidates from a list; what they find is added up in
 * the list's order, so that the report does not depend on them.
 */
#include "tools/prove/check.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/alloc.h"

/* 2^64 over the golden ratio: its multiples spread evenly. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

struct verdict {
  enum stg_prove_fault fault;
  uint32_t step;
  uint32_t close;
  bool overflows;
  bool is_compared; /* its picks are right, so that its logp is that of the same way */
  double logp_err;
};

struct judging {
  const struct stg_prove_judged *judged;
  size_t *list; /* [n] ascending: candidates to be judged */
  size_t n;
  struct verdict *verdicts; /* [n] */
  atomic_size_t next, done;
};

const char *stg_prove_fault_name(enum stg_prove_fault fault) {
  static const char *const names[] = {"none", "pick", "depth", "outcome", "logp", "overflow"};
  return names[fault];
}

/* The next of `n` that is not marked, from `at` on and around. There is one. */
static size_t next_free(const unsigned char *marks, size_t n, size_t at) {
  while (marks[at] != 0) {
    at = at + 1 < n ? at + 1 : 0;
  }
  return at;
}

/* Half of the sample are queries, evenly spaced; the rest comes from anywhere. */
static void mark_sample(const struct stg_prove_judged *judged, unsigned char *marks) {
  size_t marked = 0;
  if (judged->sample >= judged->n) {
    memset(marks, 1, judged->n);
    return;
  }
  const size_t half = (judged->sample + 1) / 2;
  const size_t n_originals = half < judged->n_originals ? half : judged->n_originals;
  for (; marked < n_originals; marked++) {
    marks[judged->originals[marked * judged->n_originals / n_originals]] = 1;
  }
  for (uint64_t k = 1; marked < judged->sample; marked++, k++) {
    const double part = (double)(k * SPREAD >> 11) * 0x1p-53;
    marks[next_free(marks, judged->n, (size_t)(part * (double)judged->n))] = 1;
  }
}

/* One whose logp is no number is wrong wherever it is. */
static void mark_first_overflow(const struct stg_prove_judged *judged, unsigned char *marks) {
  for (size_t i = 0; i < judged->n; i++) {
    if (!isfinite(judged->proofs[i].logp)) {
      marks[i] = 1;
      return;
    }
  }
}

static stg_status choose(struct judging *judging, stg_error *reterr) {
  const size_t n = judging->judged->n;
  unsigned char *marks = stg_calloc(n, 1);
  judging->list = stg_calloc(n, sizeof *judging->list);
  if (marks == NULL || judging->list == NULL) {
    stg_free(marks);
    return stg_error_memory(reterr, "the candidates to be checked", n * sizeof *judging->list);
  }
  mark_sample(judging->judged, marks);
  mark_first_overflow(judging->judged, marks);
  for (size_t i = 0; i < n; i++) {
    if (marks[i] != 0) {
      judging->list[judging->n++] = i;
    }
  }
  stg_free(marks);
  judging->verdicts = stg_calloc(judging->n, sizeof *judging->verdicts);
  return judging->verdicts != NULL ? STG_OK
                                   : stg_error_memory(reterr, "what the check finds",
                                                      judging->n * sizeof *judging->verdicts);
}

static struct verdict judge(const struct stg_prove_judged *judged, size_t i) {
  const stg_proof *proof = &judged->proofs[i];
  struct stg_oracle_proof wanted;
  struct verdict verdict = {.fault = STG_PROVE_NO_FAULT};
  const double bound = judged->logp_bound > 0 ? judged->logp_bound : STG_PROVE_LOGP_BOUND;
  stg_oracle_prove(judged->search, judged->candidates[i], judged->first + i, proof->actions,
                   proof->depth, &wanted);
  verdict.close = wanted.close;
  verdict.logp_err = fabs((double)proof->logp - wanted.logp);
  verdict.logp_err = isnan(verdict.logp_err) ? (double)INFINITY : verdict.logp_err;
  if (wanted.wrong != 0) {
    verdict.fault = STG_PROVE_FAULT_PICK;
    verdict.step = wanted.wrong;
  } else if (wanted.depth != proof->depth) {
    verdict.fault = STG_PROVE_FAULT_DEPTH;
  } else if ((int)wanted.outcome != (int)proof->outcome) {
    verdict.fault = STG_PROVE_FAULT_OUTCOME;
  } else if (!(verdict.logp_err <= bound)) {
    verdict.fault = STG_PROVE_FAULT_LOGP;
  }
  verdict.is_compared =
      verdict.fault == STG_PROVE_NO_FAULT || verdict.fault == STG_PROVE_FAULT_LOGP;
  verdict.overflows = wanted.overflows > 0 || !isfinite(proof->logp);
  if (verdict.fault != STG_PROVE_NO_FAULT && verdict.overflows) {
    verdict.fault = STG_PROVE_FAULT_OVERFLOW;
  }
  return verdict;
}

static void work_through(struct judging *judging, bool tells) {
  const struct stg_prove_judged *judged = judging->judged;
  for (;;) {
    const size_t i = atomic_fetch_add(&judging->next, 1);
    if (i >= judging->n) {
      return;
    }
    judging->verdicts[i] = judge(judged, judging->list[i]);
    const size_t done = atomic_fetch_add(&judging->done, 1) + 1;
    if (tells && judged->progress != NULL) {
      judged->progress(judged->user, done, judging->n);
    }
  }
}

static void *work(void *user) {
  work_through(user, false);
  return NULL;
}

static void add_up(const struct judging *judging, struct stg_prove_check *ret_check) {
  struct stg_prove_check check = {.checked = judging->n, .first = SIZE_MAX};
  for (size_t i = 0; i < judging->n; i++) {
    const struct verdict *verdict = &judging->verdicts[i];
    check.close += verdict->close;
    check.overflows += verdict->overflows;
    if (verdict->fault != STG_PROVE_NO_FAULT && check.violations++ == 0) {
      check.first = judging->judged->first + judging->list[i];
      check.fault = verdict->fault;
      check.step = verdict->step;
    }
    check.max_logp_err =
        verdict->is_compared ? fmax(check.max_logp_err, verdict->logp_err) : check.max_logp_err;
  }
  check.ok = check.violations == 0;
  *ret_check = check;
}

stg_status stg_prove_check(const struct stg_prove_judged *judged, struct stg_prove_check *ret_check,
                           stg_error *reterr) {
  struct judging judging = {.judged = judged};
  stg_status status = choose(&judging, reterr);
  const size_t n_threads = judged->threads < judging.n ? judged->threads : judging.n;
  pthread_t *threads = stg_calloc(n_threads + 1, sizeof *threads);
  size_t started = 0;
  if (status == STG_OK && threads == NULL) {
    status = stg_error_memory(reterr, "threads of the check", n_threads * sizeof *threads);
  }
  if (status == STG_OK) {
    while (started + 1 < n_threads &&
           pthread_create(&threads[started], NULL, work, &judging) == 0) {
      started++;
    }
    work_through(&judging, true);
    for (size_t i = 0; i < started; i++) {
      pthread_join(threads[i], NULL);
    }
    add_up(&judging, ret_check);
  }
  stg_free(threads);
  stg_free(judging.list);
  stg_free(judging.verdicts);
  return status;
}
