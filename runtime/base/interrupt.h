/*
 * interrupt.h: put off the signals that end a process, while they would leave a mess.
 */
#ifndef STG_RUNTIME_BASE_INTERRUPT_H
#define STG_RUNTIME_BASE_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/* The mask as it was, and signals that had come already, in a hold around this one. */
struct stg_interrupt_hold {
  sigset_t before;
  sigset_t came;
};

/**
 * Put off SIGINT, SIGTERM and SIGHUP on this thread until release: while a file is written under a
 * temporary name, or while someone else's code has handlers of its own for them. Holds may nest.
 * Threads that are started meanwhile do not get these signals.
 */
void stg_interrupt_hold(struct stg_interrupt_hold *ret_hold);
void stg_interrupt_release(const struct stg_interrupt_hold *hold);
/** Whether one of them has come since the hold and waits for its release: time to give up. */
bool stg_interrupt_waits(void);

#endif
