/*
 * strbuf.c: one reserve function under every append; JSON strings; numbers that read back equal.
 *
 * The host may have set any locale, and other code reads what is written here, so numbers are
 * freed of it: printf and strtod agree on a decimal point, which is replaced afterwards.
 */
#include "runtime/base/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"
#include "runtime/base/utf8.h"

#define FIRST_CAPACITY ((size_t)64)
#define NUMBER_CHARS 48 /* 17 digits, sign, exponent, a decimal point of any locale */

/* Make room for `more` bytes and a NUL; false, and sticky, when that cannot be had. */
static bool reserve(struct stg_strbuf *sb, size_t more) {
  size_t need;
  if (sb->failed) {
    return false;
  }
  if (!stg_add_size(sb->len, more, &need) || !stg_add_size(need, 1, &need)) {
    sb->failed = true;
    return false;
  }
  if (need <= sb->capacity) {
    return true;
  }
  size_t capacity = sb->capacity != 0 ? sb->capacity : FIRST_CAPACITY;
  while (capacity < need) {
    capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
  }
  char *data = stg_realloc(sb->data, capacity);
  if (data == NULL) {
    sb->failed = true;
    return false;
  }
  sb->data = data;
  sb->capacity = capacity;
  return true;
}

void stg_strbuf_mem(struct stg_strbuf *sb, const void *data, size_t len) {
  if (!reserve(sb, len)) {
    return;
  }
  if (len != 0) {
    memcpy(sb->data + sb->len, data, len);
  }
  sb->len += len;
  sb->data[sb->len] = '\0';
}

void stg_strbuf_str(struct stg_strbuf *sb, const char *text) {
  stg_strbuf_mem(sb, text, strlen(text));
}

void stg_strbuf_char(struct stg_strbuf *sb, char c) {
  stg_strbuf_mem(sb, &c, 1);
}

void stg_strbuf_vprintf(struct stg_strbuf *sb, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, fmt, args);
  if (len < 0) {
    sb->failed = true;
  } else if (reserve(sb, (size_t)len)) {
    vsnprintf(sb->data + sb->len, (size_t)len + 1, fmt, again);
    sb->len += (size_t)len;
  }
  va_end(again);
}

void stg_strbuf_printf(struct stg_strbuf *sb, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(sb, fmt, args);
  va_end(args);
}

static void json_ascii(struct stg_strbuf *sb, unsigned char c) {
  static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i + 1 < sizeof escapes; i += 2) {
    if (c == (unsigned char)escapes[i]) {
      stg_strbuf_char(sb, '\\');
      stg_strbuf_char(sb, escapes[i + 1]);
      return;
    }
  }
  if (c < 0x20 || c == 0x7f) {
    stg_strbuf_printf(sb, "\\u%04x", c);
  } else {
    stg_strbuf_char(sb, (char)c);
  }
}

void stg_strbuf_json(struct stg_strbuf *sb, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  stg_strbuf_char(sb, '"');
  while (*s != '\0') {
    size_t len = stg_utf8_sequence(s);
    if (len == 0) {
      stg_strbuf_str(sb, "\xef\xbf\xbd");
      len = 1;
    } else if (len == 1) {
      json_ascii(sb, *s);
    } else {
      stg_strbuf_mem(sb, s, len);
    }
    s += len;
  }
  stg_strbuf_char(sb, '"');
}

/* Append a printed number with '.' in place of whatever bytes the locale put there. */
static void append_number(struct stg_strbuf *sb, const char *number) {
  while (*number != '\0') {
    size_t plain = strspn(number, "0123456789+-e");
    stg_strbuf_mem(sb, number, plain);
    number += plain;
    size_t point = strcspn(number, "0123456789+-e");
    if (point != 0) {
      stg_strbuf_char(sb, '.');
    }
    number += point;
  }
}

/* Append inf or nan; true when `value` was one of these. */
static bool append_non_finite(struct stg_strbuf *sb, double value) {
  if (isfinite(value)) {
    return false;
  }
  stg_strbuf_str(sb, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return true;
}

void stg_strbuf_double(struct stg_strbuf *sb, double value) {
  if (append_non_finite(sb, value)) {
    return;
  }
  char number[NUMBER_CHARS];
  int digits = 0;
  do {
    digits++;
    snprintf(number, sizeof number, "%.*g", digits, value);
  } while (digits < 17 && strtod(number, NULL) != value);
  append_number(sb, number);
}

void stg_strbuf_float(struct stg_strbuf *sb, float value) {
  if (append_non_finite(sb, (double)value)) {
    return;
  }
  char number[NUMBER_CHARS];
  int digits = 0;
  do {
    digits++;
    snprintf(number, sizeof number, "%.*g", digits, (double)value);
  } while (digits < 9 && strtof(number, NULL) != value);
  append_number(sb, number);
}

void stg_strbuf_bytes(struct stg_strbuf *sb, uint64_t bytes) {
  const double kib = (double)bytes / 1024;
  if (bytes < 1024) {
    stg_strbuf_printf(sb, "%u B", (unsigned)bytes);
  } else if (bytes < UINT64_C(1) << 20) {
    stg_strbuf_printf(sb, "%.1f KiB", kib);
  } else if (bytes < UINT64_C(1) << 30) {
    stg_strbuf_printf(sb, "%.1f MiB", kib / 1024);
  } else {
    stg_strbuf_printf(sb, "%.2f GiB", kib / 1024 / 1024);
  }
}

const char *stg_strbuf_text(const struct stg_strbuf *sb) {
  return sb->data != NULL ? sb->data : "";
}

stg_status stg_strbuf_status(const struct stg_strbuf *sb, stg_error *err) {
  if (!sb->failed) {
    return STG_OK;
  }
  return stg_error_set(err, STG_E_NO_MEMORY, "out of memory: a text of %zu bytes cannot grow",
                       sb->len);
}

size_t stg_strbuf_give(const struct stg_strbuf *sb, char *ret_text, size_t capacity) {
  const char *text = stg_strbuf_text(sb);
  const size_t needed = strlen(text) + 1;
  if (ret_text != NULL && capacity > 0) {
    const size_t copied = needed <= capacity ? needed - 1 : capacity - 1;
    memcpy(ret_text, text, copied);
    ret_text[copied] = '\0';
  }
  return needed;
}

char *stg_strbuf_take(struct stg_strbuf *sb) {
  char *text = NULL;
  if (reserve(sb, 0)) { /* an empty buffer has no bytes to hand over yet */
    text = sb->data;
    text[sb->len] = '\0';
  } else {
    stg_free(sb->data);
  }
  *sb = (struct stg_strbuf){0};
  return text;
}

void stg_strbuf_finish(struct stg_strbuf *sb) {
  stg_free(sb->data);
  *sb = (struct stg_strbuf){0};
}
