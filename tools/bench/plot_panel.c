/*
 * bench/plot_panel.c: see plot_panel.h.
 */
#include "tools/bench/plot_panel.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/plot_scale.h"
#include "tools/bench/svg.h"

/* In pixels. */
#define LEFT 120.0
#define RIGHT 30.0
#define HEAD 50.0
#define PLOT_HEIGHT 300.0
#define NAMES_HEIGHT 130.0
#define KEY_HEIGHT 18.0
#define BAR 16.0
#define GAP 26.0
#define VALUE_ROOM 48.0 /* for the value that stands on the highest bar */
#define MIN_WIDTH 520.0

/* Drawn as a line across the group, not as a bar. */
#define FLOOR_SERIES "copy"

/* Told apart by people who do not see all colours (Okabe and Ito); darker ones when those are used
 * up. */
static const char *const colours[STG_PLOT_MAX_SERIES] = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999",
    "#00324f", "#7a5400", "#004d38", "#7a2f58", "#2b6a8c", "#6e3000", "#8a8200", "#444444"};

static size_t index_of(const char **names, size_t *count, size_t limit, const char *name) {
  for (size_t i = 0; i < *count; i++) {
    if (strcmp(names[i], name) == 0) {
      return i;
    }
  }
  if (*count < limit) {
    names[*count] = name;
    return (*count)++;
  }
  return limit;
}

static bool ends_with(const char *name, const char *suffix) {
  const size_t size = strlen(name);
  return suffix != NULL && size >= strlen(suffix) &&
         strcmp(name + size - strlen(suffix), suffix) == 0;
}

static bool is_chosen(const struct stg_bench_row *row, const struct stg_plot_choice *choice) {
  const char *const *suffixes = choice->suffixes;
  return strcmp(row->suite, choice->suite) == 0 && strcmp(row->series, FLOOR_SERIES) != 0 &&
         ((suffixes[0] == NULL && suffixes[1] == NULL) || ends_with(row->name, suffixes[0]) ||
          ends_with(row->name, suffixes[1]));
}

static double time_of(const struct stg_bench_row *row, const struct stg_plot_choice *choice) {
  if (!is_chosen(row, choice)) {
    return 0;
  }
  if (choice->wall) {
    return row->has_wall ? row->wall.median_us : 0;
  }
  return row->has_device ? row->device.median_us : 0;
}

void stg_plot_panel_init(const struct stg_bench_report *report,
                         const struct stg_plot_choice *choice, struct stg_plot_panel *ret_panel) {
  *ret_panel = (struct stg_plot_panel){.choice = choice};
  struct stg_plot_panel *panel = ret_panel;
  for (size_t i = 0; i < report->n_rows; i++) {
    const struct stg_bench_row *row = &report->rows[i];
    const double us = time_of(row, choice);
    if (!(us > 0)) {
      continue;
    }
    size_t group = index_of(panel->groups, &panel->n_groups, STG_PLOT_MAX_GROUPS, row->name);
    size_t series = index_of(panel->series, &panel->n_series, STG_PLOT_MAX_SERIES, row->series);
    if (group == STG_PLOT_MAX_GROUPS || series == STG_PLOT_MAX_SERIES) {
      continue;
    }
    panel->us[group][series] = us;
    if (!choice->wall && !(panel->floors_us[group] > 0)) {
      panel->floors_us[group] = row->floor_us;
    }
  }
}

static double group_width(const struct stg_plot_panel *panel) {
  return BAR * (double)panel->n_series + GAP;
}

double stg_plot_panel_width(const struct stg_plot_panel *panel) {
  const double width = LEFT + group_width(panel) * (double)panel->n_groups + RIGHT;
  return width > MIN_WIDTH ? width : MIN_WIDTH;
}

static bool has_floor(const struct stg_plot_panel *panel) {
  for (size_t g = 0; g < panel->n_groups; g++) {
    if (panel->floors_us[g] > 0) {
      return true;
    }
  }
  return false;
}

double stg_plot_panel_height(const struct stg_plot_panel *panel) {
  const size_t keys = panel->n_series + (has_floor(panel) ? 1 : 0);
  return HEAD + VALUE_ROOM + PLOT_HEIGHT + NAMES_HEIGHT + KEY_HEIGHT * (double)(keys + 1);
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
    for (size_t s = 0; s < panel->n_series; s++) {
      widen(panel->us[g][s], &least, &most);
    }
  }
  return stg_plot_scale_for(least, most);
}

