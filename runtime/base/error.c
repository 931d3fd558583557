/*
 * error.c: status names and the formatter that returns its own code.
 */
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *stg_status_name(stg_status status) {
  switch (status) {
#define STG_STATUS_NAME(name, value, text)                                                         \
  case STG_##name:                                                                                 \
    return "STG_" #name;
    STG_STATUS_LIST(STG_STATUS_NAME)
#undef STG_STATUS_NAME
  }
  return "STG_UNKNOWN";
}

const char *stg_status_text(stg_status status) {
  switch (status) {
#define STG_STATUS_TEXT(name, value, text)                                                         \
  case STG_##name:                                                                                 \
    return text;
    STG_STATUS_LIST(STG_STATUS_TEXT)
#undef STG_STATUS_TEXT
  }
  return "unknown status";
}

/* Cut after at most `limit` bytes without splitting a UTF-8 sequence. */
static size_t cut_utf8(const char *text, size_t limit) {
  size_t n = limit;
  while (n > 0 && ((unsigned char)text[n] & 0xc0u) == 0x80u) {
    n--;
  }
  return n;
}

/* Put `text` into the message: one line, cut with an ellipsis when too long. */
static void set_message(stg_error *err, const char *text, bool truncated) {
  size_t len = strlen(text);
  size_t room = sizeof err->message - 1;
  if (len > room || truncated) {
    len = cut_utf8(text, len > room - 3 ? room - 3 : len);
    memcpy(err->message, text, len);
    memcpy(err->message + len, "...", 4);
    len += 3;
  } else {
    memcpy(err->message, text, len + 1);
  }
  for (size_t i = 0; i < len; i++) {
    if (err->message[i] == '\n' || err->message[i] == '\r') {
      err->message[i] = ' ';
    }
  }
}

stg_status(stg_error_set)(stg_error *err, stg_status code, const char *fmt, ...) {
  if (err == NULL) {
    return code;
  }
  char text[2 * STG_ERROR_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (len < 0) {
    text[0] = '\0';
  }
  err->code = code;
  set_message(err, text, len >= (int)sizeof text);
  return code;
}

stg_status stg_error_prefix(stg_error *err, const char *fmt, ...) {
  if (err == NULL) {
    return STG_OK;
  }
  char text[2 * STG_ERROR_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t used = len < 0 ? 0 : strlen(text);
  int more = snprintf(text + used, sizeof text - used, "%s", err->message);
  set_message(err, text, more >= (int)(sizeof text - used));
  return err->code;
}

stg_status(stg_error_io)(stg_error *err, int errnum, const char *verb, const char *path) {
  char reason[128];
  /* XSI strerror_r; feature macros are set by the build */
  if (strerror_r(errnum, reason, sizeof reason) != 0) {
    snprintf(reason, sizeof reason, "error %d", errnum);
  }
  return stg_error_set(err, STG_E_IO, "cannot %s '%s': %s", verb, path, reason);
}
