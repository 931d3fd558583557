/*
 * interrupt.c: a signal mask around work that must not be cut off.
 *
 * A signal that comes meanwhile acts on release, as it would have acted before: the shell sees a
 * process that ended by Ctrl-C, and a folder holds the old file or the new one, no temporary one.
 *
 * A signal that is pending is lost when someone sets it to SIG_IGN, be it for an instant, as NVRTC
 * does before it sets its handlers. So what has come is taken, and sent again on release. What
 * comes between that and NVRTC's instant is lost all the same; nothing outside of NVRTC can tell.
 */
#include "runtime/base/interrupt.h"

#include <stddef.h>
#include <time.h>
#include <unistd.h>

static const int held[] = {SIGINT, SIGTERM, SIGHUP};
#define N_HELD (sizeof held / sizeof held[0])

void stg_interrupt_hold(struct stg_interrupt_hold *ret_hold) {
  const struct timespec at_once = {0};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < N_HELD; i++) {
    sigaddset(&set, held[i]);
  }
  pthread_sigmask(SIG_BLOCK, &set, &ret_hold->before);
  sigemptyset(&ret_hold->came);
  for (int number; (number = sigtimedwait(&set, NULL, &at_once)) > 0;) {
    sigaddset(&ret_hold->came, number);
  }
}

bool stg_interrupt_waits(void) {
  sigset_t waiting;
  sigemptyset(&waiting);
  sigpending(&waiting);
  bool found = false;
  for (size_t i = 0; i < N_HELD; i++) {
    found = found || sigismember(&waiting, held[i]) == 1;
  }
  return found;
}

void stg_interrupt_release(const struct stg_interrupt_hold *hold) {
  for (size_t i = 0; i < N_HELD; i++) {
    if (sigismember(&hold->came, held[i]) == 1) {
      kill(getpid(), held[i]);
    }
  }
  pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
