/*
 * bench/svg.h: elements of an SVG file, with texts escaped and numbers in a fixed form.
 */
#ifndef STG_TOOLS_BENCH_SVG_H
#define STG_TOOLS_BENCH_SVG_H

#include "runtime/base/strbuf.h"

/** Append `text` for a place inside an element or a quoted attribute: markup is escaped, control
 * characters and invalid UTF-8 become '?'. */
void stg_svg_escape(struct stg_strbuf *out, const char *text);

/** The root element for a drawing of this size, and its end. */
void stg_svg_open(struct stg_strbuf *out, double width, double height);
void stg_svg_close(struct stg_strbuf *out);

/* Where a text stands: `anchor` is "start", "middle" or "end"; turned by `degrees` about (x, y).
 * `style` is a class of the drawing: "head", "title", "note", "key", "name", "value". */
struct stg_svg_place {
  double x, y, degrees;
  const char *anchor;
  const char *style;
};
void stg_svg_text(struct stg_strbuf *out, const struct stg_svg_place *place, const char *text);
/** `style` is a class of the drawing: "grid", "axis", "floor". */
void stg_svg_line(struct stg_strbuf *out, double x1, double y1, double x2, double y2,
                  const char *style);

/* A filled rectangle; `title` (NULL: none) is what a viewer shows when it is pointed at. */
struct stg_svg_bar {
  double x, y, width, height;
  const char *fill;  /* "#0072b2" */
  const char *style; /* "bar", "key" */
  const char *title;
};
void stg_svg_rect(struct stg_strbuf *out, const struct stg_svg_bar *bar);

#endif
