/*
 * test_exit.c: a process that ends while its engine compiles, and does not close it: it ends in
 * peace. Each is this program again. Needs no GPU.
 * STG_TEST_QUICK=1: at three points, and not at twelve.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/quick.h"
#include "tests/support/test_fork.h"
#include "tests/support/tier_bed.h"

#define PROCESSES 12
#define FORKS "forks"
#define IN_THE_LOG "in the log"

/* Kept, so that what is not freed is not lost either. */
static struct bed bed;
static stg_steer *steer;

/* The child: compiles are on their way or queued, at another point each time. */
static int end_while_compiling(const char *after, bool forks) {
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  steer = open_table(&bed, only_add, 1);
  for (long k = strtol(after, NULL, 10); k > 0; k--) {
    pause_a_bit();
  }
  if (forks) {
    const pid_t child = test_fork();
    int status = 0;
    if (child != 0 && (waitpid(child, &status, 0) != child || status != 0)) {
      return 1;
    }
  }
  return 0;
}

static void leave(void *user, stg_log_level level, const char *text) {
  (void)user, (void)level, (void)text;
  exit(0);
}

/* The child: its log function ends the process from inside a compile that fails. */
static int end_in_the_log(void) {
  const struct stg_log quiet = {0};
  const struct stg_log log = {.fn = leave, .level = STG_LOG_ERROR};
  struct stg_kernel_request request = scale_request("sm_80");
  struct stg_kernel_image image = {0};
  if (stg_compile(&request, &quiet, &image, NULL) != STG_OK) {
    return 1;
  }
  stg_kernel_image_finish(&image);
  request.source = "this is no kernel";
  (void)!stg_compile(&request, &log, &image, NULL);
  return 2;
}

static void expect_peace(const char *after, const char *forks) {
  int status = 0;
  const pid_t child = test_fork();
  if (child == 0) {
    /* what only a thread knew that a forked child does not have, and what NVRTC drops when stopped
     */
    (void)setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    execl("/proc/self/exe", "test_exit", after, forks, (char *)NULL);
    _exit(127);
  }
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_true(WIFEXITED(status));
  assert_int_equal(0, WEXITSTATUS(status));
}

static void a_process_may_end_while_it_compiles(void **state) {
  (void)state;
  for (int i = 0; i < PROCESSES; i += test_is_quick() ? 5 : 1) {
    char after[16];
    snprintf(after, sizeof after, "%d", 16 * i);
    expect_peace(after, NULL);
  }
}

static void so_may_a_child_that_was_forked_meanwhile(void **state) {
  (void)state;
  expect_peace("0", FORKS);
  expect_peace("40", FORKS);
}

/* It waits for itself, but once, however many compiles there were before. */
static void a_log_function_may_end_the_process(void **state) {
  (void)state;
  const uint64_t before_ns = stg_clock_ns();
  expect_peace(IN_THE_LOG, NULL);
  assert_true(stg_clock_ns() - before_ns < (uint64_t)60 * 1000000000);
}

int main(int argc, char **argv) {
  if (argc >= 2 && strcmp(argv[1], IN_THE_LOG) == 0) {
    return end_in_the_log();
  }
  if (argc >= 2) {
    return end_while_compiling(argv[1], argc > 2);
  }
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_may_end_while_it_compiles),
      cmocka_unit_test(so_may_a_child_that_was_forked_meanwhile),
      cmocka_unit_test(a_log_function_may_end_the_process),
  };
  return cmocka_run_group_tests_name("exit", tests, NULL, NULL);
}
