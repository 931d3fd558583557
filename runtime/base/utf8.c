/*
 * utf8.c: which bytes are text.
 */
#include "runtime/base/utf8.h"

#include <string.h>

#define MAX_SEQUENCE_BYTES 4

size_t stg_utf8_sequence(const unsigned char *s) {
  if (s[0] < 0x80) {
    return 1;
  }
  size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4) {
    return 0;
  }
  for (size_t i = 1; i < len; i++) {
    if ((s[i] & 0xc0u) != 0x80u) {
      return 0;
    }
  }
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool surrogate = s[0] == 0xed && s[1] > 0x9f;
  bool too_large = s[0] == 0xf4 && s[1] > 0x8f;
  return overlong || surrogate || too_large ? 0 : len;
}

size_t stg_utf8_length(const char *p, const char *end) {
  unsigned char sequence[MAX_SEQUENCE_BYTES + 1] = {0}; /* a NUL ends it, as the text may not */
  const size_t left = (size_t)(end - p);
  memcpy(sequence, p, left < MAX_SEQUENCE_BYTES ? left : MAX_SEQUENCE_BYTES);
  return stg_utf8_sequence(sequence);
}

uint32_t stg_utf8_code(const char *p, size_t bytes) {
  static const unsigned char bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = (unsigned char)p[0] & bits[bytes];
  for (size_t i = 1; i < bytes; i++) {
    code = code << 6 | ((unsigned char)p[i] & 0x3fu);
  }
  return code;
}

bool stg_utf8_is_shown(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } hidden[] = {
      {0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad},   {0x061c, 0x061c},
      {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
      {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
  };
  bool shown = true;
  for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
    shown = shown && (code < hidden[i].first || code > hidden[i].last);
  }
  return shown;
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