static void draw_axes(const struct stg_plot_panel *panel, const struct stg_plot_scale *scale,
                      double bottom, struct stg_strbuf *out) {
  const double right = stg_plot_panel_width(panel) - RIGHT;
  char text[STG_PLOT_TIME_CHARS];
  for (size_t i = 0; i < scale->n_ticks; i++) {
    const double y =
        bottom - PLOT_HEIGHT *
                     (scale->ticks_us[i] > 0 ? stg_plot_scale_share(scale, scale->ticks_us[i]) : 0);
    const struct stg_svg_place place = {LEFT - 6, y + 4, 0, "end", 11};
    stg_svg_line(out, LEFT, y, right, y, "grid");
    stg_plot_time(scale->ticks_us[i], text);
    stg_svg_text(out, &place, text);
  }
  stg_svg_line(out, LEFT, bottom, right, bottom, "axis");
  stg_svg_line(out, LEFT, bottom - PLOT_HEIGHT, LEFT, bottom, "axis");
  char axis[128];
  snprintf(axis, sizeof axis, "%s, %s scale", panel->choice->axis,
           scale->logarithmic ? "logarithmic" : "linear");
  const struct stg_svg_place place = {20, bottom - PLOT_HEIGHT / 2, -90, "middle", 12};
  stg_svg_text(out, &place, axis);
}

static void draw_bar(const struct stg_plot_panel *panel, size_t group, size_t series,
                     const struct stg_svg_bar *bar, struct stg_strbuf *out) {
  char time[STG_PLOT_TIME_CHARS];
  struct stg_strbuf title = {0};
  stg_plot_time(panel->us[group][series], time);
  stg_strbuf_printf(&title, "%s, %s: %s", panel->groups[group], panel->series[series], time);
  struct stg_svg_bar titled = *bar;
  titled.title = stg_strbuf_text(&title);
  stg_svg_rect(out, &titled);
  out->failed = out->failed || title.failed;
  stg_strbuf_finish(&title);
  const struct stg_svg_place place = {bar->x + BAR / 2 + 3, bar->y - 4, -90, "start", 10};
  stg_svg_text(out, &place, time);
}

static void draw_group(const struct stg_plot_panel *panel, const struct stg_plot_scale *scale,
                       size_t group, double bottom, struct stg_strbuf *out) {
  const double left = LEFT + GAP / 2 + group_width(panel) * (double)group;
  for (size_t s = 0; s < panel->n_series; s++) {
    if (!(panel->us[group][s] > 0)) {
      continue;
    }
    const double height = PLOT_HEIGHT * stg_plot_scale_share(scale, panel->us[group][s]);
    const struct stg_svg_bar bar = {.x = left + BAR * (double)s,
                                    .y = bottom - height,
                                    .width = BAR - 2,
                                    .height = height,
                                    .fill = colours[s],
                                    .style = "bar"};
    draw_bar(panel, group, s, &bar, out);
  }
  const double right = left + BAR * (double)panel->n_series;
  if (panel->floors_us[group] > 0) {
    const double y = bottom - PLOT_HEIGHT * stg_plot_scale_share(scale, panel->floors_us[group]);
    stg_svg_line(out, left - 4, y, right + 2, y, "floor");
  }
  const struct stg_svg_place place = {(left + right) / 2, bottom + 16, -40, "end", 11};
  stg_svg_text(out, &place, panel->groups[group]);
}

static void draw_key(const struct stg_plot_panel *panel, double top, struct stg_strbuf *out) {
  for (size_t s = 0; s < panel->n_series; s++) {
    const double y = top + KEY_HEIGHT * (double)s;
    const struct stg_svg_bar box = {
        .x = LEFT, .y = y, .width = 12, .height = 12, .fill = colours[s], .style = "key"};
    const struct stg_svg_place place = {LEFT + 18, y + 10, 0, "start", 11};
    stg_svg_rect(out, &box);
    stg_svg_text(out, &place, panel->series[s]);
  }
  if (has_floor(panel)) {
    const double y = top + KEY_HEIGHT * (double)panel->n_series;
    const struct stg_svg_place place = {LEFT + 18, y + 10, 0, "start", 11};
    stg_svg_line(out, LEFT - 2, y + 6, LEFT + 14, y + 6, "floor");
    stg_svg_text(out, &place, "floor: moving the same bytes");
  }
}

void stg_plot_panel_draw(const struct stg_plot_panel *panel, double top, struct stg_strbuf *out) {
  if (panel->n_groups == 0) {
    return;
  }
  const struct stg_plot_scale scale = scale_of(panel);
  const double bottom = top + HEAD + VALUE_ROOM + PLOT_HEIGHT;
  const struct stg_svg_place place = {LEFT, top + 30, 0, "start", 16};
  stg_svg_text(out, &place, panel->choice->title);
  draw_axes(panel, &scale, bottom, out);
  for (size_t group = 0; group < panel->n_groups; group++) {
    draw_group(panel, &scale, group, bottom, out);
  }
  draw_key(panel, bottom + NAMES_HEIGHT, out);
}
