/*
 * cache/page/parts.c: see parts.h.
 */
#include "tools/cache/page/parts.h"

#include <string.h>

#include "tools/markup.h"
#include "tools/utc_time.h"

#define DATE_CHARS 10 /* "2026-01-31" */
#define TIME_CHARS 16 /* "2026-01-31T12:00" */
#define LONG_PIECE 72 /* bytes */

void stg_page_time(struct stg_strbuf *out, int64_t unix_seconds) {
  char time[STG_UTC_TIME_CHARS];
  stg_utc_time(unix_seconds, time);
  if (strlen(time) < TIME_CHARS) {
    stg_strbuf_str(out, "unknown");
    return;
  }
  stg_strbuf_printf(out,
                    "<time datetime=\"%s\" title=\"%s\">%.*s<span class=\"clock\"> %.5s</span>",
                    time, time, DATE_CHARS, time, time + DATE_CHARS + 1);
  stg_strbuf_str(out, "</time>");
}

void stg_page_ms(struct stg_strbuf *out, double ms) {
  /* what a damaged or forged entry says of itself may be any number */
  const uint64_t tenths = ms > 0 && ms < 1e15 ? (uint64_t)(ms / 100 + 0.5) : 0;
  const unsigned long long seconds = tenths / 10;
  if (seconds < 10) {
    stg_strbuf_printf(out, "%.0f ms", ms);
  } else if (seconds < 600) {
    stg_strbuf_printf(out, "%llu.%llu s", seconds, (unsigned long long)(tenths % 10));
  } else if (seconds < 6000) {
    stg_strbuf_printf(out, "%llu min", seconds / 60);
  } else {
    stg_strbuf_printf(out, "%llu h %02llu min", seconds / 3600, seconds / 60 % 60);
  }
}

/* A long piece can be shortened by the style sheet, so that what comes after it is seen. */
static void print_piece(struct stg_strbuf *out, const char *text, size_t len) {
  struct stg_strbuf piece = {0};
  const bool is_long = len > LONG_PIECE;
  stg_strbuf_mem(&piece, text, len);
  stg_strbuf_str(out, is_long ? "<span class=\"long\">" : "");
  stg_markup_line(out, stg_strbuf_text(&piece));
  stg_strbuf_str(out, is_long ? "</span>" : "");
  out->failed = out->failed || piece.failed;
  stg_strbuf_finish(&piece);
}

void stg_page_signature(struct stg_strbuf *out, const char *signature) {
  for (const char *bar = strstr(signature, " | "); bar != NULL; bar = strstr(signature, " | ")) {
    print_piece(out, signature, (size_t)(bar - signature));
    stg_strbuf_str(out, "<i> | </i>");
    signature = bar + 3;
  }
  print_piece(out, signature, strlen(signature));
}

size_t stg_page_word(const char *signature, const char *name, const char **ret_value) {
  const size_t len = strlen(name);
  for (const char *at = strstr(signature, name); at != NULL; at = strstr(at + 1, name)) {
    if (at > signature && at[-1] == ' ' && at[len] == '=') {
      *ret_value = at + len + 1;
      return strcspn(*ret_value, " ");
    }
  }
  return 0;
}
