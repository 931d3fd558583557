/*
 * bench/plot_text.c: see plot_text.h.
 */
#include "tools/bench/plot_text.h"

#include <string.h>

size_t stg_plot_chars(const char *text, size_t bytes) {
  size_t chars = 0;
  for (size_t i = 0; i < bytes; i++) {
    chars += ((unsigned char)text[i] & 0xc0u) != 0x80u; /* all but continuations of UTF-8 */
  }
  return chars;
}

/* The bytes of the line that begins at `text`: up to the last comma that fits, else the last blank,
 * else the first. */
static size_t line_bytes(const char *text, size_t chars) {
  size_t end = strcspn(text, " ");
  size_t comma = 0;
  while (text[end] == ' ') {
    const size_t blanks = strspn(text + end, " ");
    const size_t next = end + blanks + strcspn(text + end + blanks, " ");
    comma = end > 0 && text[end - 1] == ',' ? end : comma;
    if (stg_plot_chars(text, next) > chars) {
      return comma > 0 ? comma : end;
    }
    end = next;
  }
  return end;
}

size_t stg_plot_wrap(const char *text, size_t chars,
                     struct stg_plot_line ret_lines[STG_PLOT_MAX_LINES]) {
  size_t n = 0;
  do {
    const size_t bytes = n + 1 < STG_PLOT_MAX_LINES ? line_bytes(text, chars) : strlen(text);
    ret_lines[n++] = (struct stg_plot_line){text, bytes};
    text += bytes;
    text += strspn(text, " ");
  } while (*text != '\0');
  return n;
}
