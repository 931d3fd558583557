/*
 * test_flight.c: one maker per key, whatever the threads do. Run it under TSan too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "runtime/flight.h"

#define N_THREADS 8

static const struct stg_key key_a = {1, 7};
static const struct stg_key key_b = {2, 7}; /* the same bucket as key_a */

static struct stg_flight_table *new_table(void) {
  struct stg_flight_table *table = NULL;
  assert_int_equal(stg_flight_create(&table, NULL), STG_OK);
  return table;
}

static enum stg_flight_role join(struct stg_flight_table *table, struct stg_key key, void **value) {
  enum stg_flight_role role = STG_FLIGHT_SLOW;
  assert_int_equal(stg_flight_join(table, key, true, &role, value, NULL), STG_OK);
  return role;
}

/* Long enough for a thread that is about to wait to do so; no test's result depends on it. */
static void let_others_run(void) {
  const struct timespec pause = {0, 20000000};
  nanosleep(&pause, NULL);
}

/* What the threads of one test share. */
struct crowd {
  struct stg_flight_table *table;
  atomic_int makers, havers, slow, failed, wrong_messages;
  void *made;
  stg_status outcome; /* of whoever makes */
  bool patient;
};

static void *run_one(void *user) {
  struct crowd *crowd = user;
  enum stg_flight_role role = STG_FLIGHT_HAVE;
  void *value = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_flight_join(crowd->table, key_a, crowd->patient, &role, &value, &error);
  if (status != STG_OK) {
    atomic_fetch_add(&crowd->failed, 1);
    atomic_fetch_add(&crowd->wrong_messages, strcmp(error.message, "no luck") != 0);
    return NULL;
  }
  if (role == STG_FLIGHT_MAKE) {
    atomic_fetch_add(&crowd->makers, 1);
    let_others_run();
    stg_error_set(&error, STG_E_COMPILE, "no luck");
    stg_flight_land(crowd->table, key_a, crowd->outcome, crowd->made, &error);
  } else if (role == STG_FLIGHT_HAVE) {
    atomic_fetch_add(&crowd->havers, value == crowd->made);
  } else {
    atomic_fetch_add(&crowd->slow, 1);
  }
  return NULL;
}

static void start_crowd(struct crowd *crowd, pthread_t threads[N_THREADS]) {
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_one, crowd), 0);
  }
}

static void end_crowd(pthread_t threads[N_THREADS]) {
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void makes_a_value_once_for_many_threads(void **state) {
  (void)state;
  int made = 0;
  pthread_t threads[N_THREADS];
  struct crowd crowd = {.table = new_table(), .made = &made, .patient = true};

  start_crowd(&crowd, threads);
  end_crowd(threads);

  assert_int_equal(crowd.makers, 1);
  assert_int_equal(crowd.havers, N_THREADS - 1);
  for (int i = 0; i < N_THREADS - 1; i++) {
    assert_null(stg_flight_drop(crowd.table, key_a));
  }
  assert_ptr_equal(stg_flight_drop(crowd.table, key_a), &made);
  stg_flight_destroy(crowd.table);
}

static void gives_the_makers_failure_to_every_waiter(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  void *value = NULL;
  stg_error error = STG_ERROR_INIT;
  struct crowd crowd = {.table = new_table(), .outcome = STG_E_COMPILE, .patient = true};
  assert_int_equal(join(crowd.table, key_a, &value), STG_FLIGHT_MAKE);

  start_crowd(&crowd, threads);
  let_others_run();
  stg_error_set(&error, STG_E_COMPILE, "no luck");
  stg_flight_land(crowd.table, key_a, STG_E_COMPILE, NULL, &error);
  end_crowd(threads);

  /* one that came late made, and failed, by itself */
  assert_int_equal(crowd.failed + crowd.makers, N_THREADS);
  assert_true(crowd.failed > 0);
  assert_int_equal(crowd.wrong_messages, 0);
  stg_flight_destroy(crowd.table);
}

static void lets_the_next_one_try_after_a_failure(void **state) {
  (void)state;
  struct stg_flight_table *table = new_table();
  void *value = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_error_set(&error, STG_E_CUDA, "no luck");

  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_MAKE);
  stg_flight_land(table, key_a, STG_E_CUDA, NULL, &error);

  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_MAKE);
  stg_flight_land(table, key_a, STG_OK, &error, NULL);
  assert_ptr_equal(stg_flight_drop(table, key_a), &error);
  stg_flight_destroy(table);
}

