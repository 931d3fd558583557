/*
 * cache/page/charts.c: see charts.h.
 *
 * Bars lie in percent of the drawing's width and texts have a size of their own, so that a chart is
 * as readable on a phone as on a desk. Colours are the style sheet's.
 */
#include "tools/cache/page/charts.h"

#include <string.h>

#include "tools/cache/page/groups.h"
#include "tools/cache/page/parts.h"
#include "tools/markup.h"

#define ROW_HEIGHT 33
#define BAR_TOP 17 /* in a row, below its label */
#define BAR_HEIGHT 9
#define AXIS_HEIGHT 40
#define MAX_TICKS 5
#define MAX_LABEL 52 /* characters */

/* From 0 to `max`, with a tick at every multiple of `step`; in the unit of the axis. */
struct axis {
  double max, step;
  const char *title;
};

/* A chart in the making. */
struct chart {
  const struct stg_page_groups *groups;
  struct axis axis;
  double unit; /* what 1 on the axis is, in bytes or milliseconds */
};

/* The largest value is at most at the last tick. */
static struct axis axis_to(double largest, const char *title) {
  static const double factors[] = {2, 2.5, 2}; /* 1, 2, 5, 10 */
  struct axis axis = {.step = 1, .title = title};
  for (size_t i = 0; largest > axis.step * MAX_TICKS; i++) {
    axis.step *= factors[i % 3];
  }
  while (axis.max < largest || axis.max <= 0) {
    axis.max += axis.step;
  }
  return axis;
}

/* Of the chart's width, in hundredths of a percent. */
static unsigned part_of(const struct chart *chart, double value) {
  const double share = value / chart->unit / chart->axis.max;
  return share > 0 ? (unsigned)((share < 1 ? share : 1) * 10000 + 0.5) : 0;
}

static void percent(struct stg_strbuf *out, const char *name, unsigned hundredths) {
  stg_strbuf_printf(out, " %s=\"%u.%02u%%\"", name, hundredths / 100, hundredths % 100);
}

static void print_axis(const struct chart *chart, unsigned height, struct stg_strbuf *out) {
  const unsigned bottom = height - AXIS_HEIGHT;
  const unsigned n_ticks = (unsigned)(chart->axis.max / chart->axis.step + 0.5);
  for (unsigned i = 0; i <= n_ticks; i++) {
    const unsigned at = 10000 * i / n_ticks;
    const char *anchor = i == 0 ? "start" : i == n_ticks ? "end" : "middle";
    stg_strbuf_str(out, "<line class=\"grid\" y1=\"0\"");
    percent(out, "x1", at);
    percent(out, "x2", at);
    stg_strbuf_printf(out, " y2=\"%u\"/><text class=\"tick\" text-anchor=\"%s\"", bottom, anchor);
    percent(out, "x", at);
    stg_strbuf_printf(out, " y=\"%u\">%llu</text>\n", bottom + 15,
                      (unsigned long long)(chart->axis.step * i + 0.5));
  }
  stg_strbuf_printf(out,
                    "<text class=\"axis\" text-anchor=\"middle\" x=\"50%%\" y=\"%u\">%s</text>\n",
                    height - 6, chart->axis.title);
}

static void print_rect(const struct chart *chart, const char *style, double from, double to,
                       unsigned top, struct stg_strbuf *out) {
  const unsigned left = part_of(chart, from);
  const unsigned right = part_of(chart, to);
  stg_strbuf_printf(out, "<rect class=\"%s\" y=\"%u\" height=\"%d\"", style, top, BAR_HEIGHT);
  percent(out, "x", left);
  percent(out, "width", right > left ? right - left : 0);
  stg_strbuf_str(out, "/>");
}

