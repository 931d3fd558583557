/*
 * test_signals.c: Ctrl-C ends a process that compiles as it ends any other, whenever it comes. This
 * executable, run with a word, is that process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/test_fork.h"

#define SELF "/proc/self/exe"
#define STEP_NS 2000000
#define N_STEPS 16
#define COMPILES 100 /* longer than any step */
#define MOST_LOST 4

/* The first compile of all is one that asks for the compiler's version. */
static int be_child(void) {
  struct stg_nvrtc_info info;
  const struct stg_log no_log = {0};
  stg_status status = stg_nvrtc_info(&info, NULL);
  for (int i = 0; status == STG_OK && i < COMPILES; i++) {
    const struct stg_kernel_request request = scale_request("sm_80");
    struct stg_kernel_image image;
    status = stg_compile(&request, &no_log, &image, NULL);
    if (status == STG_OK) {
      stg_kernel_image_finish(&image);
    }
  }
  return status == STG_OK ? 0 : 1;
}

static pid_t start(int number) {
  char *const words[] = {(char[]){"test"}, (char[]){"compile"}, NULL};
  pid_t pid = test_fork();
  if (pid == 0) {
    signal(number, SIG_DFL); /* whatever this process inherited */
    execv(SELF, words);
    _exit(1);
  }
  assert_true(pid > 0);
  return pid;
}

static void sleep_ns(long ns) {
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Whether the signal ended a process that got it `after_ns` from its start. */
static bool is_ended_by(int number, long after_ns) {
  int outcome = 0;
  const pid_t pid = start(number);
  sleep_ns(after_ns);
  assert_int_equal(kill(pid, number), 0);
  assert_int_equal(waitpid(pid, &outcome, 0), pid);
  if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) {
    return false;
  }
  if (!WIFSIGNALED(outcome) || WTERMSIG(outcome) != number) {
    fail_msg("signal %d after %ld ms: wait status %#x", number, after_ns / 1000000,
             (unsigned)outcome);
  }
  return true;
}

/*
 * From before NVRTC is loaded into the compiles. A signal that becomes pending just before the
 * instant in which NVRTC ignores it is lost (runtime/base/interrupt.c), and the process goes on to
 * its end: about one in two hundred on an idle machine, more where a process waits for a core in
 * that instant. So each moment is tried until a signal arrives, and few may be lost in all.
 */
static void ends_by_the_signal(int number) {
  int lost = 0;
  for (long i = 0; i < N_STEPS && lost <= MOST_LOST; i++) {
    while (lost <= MOST_LOST && !is_ended_by(number, i * STEP_NS)) {
      lost++;
    }
  }
  if (lost > MOST_LOST) {
    fail_msg("signal %d is lost %d times", number, lost);
  }
}

static void an_interrupt_ends_a_process_that_compiles(void **state) {
  (void)state;
  ends_by_the_signal(SIGINT);
}

static void a_termination_ends_a_process_that_compiles(void **state) {
  (void)state;
  ends_by_the_signal(SIGTERM);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "compile") == 0) {
    return be_child();
  }
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_interrupt_ends_a_process_that_compiles),
      cmocka_unit_test(a_termination_ends_a_process_that_compiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
