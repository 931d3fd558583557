/*
 * log.h: the callback through which the library says what a caller may want to know.
 */
#ifndef STEERGRAPH_LOG_H
#define STEERGRAPH_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* Zero is the default: warnings and errors. */
typedef enum stg_log_level {
  STG_LOG_DEFAULT = 0,
  STG_LOG_OFF = 1,
  STG_LOG_ERROR = 2,
  STG_LOG_WARN = 3,
  STG_LOG_INFO = 4,
  STG_LOG_DEBUG = 5
} stg_log_level;

/**
 * Receive one message without a trailing newline (compiler logs may have newlines inside).
 * Called from any thread, also from several at once; must not call back into the engine.
 */
typedef void (*stg_log_fn)(void *user, stg_log_level level, const char *message);

#ifdef __cplusplus
}
#endif

#endif
