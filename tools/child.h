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

#endif
