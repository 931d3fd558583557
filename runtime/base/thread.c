/*
 * thread.c: see thread.h. The C library wraps the call only since 2.30, so it is made directly.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): syscall */
#include "runtime/base/thread.h"

#include <sys/syscall.h>
#include <unistd.h>

long stg_thread_id(void) {
  return syscall(SYS_gettid);
}
