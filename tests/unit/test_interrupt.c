/*
 * test_interrupt.c: signals that are put off arrive on release, once, and not on another thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/interrupt.h"

static const int put_off[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t arrived;

static void count(int number) {
  (void)number;
  arrived++;
}

static int catch_all(void **state) {
  (void)state;
  const struct sigaction action = {.sa_handler = count};
  arrived = 0;
  for (size_t i = 0; i < sizeof put_off / sizeof put_off[0]; i++) {
    sigaction(put_off[i], &action, NULL);
  }
  return 0;
}

static void a_signal_arrives_on_release(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof put_off / sizeof put_off[0]; i++) {
    struct stg_interrupt_hold hold;
    arrived = 0;
    stg_interrupt_hold(&hold);
    kill(getpid(), put_off[i]);
    assert_int_equal(arrived, 0);
    stg_interrupt_release(&hold);
    assert_int_equal(arrived, 1);
  }
}

static void the_outermost_hold_decides(void **state) {
  (void)state;
  struct stg_interrupt_hold outer;
  struct stg_interrupt_hold inner;
  stg_interrupt_hold(&outer);
  stg_interrupt_hold(&inner);
  kill(getpid(), SIGINT);
  stg_interrupt_release(&inner);
  assert_int_equal(arrived, 0);
  stg_interrupt_release(&outer);
  assert_int_equal(arrived, 1);
}

/* As NVRTC does. */
static void a_signal_outlives_handlers_that_are_set_in_an_inner_hold(void **state) {
  (void)state;
  struct stg_interrupt_hold outer;
  struct stg_interrupt_hold inner;
  stg_interrupt_hold(&outer);
  kill(getpid(), SIGTERM);
  stg_interrupt_hold(&inner);
  signal(SIGTERM, SIG_IGN);
  signal(SIGTERM, count);
  stg_interrupt_release(&inner);
  assert_int_equal(arrived, 0);
  stg_interrupt_release(&outer);
  assert_int_equal(arrived, 1);
}

static void what_waits_for_release_can_be_asked_for(void **state) {
  (void)state;
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  assert_false(stg_interrupt_waits());
  kill(getpid(), SIGHUP);
  assert_true(stg_interrupt_waits());
  stg_interrupt_release(&hold);
  assert_false(stg_interrupt_waits());
}

static void other_signals_are_left_alone(void **state) {
  (void)state;
  const struct sigaction action = {.sa_handler = count};
  struct stg_interrupt_hold hold;
  sigaction(SIGUSR1, &action, NULL);
  stg_interrupt_hold(&hold);
  raise(SIGUSR1);
  assert_int_equal(arrived, 1);
  stg_interrupt_release(&hold);
}

static void *wait_for_stop(void *user) {
  int *stop = user;
  char byte = 0;
  while (read(stop[0], &byte, 1) < 0) {
  }
  return NULL;
}

static void a_thread_started_meanwhile_does_not_take_the_signal(void **state) {
  (void)state;
  struct stg_interrupt_hold hold;
  pthread_t thread;
  int stop[2];
  assert_int_equal(pipe(stop), 0);
  stg_interrupt_hold(&hold);
  assert_int_equal(pthread_create(&thread, NULL, wait_for_stop, stop), 0);
  kill(getpid(), SIGINT);
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(arrived, 0);
  stg_interrupt_release(&hold);
  assert_int_equal(arrived, 1);
  close(stop[1]);
  pthread_join(thread, NULL);
  close(stop[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_signal_arrives_on_release, catch_all),
      cmocka_unit_test_setup(the_outermost_hold_decides, catch_all),
      cmocka_unit_test_setup(a_signal_outlives_handlers_that_are_set_in_an_inner_hold, catch_all),
      cmocka_unit_test_setup(what_waits_for_release_can_be_asked_for, catch_all),
      cmocka_unit_test_setup(other_signals_are_left_alone, catch_all),
      cmocka_unit_test_setup(a_thread_started_meanwhile_does_not_take_the_signal, catch_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