/* A label is cut at a character: what is longer would meet the value. */
static void print_label(const struct chart *chart, const struct stg_page_group *group,
                        struct stg_strbuf *out) {
  struct stg_strbuf label = {0};
  stg_page_group_print(chart->groups, group, &label);
  const char *text = stg_strbuf_text(&label);
  size_t len = 0;
  for (size_t i = 0; i < MAX_LABEL && len < label.len; i++) {
    const size_t bytes = stg_markup_char_bytes(text + len, label.len - len);
    len += bytes > 0 ? bytes : 1;
  }
  stg_markup_mem(out, text, len);
  stg_strbuf_str(out, len < label.len ? "\xe2\x80\xa6" : "");
  if (group->count > 1) {
    stg_strbuf_printf(out, " \xc3\x97%zu", group->count);
  }
  out->failed = out->failed || label.failed;
  stg_strbuf_finish(&label);
}

/* The beginning of a bar: a link to the row of an entry, or a group of several. */
static void open_bar(const struct chart *chart, const struct stg_page_group *group,
                     struct stg_strbuf *out) {
  if (chart->groups->by == STG_PAGE_BY_ENTRY) {
    stg_strbuf_printf(out, "<a class=\"bar\" href=\"#e%zu\"><title>", group->number);
    stg_markup_line(out, group->first->signature);
    stg_strbuf_str(out, "\n");
  } else {
    stg_strbuf_str(out, "<g class=\"bar\"><title>");
    print_label(chart, group, out);
    stg_strbuf_str(out, "\n");
  }
}

static void close_bar(const struct chart *chart, struct stg_strbuf *out) {
  stg_strbuf_str(out, chart->groups->by == STG_PAGE_BY_ENTRY ? "</a>\n" : "</g>\n");
}

/* After the title of a bar: its label. The value at the right end follows. */
static void begin_value(const struct chart *chart, const struct stg_page_group *group, unsigned top,
                        struct stg_strbuf *out) {
  stg_strbuf_printf(out, "</title><text class=\"label\" x=\"0\" y=\"%u\">", top + 11);
  print_label(chart, group, out);
  stg_strbuf_printf(out, "</text><text class=\"value\" text-anchor=\"end\" x=\"100%%\" y=\"%u\">",
                    top + 11);
}

/* Texts are drawn before the bar, for each clears some room around it. */
static void end_value(unsigned top, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "</text><rect class=\"track\" y=\"%u\" width=\"100%%\" height=\"%d\"/>",
                    top + BAR_TOP, BAR_HEIGHT);
}

static void print_bytes_bar(const struct chart *chart, const struct stg_page_group *group,
                            unsigned top, struct stg_strbuf *out) {
  const double cubin = (double)group->cubin_bytes;
  const double source = cubin + (double)group->source_bytes;
  open_bar(chart, group, out);
  stg_strbuf_bytes(out, group->bytes);
  stg_strbuf_str(out, ": cubin ");
  stg_strbuf_bytes(out, group->cubin_bytes);
  stg_strbuf_str(out, ", source ");
  stg_strbuf_bytes(out, group->source_bytes);
  begin_value(chart, group, top, out);
  stg_strbuf_bytes(out, group->bytes);
  end_value(top, out);
  print_rect(chart, "part1", 0, cubin, top + BAR_TOP, out);
  print_rect(chart, "part2", cubin, source, top + BAR_TOP, out);
  print_rect(chart, "part3", source, (double)group->bytes, top + BAR_TOP, out);
  close_bar(chart, out);
}

static void print_time_bar(const struct chart *chart, const struct stg_page_group *group,
                           unsigned top, struct stg_strbuf *out) {
  const double mean = stg_page_group_mean_ms(group);
  open_bar(chart, group, out);
  stg_page_ms(out, mean);
  if (group->count > 1) {
    stg_strbuf_str(out, " on average, from ");
    stg_page_ms(out, group->min_ms);
    stg_strbuf_str(out, " to ");
    stg_page_ms(out, group->max_ms);
  }
  begin_value(chart, group, top, out);
  stg_page_ms(out, mean);
  end_value(top, out);
  print_rect(chart, "part1", 0, mean, top + BAR_TOP, out);
  if (group->count > 1) {
    stg_strbuf_str(out, "<line class=\"range\"");
    percent(out, "x1", part_of(chart, group->min_ms));
    percent(out, "x2", part_of(chart, group->max_ms));
    stg_strbuf_printf(out, " y1=\"%u.5\" y2=\"%u.5\"/>", top + BAR_TOP + BAR_HEIGHT / 2,
                      top + BAR_TOP + BAR_HEIGHT / 2);
  }
  close_bar(chart, out);
}