static void an_impatient_caller_does_not_wait_for_the_slow_part(void **state) {
  (void)state;
  struct stg_flight_table *table = new_table();
  enum stg_flight_role role = STG_FLIGHT_HAVE;
  void *value = NULL;
  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_MAKE);
  stg_flight_slow(table, key_a);

  assert_int_equal(stg_flight_join(table, key_a, false, &role, &value, NULL), STG_OK);

  assert_int_equal(role, STG_FLIGHT_SLOW);
  stg_flight_land(table, key_a, STG_OK, &role, NULL);
  assert_int_equal(stg_flight_join(table, key_a, false, &role, &value, NULL), STG_OK);
  assert_int_equal(role, STG_FLIGHT_HAVE);
  assert_null(stg_flight_drop(table, key_a));
  assert_ptr_equal(stg_flight_drop(table, key_a), &role);
  stg_flight_destroy(table);
}

static void impatient_waiters_leave_when_the_slow_part_begins(void **state) {
  (void)state;
  int made = 0;
  pthread_t threads[N_THREADS];
  void *value = NULL;
  struct crowd crowd = {.table = new_table(), .made = &made, .patient = false};
  assert_int_equal(join(crowd.table, key_a, &value), STG_FLIGHT_MAKE);

  start_crowd(&crowd, threads);
  let_others_run();
  stg_flight_slow(crowd.table, key_a);
  end_crowd(threads);

  assert_int_equal(crowd.slow, N_THREADS);
  stg_flight_land(crowd.table, key_a, STG_OK, &made, NULL);
  assert_ptr_equal(stg_flight_drop(crowd.table, key_a), &made);
  stg_flight_destroy(crowd.table);
}

static void a_patient_caller_tries_what_an_impatient_one_gave_up(void **state) {
  (void)state;
  int made = 0;
  pthread_t threads[N_THREADS];
  void *value = NULL;
  stg_error error = STG_ERROR_INIT;
  struct crowd crowd = {.table = new_table(), .made = &made, .patient = true};
  assert_int_equal(join(crowd.table, key_a, &value), STG_FLIGHT_MAKE);

  start_crowd(&crowd, threads);
  let_others_run();
  stg_error_set(&error, STG_E_NOT_WARM, "in no cache");
  stg_flight_land(crowd.table, key_a, STG_E_NOT_WARM, NULL, &error);
  end_crowd(threads);

  assert_int_equal(crowd.failed, 0);
  assert_int_equal(crowd.makers, 1);
  assert_int_equal(crowd.havers, N_THREADS - 1);
  for (int i = 0; i < N_THREADS; i++) {
    value = stg_flight_drop(crowd.table, key_a);
  }
  assert_ptr_equal(value, &made);
  stg_flight_destroy(crowd.table);
}

static void keeps_keys_of_one_bucket_apart(void **state) {
  (void)state;
  struct stg_flight_table *table = new_table();
  int a = 0;
  int b = 0;
  void *value = NULL;
  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_MAKE);
  assert_int_equal(join(table, key_b, &value), STG_FLIGHT_MAKE);
  stg_flight_land(table, key_b, STG_OK, &b, NULL);
  stg_flight_land(table, key_a, STG_OK, &a, NULL);

  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_HAVE);
  assert_ptr_equal(value, &a);
  assert_int_equal(join(table, key_b, &value), STG_FLIGHT_HAVE);
  assert_ptr_equal(value, &b);

  assert_null(stg_flight_drop(table, key_a));
  assert_ptr_equal(stg_flight_drop(table, key_a), &a);
  assert_null(stg_flight_drop(table, key_b));
  assert_ptr_equal(stg_flight_drop(table, key_b), &b);
  stg_flight_destroy(table);
}

static void reports_exhausted_memory_and_leaves_the_key_free(void **state) {
  (void)state;
  struct stg_flight_table *table = NULL;
  enum stg_flight_role role = STG_FLIGHT_SLOW;
  void *value = NULL;
  stg_error error = STG_ERROR_INIT;

  stg_alloc_fail_at(1);
  assert_int_equal(stg_flight_create(&table, &error), STG_E_NO_MEMORY);
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "a table of kernels"));

  table = new_table();
  stg_alloc_fail_at(1);
  assert_int_equal(stg_flight_join(table, key_a, true, &role, &value, &error), STG_E_NO_MEMORY);
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "a kernel's place"));
  assert_int_equal(join(table, key_a, &value), STG_FLIGHT_MAKE);
  stg_flight_land(table, key_a, STG_OK, &error, NULL);
  assert_ptr_equal(stg_flight_drop(table, key_a), &error);
  stg_flight_destroy(table);
}

#define N_KEYS 4
#define N_ROUNDS 3000

struct churn {
  struct stg_flight_table *table;
  atomic_int made[N_KEYS], ended[N_KEYS];
  atomic_int wrong_values;
};

