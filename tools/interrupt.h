/*
 * interrupt.h: keep Ctrl-C from leaving half-made files behind.
 */
#ifndef STG_TOOLS_INTERRUPT_H
#define STG_TOOLS_INTERRUPT_H

#include <signal.h>

/* The signals as they were. */
struct stg_interrupt_hold {
  sigset_t before;
};

/**
 * Put off SIGINT, SIGTERM and SIGHUP until release, for the short time in which a file is written
 * under a temporary name.
 */
void stg_interrupt_hold(struct stg_interrupt_hold *ret_hold);
void stg_interrupt_release(const struct stg_interrupt_hold *hold);

#endif
