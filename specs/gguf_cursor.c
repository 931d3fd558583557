/*
 * gguf_cursor.c: numbers and texts of a GGUF file, one after the other, never beyond its end.
 *
 * A length is compared with what is left before anything is done with it. Must not know what a
 * number or text means.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/utf8.h"
#include "specs/gguf.h"

stg_status stg_gguf_error(const struct stg_gguf_cursor *cursor, stg_error *reterr, stg_status code,
                          size_t at, const char *fmt, ...) {
  struct stg_strbuf message = {0};
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(&message, fmt, args);
  va_end(args);
  stg_error_set(reterr, code, "%s: %s %" PRIu64 " of %" PRIu64 ", byte %zu: %s", cursor->path,
                cursor->part, cursor->index, cursor->count, at, stg_strbuf_text(&message));
  stg_strbuf_finish(&message);
  return code;
}

size_t stg_gguf_left(const struct stg_gguf_cursor *cursor) {
  return cursor->size - cursor->at;
}

stg_status stg_gguf_number(struct stg_gguf_cursor *cursor, size_t width, uint64_t *ret_value,
                           stg_error *reterr) {
  if (width > stg_gguf_left(cursor)) {
    return stg_gguf_error(cursor, reterr, STG_E_FORMAT, cursor->at,
                          "a number of %zu bytes does not fit in the %zu left; it is cut short or "
                          "damaged",
                          width, stg_gguf_left(cursor));
  }
  *ret_value = stg_le_load(cursor->bytes + cursor->at, width);
  cursor->at += width;
  return STG_OK;
}

stg_status stg_gguf_text(struct stg_gguf_cursor *cursor, struct stg_gguf_text *ret_text,
                         stg_error *reterr) {
  const size_t begin = cursor->at;
  uint64_t len = 0;
  stg_status status = stg_gguf_number(cursor, 8, &len, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (len > stg_gguf_left(cursor)) {
    return stg_gguf_error(cursor, reterr, STG_E_FORMAT, begin,
                          "a text of %" PRIu64 " bytes does not fit in the %zu left; it is cut "
                          "short or damaged",
                          len, stg_gguf_left(cursor));
  }
  ret_text->data = (const char *)cursor->bytes + cursor->at;
  ret_text->len = (size_t)len;
  cursor->at += (size_t)len;
  return STG_OK;
}

stg_status stg_gguf_name(struct stg_gguf_cursor *cursor, const char *what, size_t max_bytes,
                         struct stg_gguf_text *ret_text, stg_error *reterr) {
  const size_t begin = cursor->at;
  struct stg_gguf_text text = {0};
  stg_status status = stg_gguf_text(cursor, &text, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (text.len == 0 || text.len > max_bytes) {
    return stg_gguf_error(cursor, reterr, STG_E_FORMAT, begin, "a %s of %zu bytes; it has 1 to %zu",
                          what, text.len, max_bytes);
  }
  if (!stg_utf8_is_name(text.data, text.len)) {
    return stg_gguf_error(cursor, reterr, STG_E_FORMAT, begin,
                          "a %s that is not UTF-8, or holds control characters", what);
  }
  *ret_text = text;
  return STG_OK;
}

static int compare_names(const void *a, const void *b) {
  const char *const *x = a;
  const char *const *y = b;
  return strcmp(*x, *y);
}

stg_status stg_gguf_unique(const char *path, const char *what, const char **names, size_t n_names,
                           stg_error *reterr) {
  qsort(names, n_names, sizeof *names, compare_names);
  for (size_t i = 1; i < n_names; i++) {
    if (strcmp(names[i - 1], names[i]) == 0) {
      return stg_error_set(reterr, STG_E_FORMAT, "%s: %s '%.*s' is given twice", path, what,
                           STG_GGUF_NAME_CHARS, names[i]);
    }
  }
  return STG_OK;
}
