/*
 * test_tier.c: the threads that compile: jobs in order, once, bounded, called off at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/tier.h"
#include "tests/support/test_fork.h"

#define MAX_JOBS 128

/* What all jobs of a test share. */
struct floor {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool held; /* jobs do not end */
  size_t running, most_running, ended, done;
  int order[MAX_JOBS]; /* numbers of jobs as they began */
  size_t n_order;
};

struct job {
  struct stg_job job;
  struct floor *floor;
  int number;
  int runs, dones;
  bool cancelled;
  pthread_t thread;
  bool signals_blocked;
};

static struct job *of(struct stg_job *job) {
  return (struct job *)(void *)job;
}

static void run(struct stg_job *base) {
  struct job *job = of(base);
  struct floor *floor = job->floor;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  pthread_mutex_lock(&floor->lock);
  job->runs++;
  job->thread = pthread_self();
  job->signals_blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGUSR1) == 1;
  floor->order[floor->n_order++] = job->number;
  floor->running++;
  floor->most_running = floor->running > floor->most_running ? floor->running : floor->most_running;
  pthread_cond_broadcast(&floor->changed);
  while (floor->held && !atomic_load(&base->cancel)) {
    pthread_mutex_unlock(&floor->lock);
    nanosleep(&(const struct timespec){.tv_nsec = 500000}, NULL);
    pthread_mutex_lock(&floor->lock);
  }
  job->cancelled = atomic_load(&base->cancel);
  floor->running--;
  floor->ended++;
  pthread_mutex_unlock(&floor->lock);
}

static void done(struct stg_job *base) {
  struct job *job = of(base);
  pthread_mutex_lock(&job->floor->lock);
  job->dones++;
  job->floor->done++;
  pthread_cond_broadcast(&job->floor->changed);
  pthread_mutex_unlock(&job->floor->lock);
}

static void wait_until(struct floor *floor, const size_t *count, size_t at_least) {
  pthread_mutex_lock(&floor->lock);
  while (*count < at_least) {
    pthread_cond_wait(&floor->changed, &floor->lock);
  }
  pthread_mutex_unlock(&floor->lock);
}

static void hold(struct floor *floor, bool held) {
  pthread_mutex_lock(&floor->lock);
  floor->held = held;
  pthread_mutex_unlock(&floor->lock);
}

static void open_floor(struct floor *floor, struct job *jobs, int count) {
  *floor = (struct floor){.held = false};
  pthread_mutex_init(&floor->lock, NULL);
  pthread_cond_init(&floor->changed, NULL);
  for (int i = 0; i < count; i++) {
    jobs[i] = (struct job){.job = {.run = run, .done = done}, .floor = floor, .number = i};
  }
}

static struct stg_tiers *open_tiers(size_t threads, size_t queue) {
  struct stg_tiers *tiers = NULL;
  assert_int_equal(STG_OK, stg_tiers_create(threads, queue, &tiers, NULL));
  return tiers;
}

static struct stg_tier_counters counters_of(struct stg_tiers *tiers) {
  struct stg_tier_counters counters;
  stg_tiers_counters(tiers, &counters);
  return counters;
}

static void submit(struct stg_tiers *tiers, struct job *job, bool urgent) {
  assert_int_equal(STG_OK, stg_tiers_submit(tiers, &job->job, urgent, NULL));
}

static void starts_no_thread_without_work(void **state) {
  (void)state;
  struct stg_tiers *tiers = open_tiers(4, 4);
  assert_int_equal(0, counters_of(tiers).threads);
  stg_tiers_destroy(tiers);
  stg_tiers_destroy(NULL);
}

static void runs_jobs_side_by_side_up_to_its_threads(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[40];
  open_floor(&floor, jobs, 40);
  struct stg_tiers *tiers = open_tiers(3, 100);
  hold(&floor, true);
  for (int i = 0; i < 40; i++) {
    submit(tiers, &jobs[i], false);
  }
  wait_until(&floor, &floor.running, 3);
  assert_int_equal(3, counters_of(tiers).threads);
  assert_int_equal(3, counters_of(tiers).running);
  assert_int_equal(37, counters_of(tiers).queued);
  hold(&floor, false);
  wait_until(&floor, &floor.done, 40);
  stg_tiers_destroy(tiers);
  assert_int_equal(3, floor.most_running);
  for (int i = 0; i < 40; i++) {
    assert_int_equal(1, jobs[i].runs);
    assert_int_equal(1, jobs[i].dones);
    assert_true(jobs[i].signals_blocked);
    assert_false(pthread_equal(jobs[i].thread, pthread_self()));
  }
}

