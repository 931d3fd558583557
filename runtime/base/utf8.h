/*
 * utf8.h: the grammar of UTF-8, for text in files that others wrote.
 *
 * Knows bytes, not where they come from. Thread-safe.
 */
#ifndef STG_RUNTIME_BASE_UTF8_H
#define STG_RUNTIME_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the well-formed sequence at `p` (Unicode table 3-7), or 0; p < end. */
size_t stg_utf8_length(const char *p, const char *end);
/** Whether all of it is well-formed and a C string can hold it: no NUL. */
bool stg_utf8_is_text(const char *text, size_t len);
/** The same, and it fits on a line as a name does: no control character. */
bool stg_utf8_is_name(const char *text, size_t len);

#endif
