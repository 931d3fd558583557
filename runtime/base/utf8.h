/*
 * utf8.h: the grammar of UTF-8, for text in files that others wrote.
 *
 * Knows bytes, not where they come from. Thread-safe.
 */
#ifndef STG_RUNTIME_BASE_UTF8_H
#define STG_RUNTIME_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of the well-formed sequence (Unicode table 3-7) at `s`, NUL-terminated, or 0. */
size_t stg_utf8_sequence(const unsigned char *s);
/** The same at `p`, of a text that ends at `end`; p < end. */
size_t stg_utf8_length(const char *p, const char *end);
/** The code point of the well-formed sequence of `bytes` bytes at `p`. */
uint32_t stg_utf8_code(const char *p, size_t bytes);
/**
 * Whether a code point shows as a character where it stands: no control character, and no format
 * control, which turns the direction of what follows, joins, hides or breaks it, so that one name
 * could show as another. May be called in a signal handler.
 */
bool stg_utf8_is_shown(uint32_t code);
/** Whether all of it is well-formed and a C string can hold it: no NUL. */
bool stg_utf8_is_text(const char *text, size_t len);
/** The same, and it fits on a line as a name does: no control character. */
bool stg_utf8_is_name(const char *text, size_t len);

#endif
