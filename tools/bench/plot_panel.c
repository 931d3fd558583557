/*
 * bench/plot_panel.c: see plot_panel.h.
 *
 * A group is as wide as the bars that it has, and the room that is left lies between groups.
 */
#include "tools/bench/plot_panel.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/plot_scale.h"
#include "tools/bench/plot_text.h"
#include "tools/bench/svg.h"

/* In pixels. */
#define LEFT 62.0
#define RIGHT 16.0
#define TITLE 22.0
#define SUBTITLE 40.0
#define HEAD 48.0
#define VALUE_ROOM 48.0 /* for the value that stands on the highest bar */
#define PLOT_HEIGHT 210.0
#define LINE_HEIGHT 14.0
#define FOOT 26.0
#define MOST_BAR 18.0
#define LEAST_BAR 11.0 /* a value is written along it */
#define BAR_STEP 0.5
#define LEAST_GAP 14.0
#define LEAST_GROUP 52.0 /* for its name */
#define NAME_SIZE 12.0

/* Drawn as lines across the groups, not as bars. */
static const char *const floor_series[] = {"copy", "read"};
#define WARM_SUFFIX ", warm"

static bool ends_with(const char *name, const char *suffix) {
  const size_t size = strlen(name);
  return suffix != NULL && size >= strlen(suffix) &&
         strcmp(name + size - strlen(suffix), suffix) == 0;
}