/* Join, make when asked to, drop; sometimes fail. */
static void *churn_keys(void *user) {
  struct churn *churn = user;
  unsigned random = (unsigned)(uintptr_t)&random;
  for (int i = 0; i < N_ROUNDS; i++) {
    random = random * 1664525u + 1013904223u;
    unsigned k = random >> 16 & (N_KEYS - 1);
    struct stg_key key = {k, k};
    enum stg_flight_role role = STG_FLIGHT_HAVE;
    void *value = NULL;
    if (stg_flight_join(churn->table, key, true, &role, &value, NULL) != STG_OK) {
      continue;
    }
    if (role == STG_FLIGHT_MAKE && random >> 30 == 0) {
      stg_error error = {STG_E_CUDA, "no luck"};
      stg_flight_land(churn->table, key, STG_E_CUDA, NULL, &error);
      continue;
    }
    if (role == STG_FLIGHT_MAKE) {
      value = &churn->ended[k];
      atomic_fetch_add(&churn->made[k], 1);
      stg_flight_land(churn->table, key, STG_OK, value, NULL);
    }
    atomic_fetch_add(&churn->wrong_values, value != &churn->ended[k]);
    atomic_int *last = stg_flight_drop(churn->table, key);
    if (last != NULL) {
      atomic_fetch_add(last, 1);
    }
  }
  return NULL;
}

static void survives_threads_that_make_fail_and_drop_at_once(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  struct churn churn = {.table = new_table()};
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, churn_keys, &churn), 0);
  }
  end_crowd(threads);
  assert_int_equal(churn.wrong_values, 0);
  for (int k = 0; k < N_KEYS; k++) {
    assert_true(churn.made[k] > 0);
    assert_int_equal(churn.made[k], churn.ended[k]);
  }
  stg_flight_destroy(churn.table);
}

#define MANY 10000
#define TABLES 40
#define STRIDE 7919 /* has no divisor with MANY */
#define ROUNDS 9

/* The shortest time of a join, of MANY keys that lie in n_tables tables. */
static double best_join_ns(size_t n_tables) {
  struct stg_flight_table *tables[TABLES];
  void *value = NULL;
  double best_ns = 0;
  for (size_t t = 0; t < n_tables; t++) {
    tables[t] = new_table();
  }
  for (size_t i = 0; i < MANY; i++) {
    const struct stg_key key = {1, i / n_tables};
    assert_int_equal(join(tables[i % n_tables], key, &value), STG_FLIGHT_MAKE);
    stg_flight_land(tables[i % n_tables], key, STG_OK, &best_ns, NULL);
  }
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t from_ns = stg_clock_ns();
    for (size_t n = 0; n < MANY; n++) {
      const size_t i = n * STRIDE % MANY;
      (void)join(tables[i % n_tables], (struct stg_key){1, i / n_tables}, &value);
    }
    const double ns = (double)(stg_clock_ns() - from_ns) / MANY;
    best_ns = round == 0 || ns < best_ns ? ns : best_ns;
  }
  for (size_t i = 0; i < MANY * (size_t)(ROUNDS + 1); i++) {
    (void)stg_flight_drop(tables[i % MANY % n_tables], (struct stg_key){1, i % MANY / n_tables});
  }
  for (size_t t = 0; t < n_tables; t++) {
    stg_flight_destroy(tables[t]);
  }
  return best_ns;
}

/* As many things in memory either way, so what differs is how many keys a join looks at. */
static void one_of_many_keys_is_found_about_as_fast_as_one_of_few(void **state) {
  (void)state;
  const double of_few = best_join_ns(TABLES), of_many = best_join_ns(1);
  if (of_many > 4 * of_few) {
    fail_msg("%.0f ns, and %.0f ns where a table has %d keys", of_many, of_few, MANY / TABLES);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(makes_a_value_once_for_many_threads),
      cmocka_unit_test(gives_the_makers_failure_to_every_waiter),
      cmocka_unit_test(lets_the_next_one_try_after_a_failure),
      cmocka_unit_test(an_impatient_caller_does_not_wait_for_the_slow_part),
      cmocka_unit_test(impatient_waiters_leave_when_the_slow_part_begins),
      cmocka_unit_test(a_patient_caller_tries_what_an_impatient_one_gave_up),
      cmocka_unit_test(keeps_keys_of_one_bucket_apart),
      cmocka_unit_test(one_of_many_keys_is_found_about_as_fast_as_one_of_few),
      cmocka_unit_test(reports_exhausted_memory_and_leaves_the_key_free),
      cmocka_unit_test(survives_threads_that_make_fail_and_drop_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
