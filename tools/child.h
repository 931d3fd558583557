/*
 * child.h: run a program in a process of its own and take what it prints.
 */
#ifndef STG_TOOLS_CHILD_H
#define STG_TOOLS_CHILD_H

#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"

/* A program, and how messages speak of it. */
struct stg_child {
  const char *const *places; /* tried in turn, ends with NULL; a name without "/" is one of PATH */
  const char *const *argv;   /* ends with NULL */
  const char *absent;        /* the message where no place has it; NULL: "cannot start ..." */
  const char *name;          /* as in "NAME was ended by signal 9" */
  const char *advice;        /* behind "NAME failed with exit status 1; " */
};

/**
 * Append its stdout to `output`; stderr and the environment are ours, and the signals that this
 * thread puts off act on it at once.
 * @return STG_E_NOT_FOUND with `absent`; STG_E_IO when it cannot be started or ends badly.
 */
STG_NODISCARD stg_status stg_child_run(const struct stg_child *child, struct stg_strbuf *output,
                                       stg_error *reterr);

/* A program that runs; texts are the child's. */
struct stg_child_running {
  const char *place, *name, *advice;
  long pid;
  int from; /* where its stdout is read */
};
/**
 * The same in two parts, so that several run at once: what one prints beyond 64 KiB keeps it
 * waiting until it is finished. Each that was started is to be finished. Fails as stg_child_run
 * does.
 */
STG_NODISCARD stg_status stg_child_start(const struct stg_child *child,
                                         struct stg_child_running *ret_running, stg_error *reterr);
/** Read all that it prints, wait for its end. */
STG_NODISCARD stg_status stg_child_finish(const struct stg_child_running *running,
                                          struct stg_strbuf *output, stg_error *reterr);

#endif
