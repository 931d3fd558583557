/*
 * bench/svg.c: see svg.h. Must not know what is drawn.
 */
#include "tools/bench/svg.h"

#include <string.h>

#include "tools/markup.h"

void stg_svg_escape(struct stg_strbuf *out, const char *text) {
  size_t len = strlen(text);
  while (len > 0) {
    const size_t bytes = stg_markup_char_bytes(text, len);
    const char *entity = stg_markup_entity(*text);
    if (entity != NULL) {
      stg_strbuf_str(out, entity);
    } else if (bytes > 0) {
      stg_strbuf_mem(out, text, bytes);
    } else {
      stg_strbuf_char(out, '?');
    }
    text += bytes > 0 ? bytes : 1;
    len -= bytes > 0 ? bytes : 1;
  }
}

/* Hundredths are enough for a screen. Independent of the locale: the parts are integers. */
static void number(struct stg_strbuf *out, double value) {
  const bool negative = value < 0;
  const uint64_t hundredths = (uint64_t)((negative ? -value : value) * 100 + 0.5);
  const unsigned part = (unsigned)(hundredths % 100);
  stg_strbuf_printf(out, "%s%llu", negative && hundredths > 0 ? "-" : "",
                    (unsigned long long)(hundredths / 100));
  if (part > 0) {
    stg_strbuf_printf(out, part % 10 == 0 ? ".%u" : ".%02u", part % 10 == 0 ? part / 10 : part);
  }
}

static void attribute(struct stg_strbuf *out, const char *key, double value) {
  stg_strbuf_printf(out, " %s=\"", key);
  number(out, value);
  stg_strbuf_char(out, '"');
}

void stg_svg_open(struct stg_strbuf *out, double width, double height) {
  stg_strbuf_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  attribute(out, "width", width);
  attribute(out, "height", height);
  stg_strbuf_str(out, " viewBox=\"0 0 ");
  number(out, width);
  stg_strbuf_char(out, ' ');
  number(out, height);
  stg_strbuf_str(out, "\" font-family=\"Helvetica, Arial, sans-serif\">\n"
                      "<style>\n"
                      "text { fill: #222; font-size: 12px }\n"
                      ".head { font-size: 19px; font-weight: bold }\n"
                      ".title { font-size: 15px; font-weight: bold }\n"
                      ".note { fill: #555 }\n"
                      ".value { font-size: 10.5px }\n"
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
  stg_strbuf_printf(out, "<text class=\"%s\"", place->style);
  attribute(out, "x", place->x);
  attribute(out, "y", place->y);
  if (strcmp(place->anchor, "start") != 0) { /* the default */
    stg_strbuf_printf(out, " text-anchor=\"%s\"", place->anchor);
  }
  if (place->degrees < 0 || place->degrees > 0) {
    stg_strbuf_str(out, " transform=\"rotate(");
    number(out, place->degrees);
    stg_strbuf_char(out, ' ');
    number(out, place->x);
    stg_strbuf_char(out, ' ');
    number(out, place->y);
    stg_strbuf_str(out, ")\"");
  }
  stg_strbuf_char(out, '>');
  stg_svg_escape(out, text);
  stg_strbuf_str(out, "</text>\n");
}

void stg_svg_line(struct stg_strbuf *out, double x1, double y1, double x2, double y2,
                  const char *style) {
  stg_strbuf_printf(out, "<line class=\"%s\"", style);
  attribute(out, "x1", x1);
  attribute(out, "y1", y1);
  attribute(out, "x2", x2);
  attribute(out, "y2", y2);
  stg_strbuf_str(out, "/>\n");
}

void stg_svg_rect(struct stg_strbuf *out, const struct stg_svg_bar *bar) {
  stg_strbuf_printf(out, "<rect class=\"%s\" fill=\"%s\"", bar->style, bar->fill);
  attribute(out, "x", bar->x);
  attribute(out, "y", bar->y);
  attribute(out, "width", bar->width);
  attribute(out, "height", bar->height);
  if (bar->title == NULL) {
    stg_strbuf_str(out, "/>\n");
    return;
  }
  stg_strbuf_str(out, "><title>");
  stg_svg_escape(out, bar->title);
  stg_strbuf_str(out, "</title></rect>\n");
}
