/*
 * interrupt.c: a signal mask around the writing of a file.
 *
 * A signal that comes meanwhile acts on release, with its default effect: the shell sees a process
 * that ended by Ctrl-C, and the folder holds the old file or the new one, no temporary one.
 */
#include "tools/interrupt.h"

#include <stddef.h>

void stg_interrupt_hold(struct stg_interrupt_hold *ret_hold) {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &held, &ret_hold->before);
}

void stg_interrupt_release(const struct stg_interrupt_hold *hold) {
  pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
