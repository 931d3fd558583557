/*
 * strbuf.h: a growing text buffer with sticky failure: append freely, check once at the end.
 */
#ifndef STG_RUNTIME_BASE_STRBUF_H
#define STG_RUNTIME_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* {0} is a valid empty buffer. `data` is always NUL-terminated once anything was appended. */
struct stg_strbuf {
  char *data;
  size_t len;
  size_t capacity;
  bool failed;
};

void stg_strbuf_str(struct stg_strbuf *sb, const char *text);
void stg_strbuf_mem(struct stg_strbuf *sb, const void *data, size_t len);
void stg_strbuf_char(struct stg_strbuf *sb, char c);
void stg_strbuf_printf(struct stg_strbuf *sb, const char *fmt, ...) STG_PRINTF(2, 3);
void stg_strbuf_vprintf(struct stg_strbuf *sb, const char *fmt, va_list args) STG_PRINTF(2, 0);
/** Append `text` as a JSON string with its quotes; invalid UTF-8 bytes become U+FFFD. */
void stg_strbuf_json(struct stg_strbuf *sb, const char *text);
/** Append a finite double in the shortest form that reads back equal; independent of the locale. */
void stg_strbuf_double(struct stg_strbuf *sb, double value);
/** Append a float in the shortest form that reads back equal ("inf", "-inf", "nan" otherwise). */
void stg_strbuf_float(struct stg_strbuf *sb, float value);
/** Append a size as people read it: "812 B", "96.1 KiB", "40.0 MiB", "1.80 GiB". */
void stg_strbuf_bytes(struct stg_strbuf *sb, uint64_t bytes);
/** The text so far, "" when empty; borrowed until the next append. */
const char *stg_strbuf_text(const struct stg_strbuf *sb);
stg_status stg_strbuf_status(const struct stg_strbuf *sb, stg_error *err);
/** Copy what fits of the text, NUL-terminated, to `ret_text` (may be NULL); the size needed. */
size_t stg_strbuf_give(const struct stg_strbuf *sb, char *ret_text, size_t capacity);
/** Hand the text over (freed with stg_free; NULL when failed) and leave the buffer empty. */
char *stg_strbuf_take(struct stg_strbuf *sb);
void stg_strbuf_finish(struct stg_strbuf *sb);

#endif
