/*
 * error.h: fill a caller-owned stg_error and return its code in one expression.
 */
#ifndef STG_RUNTIME_BASE_ERROR_H
#define STG_RUNTIME_BASE_ERROR_H

#include <steergraph/status.h>

/**
 * Fill `err` (may be NULL) with `code` and a formatted one-line message, and return `code`.
 * Over-long messages are cut at a UTF-8 boundary and end in "..."; newlines become spaces.
 */
stg_status stg_error_set(stg_error *err, stg_status code, const char *fmt, ...) STG_PRINTF(3, 4);

/* The code comes back in sight of the caller, so that compilers and analysers know that a failure
 * is no success, and do not warn of outputs that only success fills. */
static inline stg_status stg_error_known(stg_status code, stg_status set) {
  (void)set;
  return code;
}
#define stg_error_set(err, code, ...)                                                              \
  stg_error_known((code), stg_error_set((err), (code), __VA_ARGS__))

/** Put formatted text before the message of `err` (may be NULL); returns err's code, or STG_OK. */
stg_status stg_error_prefix(stg_error *err, const char *fmt, ...) STG_PRINTF(2, 3);

/** "name: strerror(errnum)" helper: fill `err` with STG_E_IO, "cannot <verb> '<path>': <reason>".
 */
stg_status stg_error_io(stg_error *err, int errnum, const char *verb, const char *path);
#define stg_error_io(err, errnum, verb, path)                                                      \
  stg_error_known(STG_E_IO, stg_error_io((err), (errnum), (verb), (path)))

#endif