static void print_chart(const struct chart *chart, bool is_time, struct stg_strbuf *out) {
  const unsigned height = (unsigned)chart->groups->count * ROW_HEIGHT + AXIS_HEIGHT;
  stg_strbuf_printf(out,
                    "<svg class=\"chart\" role=\"group\" aria-label=\"%s\" width=\"100%%\" "
                    "height=\"%u\">\n",
                    is_time ? "time to compile" : "size", height);
  print_axis(chart, height, out);
  for (size_t i = 0; i < chart->groups->count; i++) {
    const unsigned top = (unsigned)i * ROW_HEIGHT;
    if (is_time) {
      print_time_bar(chart, &chart->groups->groups[i], top, out);
    } else {
      print_bytes_bar(chart, &chart->groups->groups[i], top, out);
    }
  }
  stg_strbuf_str(out, "</svg>\n");
}

static const char *subject(const struct stg_page_groups *groups) {
  static const char *const subjects[] = {"by entry", "by shape and architecture",
                                         "by family, architecture and compiler"};
  return subjects[groups->by];
}

static void print_sizes(const struct stg_page_groups *groups, struct stg_strbuf *out) {
  double largest = 0;
  for (size_t i = 0; i < groups->count; i++) {
    const double bytes = (double)groups->groups[i].bytes;
    largest = bytes > largest ? bytes : largest;
  }
  const bool in_mib = largest >= 4.0 * 1024 * 1024;
  struct chart chart = {.groups = groups, .unit = in_mib ? 1024.0 * 1024 : 1024};
  chart.axis = axis_to(largest / chart.unit, in_mib ? "size, MiB" : "size, KiB");
  stg_strbuf_printf(out,
                    "<figure class=\"card\"><figcaption><h2>Size <span class=\"muted\">%s"
                    "</span></h2><ul class=\"legend\"><li class=\"part1\">cubin</li>"
                    "<li class=\"part2\">source</li><li class=\"part3\">key factors and "
                    "facts</li></ul></figcaption>\n",
                    subject(groups));
  print_chart(&chart, false, out);
  stg_strbuf_str(out, "</figure>\n");
}

static void print_times(const struct stg_page_groups *groups, struct stg_strbuf *out) {
  double largest = 0;
  for (size_t i = 0; i < groups->count; i++) {
    const double ms = groups->groups[i].max_ms;
    largest = ms > largest ? ms : largest;
  }
  struct chart chart = {.groups = groups, .unit = 1};
  const bool alone = groups->by == STG_PAGE_BY_ENTRY;
  chart.axis = axis_to(largest, "time to compile, ms");
  stg_strbuf_printf(out,
                    "<figure class=\"card\"><figcaption><h2>Time to compile <span "
                    "class=\"muted\">%s</span></h2><ul class=\"legend\"><li class=\"part1\">"
                    "%s</li>%s</ul></figcaption>\n",
                    subject(groups), alone ? "one compile" : "mean of a kernel",
                    alone ? "" : "<li class=\"range\">fastest to slowest</li>");
  print_chart(&chart, true, out);
  stg_strbuf_str(out, "</figure>\n");
}

stg_status stg_page_charts(const struct stg_cache_page *page, struct stg_strbuf *out,
                           stg_error *reterr) {
  struct stg_page_groups groups;
  stg_status status = stg_page_groups_make(page, false, &groups, reterr);
  if (status != STG_OK || groups.count == 0) {
    return status;
  }
  stg_strbuf_str(out, "<div class=\"charts\">\n");
  print_sizes(&groups, out);
  status = stg_page_groups_make(page, true, &groups, reterr);
  if (status == STG_OK) {
    print_times(&groups, out);
  }
  stg_strbuf_str(out, "</div>\n");
  return status;
}
