/*
 * test_fork.h: fork from within a test.
 *
 * A test framework catches what goes wrong in a test and goes on with the next one, in a child too,
 * which then forks its own children: without end, where it is the fork's test that went wrong. In a
 * child of these an assertion that fails aborts, and a fault kills.
 */
#ifndef STG_TESTS_TEST_FORK_H
#define STG_TESTS_TEST_FORK_H

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* As fork(). The child ends by _exit, or dies. */
static inline pid_t test_fork(void) {
  static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  const pid_t child = fork();
  if (child == 0) {
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
      signal(faults[i], SIG_DFL);
    }
    setenv("CMOCKA_TEST_ABORT", "1", 1);
  }
  return child;
}

#endif
