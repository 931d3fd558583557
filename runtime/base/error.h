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

/** Put formatted text before the message of `err` (may be NULL); returns err's code, or STG_OK. */
stg_status stg_error_prefix(stg_error *err, const char *fmt, ...) STG_PRINTF(2, 3);

/** "name: strerror(errnum)" helper: fill `err` with STG_E_IO, "cannot <verb> '<path>': <reason>".
 */
stg_status stg_error_io(stg_error *err, int errnum, const char *verb, const char *path);

#endif
