/*
 * log.h: one logging function; the library itself never prints.
 */
#ifndef STG_RUNTIME_BASE_LOG_H
#define STG_RUNTIME_BASE_LOG_H

#include <steergraph/log.h>

#include "runtime/base/error.h"

/* Where messages go. {0} drops them. Copied by value; `fn` may be called from any thread. */
struct stg_log {
  stg_log_fn fn;
  void *user;
  stg_log_level level; /* least severe level that is passed on */
};

/** Pass one formatted line to the callback, if it wants this level. */
void stg_log_printf(const struct stg_log *log, stg_log_level level, const char *fmt, ...)
    STG_PRINTF(3, 4);

/** Pass text of any length (a compiler log) whole, as one message. */
void stg_log_text(const struct stg_log *log, stg_log_level level, const char *text);

#endif