static void urgent_jobs_go_first_and_others_in_their_order(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[7];
  static const int expected[] = {0, 4, 5, 2, 1, 3, 6};
  open_floor(&floor, jobs, 7);
  struct stg_tiers *tiers = open_tiers(1, 100);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  submit(tiers, &jobs[1], false);
  submit(tiers, &jobs[2], false);
  submit(tiers, &jobs[3], false);
  submit(tiers, &jobs[4], true);
  submit(tiers, &jobs[5], true);
  submit(tiers, &jobs[2], true); /* promoted behind the urgent ones that were there */
  submit(tiers, &jobs[6], false);
  hold(&floor, false);
  wait_until(&floor, &floor.done, 7);
  stg_tiers_destroy(tiers);
  for (int i = 0; i < 7; i++) {
    assert_int_equal(expected[i], floor.order[i]);
  }
}

static void a_job_that_is_there_is_not_added_twice(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[2];
  open_floor(&floor, jobs, 2);
  struct stg_tiers *tiers = open_tiers(1, 100);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  for (int i = 0; i < 5; i++) {
    submit(tiers, &jobs[0], i % 2 == 0);
    submit(tiers, &jobs[1], i % 2 == 0);
  }
  assert_int_equal(1, counters_of(tiers).queued);
  hold(&floor, false);
  wait_until(&floor, &floor.done, 2);
  submit(tiers, &jobs[0], false); /* over: it may come again */
  wait_until(&floor, &floor.done, 3);
  stg_tiers_destroy(tiers);
  assert_int_equal(2, jobs[0].runs);
  assert_int_equal(2, jobs[0].dones);
  assert_int_equal(1, jobs[1].runs);
}

static void a_full_queue_refuses_all_but_urgent_jobs(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[5];
  stg_error error = STG_ERROR_INIT;
  open_floor(&floor, jobs, 5);
  struct stg_tiers *tiers = open_tiers(1, 2);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  submit(tiers, &jobs[1], false);
  submit(tiers, &jobs[2], false);
  assert_int_equal(STG_E_CAPACITY, stg_tiers_submit(tiers, &jobs[3].job, false, &error));
  assert_string_equal("2 compiles wait already", error.message);
  submit(tiers, &jobs[4], true);
  assert_int_equal(1, counters_of(tiers).refused);
  hold(&floor, false);
  wait_until(&floor, &floor.done, 4);
  submit(tiers, &jobs[3], false);
  wait_until(&floor, &floor.done, 5);
  stg_tiers_destroy(tiers);
  assert_int_equal(1, jobs[3].runs);
}

static void a_job_that_is_no_compile_takes_no_room_and_is_not_counted(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[4];
  open_floor(&floor, jobs, 4);
  struct stg_tiers *tiers = open_tiers(1, 1);
  jobs[0].job.aside = jobs[1].job.aside = true;
  /* nor is a thread started for it */
  assert_int_equal(STG_E_CAPACITY, stg_tiers_submit(tiers, &jobs[0].job, false, NULL));
  assert_int_equal(0, counters_of(tiers).threads);
  assert_int_equal(0, counters_of(tiers).refused);
  submit(tiers, &jobs[3], false);
  wait_until(&floor, &floor.done, 1);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  assert_int_equal(0, counters_of(tiers).running);
  submit(tiers, &jobs[1], false);
  assert_int_equal(0, counters_of(tiers).queued);
  submit(tiers, &jobs[2], false); /* the one that there is room for */
  assert_int_equal(1, counters_of(tiers).queued);
  assert_int_equal(STG_E_CAPACITY, stg_tiers_submit(tiers, &jobs[3].job, false, NULL));
  hold(&floor, false);
  wait_until(&floor, &floor.done, 4);
  assert_int_equal(0, counters_of(tiers).queued);
  stg_tiers_destroy(tiers);
  assert_int_equal(1, jobs[1].runs);
}