static bool begins_with(const char *name, const char *prefix) {
  return prefix != NULL && strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_floor(const struct stg_bench_row *row) {
  bool found = false;
  for (size_t i = 0; i < sizeof floor_series / sizeof floor_series[0]; i++) {
    found = found || strcmp(row->series, floor_series[i]) == 0;
  }
  return found;
}

static bool is_named(const char *name, const struct stg_plot_choice *choice) {
  bool found = choice->suffixes[0] == NULL;
  for (size_t i = 0; i < STG_PLOT_MAX_SUFFIXES; i++) {
    found = found || ends_with(name, choice->suffixes[i]);
  }
  return found && (choice->prefix == NULL || begins_with(name, choice->prefix));
}

static bool is_chosen(const struct stg_bench_row *row, const struct stg_plot_choice *choice) {
  return strcmp(row->suite, choice->suite) == 0 && !is_floor(row) &&
         !ends_with(row->name, WARM_SUFFIX) && !begins_with(row->series, choice->without) &&
         is_named(row->name, choice);
}

/* 0: it is not drawn. */
static double time_of(const struct stg_bench_row *row, const struct stg_plot_choice *choice) {
  if (!is_chosen(row, choice)) {
    return 0;
  }
  if (choice->wall) {
    return row->has_wall ? row->wall.median_us : 0;
  }
  return row->has_device ? row->device.median_us : 0;
}

void stg_plot_panel_series(const struct stg_bench_report *report,
                           const struct stg_plot_choice *choice, struct stg_plot_series *series) {
  for (size_t i = 0; i < report->n_rows; i++) {
    if (time_of(&report->rows[i], choice) > 0) {
      stg_plot_series_add(series, report->rows[i].series);
    }
  }
}

static size_t group_of(struct stg_plot_panel *panel, const char *name) {
  size_t i = 0;
  while (i < panel->n_groups && strcmp(panel->groups[i], name) != 0) {
    i++;
  }
  if (i == panel->n_groups && i < STG_PLOT_MAX_GROUPS) {
    panel->groups[panel->n_groups++] = name;
  }
  return i;
}

void stg_plot_panel_init(const struct stg_bench_report *report,
                         const struct stg_plot_choice *choice, const struct stg_plot_series *series,
                         struct stg_plot_panel *ret_panel) {
  *ret_panel = (struct stg_plot_panel){.choice = choice, .series = series};
  struct stg_plot_panel *panel = ret_panel;
  for (size_t i = 0; i < report->n_rows; i++) {
    const struct stg_bench_row *row = &report->rows[i];
    const double us = time_of(row, choice);
    const size_t s = stg_plot_series_find(series, row->series);
    if (!(us > 0) || s == series->n) {
      continue;
    }
    const size_t group = group_of(panel, row->name);
    if (group == STG_PLOT_MAX_GROUPS) {
      continue;
    }
    panel->us[group][s] = us;
    if (!choice->wall && !(panel->floors_us[group] > 0)) {
      panel->floors_us[group] = row->floor_us;
    }
  }
}

bool stg_plot_panel_has_floor(const struct stg_plot_panel *panel) {
  for (size_t g = 0; g < panel->n_groups; g++) {
    if (panel->floors_us[g] > 0) {
      return true;
    }
  }
  return false;
}

static double bars_width(const struct stg_plot_panel *panel, size_t group, double bar) {
  size_t bars = 0;
  for (size_t s = 0; s < panel->series->n; s++) {
    bars += panel->us[group][s] > 0;
  }
  return bar * (double)bars;
}

/* Without gaps. */
static double group_width(const struct stg_plot_panel *panel, size_t group, double bar) {
  const double bars = bars_width(panel, group, bar);
  return bars > LEAST_GROUP ? bars : LEAST_GROUP;
}

static double groups_width(const struct stg_plot_panel *panel, double bar) {
  double width = 0;
  for (size_t g = 0; g < panel->n_groups; g++) {
    width += group_width(panel, g, bar);
  }
  return width;
}

double stg_plot_panel_width(const struct stg_plot_panel *panel) {
  return LEFT + groups_width(panel, LEAST_BAR) + LEAST_GAP * (double)panel->n_groups + RIGHT;
}

/* How the width is shared out. */
struct layout {
  double right; /* of the axis */
  double bar, gap;
};

static struct layout layout_for(const struct stg_plot_panel *panel, double width) {
  struct layout layout = {.right = width - RIGHT, .bar = MOST_BAR};
  const double room = layout.right - LEFT;
  const double gaps = LEAST_GAP * (double)panel->n_groups;
  while (layout.bar > LEAST_BAR && groups_width(panel, layout.bar) + gaps > room) {
    layout.bar -= BAR_STEP;
  }
  layout.gap = (room - groups_width(panel, layout.bar)) / (double)panel->n_groups;
  return layout;
}

static double slot_width(const struct stg_plot_panel *panel, const struct layout *layout,
                         size_t group) {
  return group_width(panel, group, layout->bar) + layout->gap;
}

static size_t name_lines(const struct stg_plot_panel *panel, const struct layout *layout,
                         size_t group, struct stg_plot_line lines[STG_PLOT_MAX_LINES]) {
  const double room = slot_width(panel, layout, group) - LEAST_GAP / 2;
  return stg_plot_wrap(panel->groups[group], (size_t)(room / (NAME_SIZE * STG_PLOT_CHAR)), lines);
}

double stg_plot_panel_height(const struct stg_plot_panel *panel, double width) {
  const struct layout layout = layout_for(panel, width);
  struct stg_plot_line lines[STG_PLOT_MAX_LINES];
  size_t most = 0;
  for (size_t g = 0; g < panel->n_groups; g++) {
    const size_t n = name_lines(panel, &layout, g, lines);
    most = n > most ? n : most;
  }
  return HEAD + VALUE_ROOM + PLOT_HEIGHT + LINE_HEIGHT * (double)most + FOOT;
}

static void widen(double us, double *least, double *most) {
  if (us > 0) {
    *least = us < *least || !(*least > 0) ? us : *least;
    *most = us > *most ? us : *most;
  }
}

static struct stg_plot_scale scale_of(const struct stg_plot_panel *panel) {
  double least = 0;
  double most = 0;
  for (size_t g = 0; g < panel->n_groups; g++) {
    widen(panel->floors_us[g], &least, &most);
    for (size_t s = 0; s < panel->series->n; s++) {
      widen(panel->us[g][s], &least, &most);
    }
  }
  return stg_plot_scale_for(least, most);
}

static void draw_head(const struct stg_plot_panel *panel, const struct stg_plot_scale *scale,
                      double top, struct stg_strbuf *out) {
  char axis[128];
  snprintf(axis, sizeof axis, "%s, %s scale", panel->choice->axis,
           scale->logarithmic ? "logarithmic" : "linear");
  const struct stg_svg_place title = {RIGHT, top + TITLE, 0, "start", "title"};
  const struct stg_svg_place subtitle = {RIGHT, top + SUBTITLE, 0, "start", "note"};
  stg_svg_text(out, &title, panel->choice->title);
  stg_svg_text(out, &subtitle, axis);
}

static void draw_axes(const struct stg_plot_scale *scale, double right, double bottom,
                      struct stg_strbuf *out) {
  char text[STG_PLOT_TIME_CHARS];
  for (size_t i = 0; i < scale->n_ticks; i++) {
    const double share =
        scale->ticks_us[i] > 0 ? stg_plot_scale_share(scale, scale->ticks_us[i]) : 0;
    const double y = bottom - PLOT_HEIGHT * share;
    const struct stg_svg_place place = {LEFT - 6, y + 4, 0, "end", "name"};
    stg_svg_line(out, LEFT, y, right, y, "grid");
    stg_plot_time(scale->ticks_us[i], text);
    stg_svg_text(out, &place, text);
  }
  stg_svg_line(out, LEFT, bottom, right, bottom, "axis");
}

static void draw_bar(const struct stg_plot_panel *panel, size_t group, size_t series,
                     const struct stg_svg_bar *bar, struct stg_strbuf *out) {
  char time[STG_PLOT_TIME_CHARS];
  struct stg_strbuf title = {0};
  stg_plot_time(panel->us[group][series], time);
  stg_strbuf_printf(&title, "%s, %s: %s", panel->groups[group], panel->series->names[series], time);
  struct stg_svg_bar titled = *bar;
  titled.title = stg_strbuf_text(&title);
  stg_svg_rect(out, &titled);
  out->failed = out->failed || title.failed;
  stg_strbuf_finish(&title);
  const struct stg_svg_place place = {bar->x + bar->width / 2 + 3.5, bar->y - 4, -90, "start",
                                      "value"};
  stg_svg_text(out, &place, time);
}

static void draw_name(const struct stg_plot_panel *panel, const struct layout *layout, size_t group,
                      const struct stg_svg_place *first, struct stg_strbuf *out) {
  struct stg_plot_line lines[STG_PLOT_MAX_LINES];
  const size_t n = name_lines(panel, layout, group, lines);
  struct stg_svg_place place = *first;
  for (size_t i = 0; i < n; i++) {
    struct stg_strbuf text = {0};
    stg_strbuf_mem(&text, lines[i].start, lines[i].bytes);
    stg_svg_text(out, &place, stg_strbuf_text(&text));
    out->failed = out->failed || text.failed;
    stg_strbuf_finish(&text);
    place.y += LINE_HEIGHT;
  }
}

/* `middle` is the group's, on the x axis. */
static void draw_group(const struct stg_plot_panel *panel, const struct layout *layout,
                       const struct stg_plot_scale *scale, size_t group,
                       const struct stg_svg_place *middle, struct stg_strbuf *out) {
  const double width = bars_width(panel, group, layout->bar);
  const double left = middle->x - width / 2;
  double x = left;
  for (size_t s = 0; s < panel->series->n; s++) {
    if (!(panel->us[group][s] > 0)) {
      continue;
    }
    const double height = PLOT_HEIGHT * stg_plot_scale_share(scale, panel->us[group][s]);
    const struct stg_svg_bar bar = {.x = x + 0.5,
                                    .y = middle->y - height,
                                    .width = layout->bar - 1,
                                    .height = height,
                                    .fill = stg_plot_series_colour(panel->series, s),
                                    .style = "bar"};
    draw_bar(panel, group, s, &bar, out);
    x += layout->bar;
  }
  if (panel->floors_us[group] > 0) {
    const double y = middle->y - PLOT_HEIGHT * stg_plot_scale_share(scale, panel->floors_us[group]);
    stg_svg_line(out, left - 4, y, left + width + 4, y, "floor");
  }
  const struct stg_svg_place name = {middle->x, middle->y + LINE_HEIGHT + 3, 0, "middle", "name"};
  draw_name(panel, layout, group, &name, out);
}

void stg_plot_panel_draw(const struct stg_plot_panel *panel, double width, double top,
                         struct stg_strbuf *out) {
  const struct stg_plot_scale scale = scale_of(panel);
  const struct layout layout = layout_for(panel, width);
  const double bottom = top + HEAD + VALUE_ROOM + PLOT_HEIGHT;
  draw_head(panel, &scale, top, out);
  draw_axes(&scale, layout.right, bottom, out);
  double left = LEFT;
  for (size_t group = 0; group < panel->n_groups; group++) {
    const double slot = slot_width(panel, &layout, group);
    const struct stg_svg_place middle = {.x = left + slot / 2, .y = bottom};
    draw_group(panel, &layout, &scale, group, &middle, out);
    left += slot;
  }
}
