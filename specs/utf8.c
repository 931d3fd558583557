/*
 * utf8.c: which bytes are text.
 */
#include "specs/utf8.h"

size_t stg_utf8_length(const char *p, const char *end) {
  unsigned char lead = (unsigned char)p[0];
  size_t n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || (size_t)(end - p) < n) {
    return 0;
  }
  for (size_t i = 1; i < n; i++) {
    if (((unsigned char)p[i] & 0xc0u) != 0x80u) {
      return 0;
    }
  }
  unsigned char second = n > 1 ? (unsigned char)p[1] : 0;
  bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  bool beyond = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : n;
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
