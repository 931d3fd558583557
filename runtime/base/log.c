/*
 * log.c: the one way in which the library speaks: through the callback of its host.
 *
 * Allocates nothing, so that it can also report that memory is exhausted. Knows no engine.
 */
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 2048

static bool wants(const struct stg_log *log, stg_log_level level) {
  if (log == NULL || log->fn == NULL || level < STG_LOG_ERROR) {
    return false;
  }
  return level <= (log->level == STG_LOG_DEFAULT ? STG_LOG_WARN : log->level);
}

void stg_log_printf(const struct stg_log *log, stg_log_level level, const char *fmt, ...) {
  if (!wants(log, level)) {
    return;
  }
  char line[LINE_BYTES] = "";
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  if (len >= (int)sizeof line) {
    memcpy(line + sizeof line - 4, "...", 4);
  }
  for (char *c = line; *c != '\0'; c++) {
    if (*c == '\n' || *c == '\r') {
      *c = ' ';
    }
  }
  log->fn(log->user, level, line);
}

void stg_log_text(const struct stg_log *log, stg_log_level level, const char *text) {
  if (wants(log, level)) {
    log->fn(log->user, level, text);
  }
}