static void who_waits_may_run_a_queued_job_itself(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[2];
  open_floor(&floor, jobs, 2);
  struct stg_tiers *tiers = open_tiers(1, 100);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  assert_false(stg_tiers_help(tiers, &jobs[0].job)); /* runs already */
  submit(tiers, &jobs[1], false);
  hold(&floor, false);
  const bool helped = stg_tiers_help(tiers, &jobs[1].job);
  wait_until(&floor, &floor.done, 2);
  assert_false(stg_tiers_help(tiers, &jobs[1].job)); /* over */
  stg_tiers_destroy(tiers);
  assert_int_equal(1, jobs[1].runs);
  assert_int_equal(1, jobs[1].dones);
  assert_true(helped == (pthread_equal(jobs[1].thread, pthread_self()) != 0));
}

static void closing_calls_off_what_waits_and_stops_what_runs(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[102];
  open_floor(&floor, jobs, 102);
  struct stg_tiers *tiers = open_tiers(2, 200);
  hold(&floor, true); /* they end only because they are told to */
  for (int i = 0; i < 102; i++) {
    submit(tiers, &jobs[i], i % 10 == 5);
  }
  wait_until(&floor, &floor.running, 2);
  stg_tiers_destroy(tiers);
  int ran = 0;
  for (int i = 0; i < 102; i++) {
    ran += jobs[i].runs;
    assert_int_equal(1, jobs[i].dones);
    assert_true(jobs[i].runs == 0 || jobs[i].cancelled);
  }
  assert_int_equal(2, ran);
}

static void a_forked_child_has_no_threads_and_is_told_so(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[2];
  open_floor(&floor, jobs, 2);
  struct stg_tiers *tiers = open_tiers(1, 10);
  hold(&floor, true);
  submit(tiers, &jobs[0], false);
  wait_until(&floor, &floor.running, 1);
  assert_false(stg_tiers_is_forked(tiers));
  const pid_t child = test_fork();
  if (child == 0) {
    _exit(stg_tiers_is_forked(tiers) &&
                  stg_tiers_submit(tiers, &jobs[1].job, false, NULL) == STG_E_FORKED
              ? 0
              : 1);
  }
  int status = 0;
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_int_equal(0, status);
  hold(&floor, false);
  wait_until(&floor, &floor.done, 1);
  stg_tiers_destroy(tiers);
}

struct crowd {
  struct stg_tiers *tiers;
  struct job *jobs;
};

static void *submit_many(void *user) {
  struct crowd *crowd = user;
  for (int i = 0; i < 20; i++) {
    const stg_status full = stg_tiers_submit(crowd->tiers, &crowd->jobs[i].job, i % 3 == 0, NULL);
    (void)full;
    (void)stg_tiers_help(crowd->tiers, &crowd->jobs[(i + 7) % 20].job);
  }
  return NULL;
}

static void many_threads_submit_and_help(void **state) {
  (void)state;
  static struct floor floor;
  static struct job jobs[20];
  open_floor(&floor, jobs, 20);
  struct crowd crowd = {open_tiers(2, 5), jobs};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(0, pthread_create(&threads[i], NULL, submit_many, &crowd));
  }
  for (int i = 0; i < 4; i++) {
    assert_int_equal(0, pthread_join(threads[i], NULL));
  }
  stg_tiers_destroy(crowd.tiers);
  for (int i = 0; i < 20; i++) {
    assert_true(jobs[i].runs <= jobs[i].dones && jobs[i].dones <= 4);
    assert_int_equal(STG_JOB_IDLE, jobs[i].job.state);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_no_thread_without_work),
      cmocka_unit_test(runs_jobs_side_by_side_up_to_its_threads),
      cmocka_unit_test(urgent_jobs_go_first_and_others_in_their_order),
      cmocka_unit_test(a_job_that_is_there_is_not_added_twice),
      cmocka_unit_test(a_full_queue_refuses_all_but_urgent_jobs),
      cmocka_unit_test(a_job_that_is_no_compile_takes_no_room_and_is_not_counted),
      cmocka_unit_test(who_waits_may_run_a_queued_job_itself),
      cmocka_unit_test(closing_calls_off_what_waits_and_stops_what_runs),
      cmocka_unit_test(a_forked_child_has_no_threads_and_is_told_so),
      cmocka_unit_test(many_threads_submit_and_help),
  };
  return cmocka_run_group_tests_name("tier", tests, NULL, NULL);
}
