/*
 * bench/svg.c: see svg.h. Must not know what is drawn.
 */
#include "tools/bench/svg.h"

#include <string.h>

/* Bytes of the UTF-8 character at `text`, 0 when it is none that XML may hold. */
static size_t char_bytes(const unsigned char *text) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (text[0] < 0x80) {
    return text[0] >= 0x20 && text[0] != 0x7f ? 1 : 0;
  }
  const size_t bytes = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc0 ? 2 : 0;
  uint32_t code = bytes == 4 ? text[0] & 7u : bytes == 3 ? text[0] & 15u : text[0] & 31u;
  if (bytes == 0 || text[0] > 0xf7) {
    return 0;
  }
  for (size_t i = 1; i < bytes; i++) {
    if ((text[i] & 0xc0u) != 0x80u) {
      return 0;
    }
    code = code << 6 | (text[i] & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool refused = surrogate || code == 0xfffe || code == 0xffff || code > 0x10ffff;
  return code < least[bytes] || refused ? 0 : bytes;
}

static const char *entity(char c) {
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

void stg_svg_escape(struct stg_strbuf *out, const char *text) {
  while (*text != '\0') {
    const size_t bytes = char_bytes((const unsigned char *)text);
    const char *escaped = entity(*text);
    if (escaped != NULL) {
      stg_strbuf_str(out, escaped);
    } else if (bytes > 0) {
      stg_strbuf_mem(out, text, bytes);
    } else {
      stg_strbuf_char(out, '?');
    }
    text += bytes > 0 ? bytes : 1;
  }
}

/* Hundredths are enough for a screen. Independent of the locale: the parts are integers. */
static void number(struct stg_strbuf *out, const char *key, double value) {
  const bool negative = value < 0;
  const uint64_t hundredths = (uint64_t)((negative ? -value : value) * 100 + 0.5);
  stg_strbuf_printf(out, " %s=\"%s%llu.%02u\"", key, negative && hundredths > 0 ? "-" : "",
                    (unsigned long long)(hundredths / 100), (unsigned)(hundredths % 100));
}

void stg_svg_open(struct stg_strbuf *out, double width, double height) {
  stg_strbuf_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  number(out, "width", width);
  number(out, "height", height);
  stg_strbuf_str(out, " font-family=\"Helvetica, Arial, sans-serif\">\n"
                      "<style>\n"
                      "text { fill: #222 }\n"
                      ".grid { stroke: #ddd; stroke-width: 1 }\n"
                      ".axis { stroke: #222; stroke-width: 1 }\n"
                      ".floor { stroke: #000; stroke-width: 2; stroke-dasharray: 4 2 }\n"
                      "</style>\n");
  struct stg_svg_bar paper = {.width = width, .height = height, .fill = "#fff", .style = "paper"};
  stg_svg_rect(out, &paper);
}

void stg_svg_close(struct stg_strbuf *out) {
  stg_strbuf_str(out, "</svg>\n");
}

void stg_svg_text(struct stg_strbuf *out, const struct stg_svg_place *place, const char *text) {
  stg_strbuf_str(out, "<text");
  number(out, "x", place->x);
  number(out, "y", place->y);
  number(out, "font-size", place->size);
  stg_strbuf_printf(out, " text-anchor=\"%s\"", place->anchor);
  if (place->degrees < 0 || place->degrees > 0) {
    stg_strbuf_printf(out, " transform=\"rotate(%d %d %d)\"", (int)place->degrees, (int)place->x,
                      (int)place->y);
  }
  stg_strbuf_char(out, '>');
  stg_svg_escape(out, text);
  stg_strbuf_str(out, "</text>\n");
}

void stg_svg_line(struct stg_strbuf *out, double x1, double y1, double x2, double y2,
                  const char *style) {
  stg_strbuf_printf(out, "<line class=\"%s\"", style);
  number(out, "x1", x1);
  number(out, "y1", y1);
  number(out, "x2", x2);
  number(out, "y2", y2);
  stg_strbuf_str(out, "/>\n");
}

void stg_svg_rect(struct stg_strbuf *out, const struct stg_svg_bar *bar) {
  stg_strbuf_printf(out, "<rect class=\"%s\" fill=\"%s\"", bar->style, bar->fill);
  number(out, "x", bar->x);
  number(out, "y", bar->y);
  number(out, "width", bar->width);
  number(out, "height", bar->height);
  if (bar->title == NULL) {
    stg_strbuf_str(out, "/>\n");
    return;
  }
  stg_strbuf_str(out, "><title>");
  stg_svg_escape(out, bar->title);
  stg_strbuf_str(out, "</title></rect>\n");
}
