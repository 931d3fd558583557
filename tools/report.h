/*
 * report.h: how the command talks: results on stdout, one line per failure on stderr.
 *
 * A result is put together in memory and written in one go, so that a failure prints nothing half
 * done; a write that fails (full disk, closed pipe) is a failure of the command.
 */
#ifndef STG_TOOLS_REPORT_H
#define STG_TOOLS_REPORT_H

#include <stdbool.h>

#include <steergraph/log.h>

#include "runtime/base/strbuf.h"

/** Prepare the process: standard streams that are closed stay closed, SIGPIPE is an error code. */
void stg_report_setup(void);

/**
 * Write `text` to stdout, made harmless for a terminal but for its newlines and tabs: names in it
 * have been through stg_report_clean. Returns an exit status; a failure has been said on stderr.
 */
int stg_report_print(const struct stg_strbuf *text);

/** Say "steergraph: MESSAGE" on stderr; returns STG_EXIT_FAILED. */
int stg_report_fail(const stg_error *err);

/** Say "steergraph COMMAND: MESSAGE (see ...)" on stderr; returns STG_EXIT_WRONG. */
int stg_report_wrong(const char *command, const char *fmt, ...) STG_PRINTF(2, 3);

/** Say how far a long work has come, on stderr. */
void stg_report_progress(const char *fmt, ...) STG_PRINTF(1, 2);

/**
 * Say where a long work is, on stderr: on a terminal in place of what was said so before, elsewhere
 * as a line. Whatever else is said begins a line of its own.
 */
bool stg_report_is_live(void); /* whether that is on a terminal */
void stg_report_live(const char *fmt, ...) STG_PRINTF(1, 2);
/** End the line that stands on the terminal, if one does. */
void stg_report_live_end(void);

/** The log callback of engines that the command opens. */
void stg_report_log(void *user, stg_log_level level, const char *message);

/** Append `text` with control characters, and bytes that are no UTF-8, harmless for a terminal. */
void stg_report_clean(struct stg_strbuf *out, const char *text);

#endif
