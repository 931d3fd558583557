/*
 * utf8.c: which bytes are text. The grammar of one character is stg_utf8_sequence's.
 */
#include "runtime/base/utf8.h"

#include <string.h>

#include "runtime/base/strbuf.h"

#define MAX_SEQUENCE_BYTES 4

size_t stg_utf8_length(const char *p, const char *end) {
  unsigned char sequence[MAX_SEQUENCE_BYTES + 1] = {0}; /* a NUL ends it, as the text may not */
  const size_t left = (size_t)(end - p);
  memcpy(sequence, p, left < MAX_SEQUENCE_BYTES ? left : MAX_SEQUENCE_BYTES);
  return stg_utf8_sequence(sequence);
}

/* Well-formed, of characters from U+`least` on; DEL and U+0080 to U+009F are control characters. */
static bool is_from(const char *text, size_t len, unsigned char least, bool with_controls) {
  for (size_t at = 0; at < len;) {
    unsigned char c = (unsigned char)text[at];
    size_t n = stg_utf8_length(text + at, text + len);
    if (n == 0 || c < least) {
      return false;
    }
    const bool control = c == 0x7f || (c == 0xc2 && (unsigned char)text[at + 1] < 0xa0);
    if (control && !with_controls) {
      return false;
    }
    at += n;
  }
  return true;
}

bool stg_utf8_is_text(const char *text, size_t len) {
  return is_from(text, len, 0x01, true);
}

bool stg_utf8_is_name(const char *text, size_t len) {
  return is_from(text, len, 0x20, false);
}
