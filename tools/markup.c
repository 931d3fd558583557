/*
 * markup.c: see markup.h. Must not know what is written.
 */
#include "tools/markup.h"

#include <string.h>

#include "runtime/base/utf8.h"

/* Bytes of the character at `text`, 0 when it is no UTF-8; what it is goes to `*ret_code`. */
static size_t decode(const char *text, size_t len, uint32_t *ret_code) {
  const size_t bytes = len > 0 ? stg_utf8_length(text, text + len) : 0;
  if (bytes > 0) {
    *ret_code = stg_utf8_code(text, bytes);
  }
  return bytes;
}

static bool is_shown(uint32_t code) {
  return stg_utf8_is_shown(code) && code != 0xfffe && code != 0xffff;
}

size_t stg_markup_char_bytes(const char *text, size_t len) {
  uint32_t code = 0;
  const size_t bytes = decode(text, len, &code);
  return bytes > 0 && is_shown(code) ? bytes : 0;
}

const char *stg_markup_entity(char c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  default:
    return NULL;
  }
}

/* U+2400 + c, and U+2421 for delete. */
static void append_picture(struct stg_strbuf *out, unsigned char c) {
  const char picture[] = {'\xe2', '\x90', (char)(0x80 + (c == 0x7f ? 0x21 : c)), '\0'};
  stg_strbuf_str(out, picture);
}

static void append(struct stg_strbuf *out, const char *text, size_t len, bool one_line) {
  size_t i = 0;
  while (i < len) {
    const unsigned char c = (unsigned char)text[i];
    const char *entity = stg_markup_entity(text[i]);
    uint32_t code = 0;
    const size_t bytes = decode(text + i, len - i, &code);
    if (entity != NULL) {
      stg_strbuf_str(out, entity);
    } else if ((bytes > 0 && is_shown(code)) || (!one_line && (c == '\n' || c == '\t'))) {
      stg_strbuf_mem(out, text + i, bytes);
    } else if (c < 0x20 || c == 0x7f) {
      append_picture(out, c);
    } else {
      stg_strbuf_str(out, "\xef\xbf\xbd");
    }
    i += bytes > 0 ? bytes : 1;
  }
}

void stg_markup_mem(struct stg_strbuf *out, const char *text, size_t len) {
  append(out, text, len, false);
}

void stg_markup_text(struct stg_strbuf *out, const char *text) {
  append(out, text != NULL ? text : "", text != NULL ? strlen(text) : 0, false);
}

void stg_markup_line(struct stg_strbuf *out, const char *text) {
  append(out, text != NULL ? text : "", text != NULL ? strlen(text) : 0, true);
}
