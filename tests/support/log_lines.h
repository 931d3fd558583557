/*
 * log_lines.h: a log callback that keeps what was said, for tests that count warnings.
 */
#ifndef STG_TESTS_SUPPORT_LOG_LINES_H
#define STG_TESTS_SUPPORT_LOG_LINES_H

#include <stdio.h>
#include <string.h>

#include "runtime/base/log.h"

#define LOG_LINES 32

/* Not for several threads at once. */
struct log_lines {
  size_t count;
  stg_log_level level[LOG_LINES];
  char text[LOG_LINES][1024];
};

static inline void log_lines_add(void *user, stg_log_level level, const char *message) {
  struct log_lines *lines = user;
  if (lines->count < LOG_LINES) {
    lines->level[lines->count] = level;
    snprintf(lines->text[lines->count], sizeof lines->text[0], "%s", message);
  }
  lines->count++;
}

/** A log that keeps everything down to `level`. */
static inline struct stg_log log_lines_to(struct log_lines *lines, stg_log_level level) {
  return (struct stg_log){.fn = log_lines_add, .user = lines, .level = level};
}

/** The only line there must be, and clear; "" when there is none or there are several. */
static inline const char *log_lines_take_one(struct log_lines *lines) {
  size_t count = lines->count;
  lines->count = 0;
  return count == 1 ? lines->text[0] : "";
}

#endif
