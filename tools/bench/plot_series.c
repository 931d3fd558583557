/*
 * bench/plot_series.c: see plot_series.h.
 */
#include "tools/bench/plot_series.h"

#include <string.h>

#include "tools/bench/report.h"
#include "tools/bench/svg.h"

#define COLUMNS 3
#define KEY_HEIGHT 19.0
#define BOX 12.0

enum kind { OURS, BASELINE, PEER };

#define MOST_SHADES 9
/* Told apart by people who do not see all colours: kinds by hue, and within a kind by lightness too
 * (after Okabe and Ito). When all are used up they begin again. */
static const struct {
  const char *shades[MOST_SHADES];
  size_t n;
} palettes[] = {
    [OURS] = {{"#0072b2", "#56b4e9", "#00324f"}, 3},
    [BASELINE] = {{"#7a2e00", "#d55e00", "#e69f00", "#f5d34f", "#a98467", "#4a3b2a"}, 6},
    [PEER] = {{"#004d38", "#009e73", "#8fd6bd", "#5b2a6e", "#cc79a7", "#f0c6dd", "#444444",
               "#888888", "#c4c4c4"},
              9},
};

static enum kind kind_of(const char *name) {
  if (strncmp(name, STG_BENCH_OURS, strlen(STG_BENCH_OURS)) == 0) {
    return OURS;
  }
  return strncmp(name, "torch", 5) == 0 ? PEER : BASELINE;
}

size_t stg_plot_series_find(const struct stg_plot_series *series, const char *name) {
  size_t i = 0;
  while (i < series->n && strcmp(series->names[i], name) != 0) {
    i++;
  }
  return i;
}

void stg_plot_series_add(struct stg_plot_series *series, const char *name) {
  if (series->n == STG_PLOT_MAX_SERIES || stg_plot_series_find(series, name) < series->n) {
    return;
  }
  size_t place = series->n++;
  for (; place > 0 && kind_of(series->names[place - 1]) > kind_of(name); place--) {
    series->names[place] = series->names[place - 1];
  }
  series->names[place] = name;
}

const char *stg_plot_series_colour(const struct stg_plot_series *series, size_t index) {
  const enum kind kind = kind_of(series->names[index]);
  size_t before = 0;
  for (size_t i = 0; i < index; i++) {
    before += kind_of(series->names[i]) == kind;
  }
  return palettes[kind].shades[before % palettes[kind].n];
}

static size_t lines_of(const struct stg_plot_series *series, bool floors) {
  return (series->n + floors + COLUMNS - 1) / COLUMNS;
}

double stg_plot_series_height(const struct stg_plot_series *series, bool floors) {
  return KEY_HEIGHT * (double)lines_of(series, floors);
}

void stg_plot_series_draw(const struct stg_plot_series *series, bool floors, double left,
                          double right, double top, struct stg_strbuf *out) {
  const size_t lines = lines_of(series, floors);
  const double width = (right - left) / COLUMNS;
  for (size_t i = 0; i < series->n + floors; i++) {
    const size_t column = i / lines;
    const double x = left + width * (double)column;
    const double y = top + KEY_HEIGHT * (double)(i % lines);
    const struct stg_svg_place place = {x + BOX + 7, y + BOX - 2, 0, "start", "key"};
    if (i == series->n) {
      stg_svg_line(out, x - 2, y + BOX / 2, x + BOX + 2, y + BOX / 2, "floor");
      stg_svg_text(out, &place, "floor: a copy of the same bytes");
      continue;
    }
    const struct stg_svg_bar box = {.x = x,
                                    .y = y,
                                    .width = BOX,
                                    .height = BOX,
                                    .fill = stg_plot_series_colour(series, i),
                                    .style = "key"};
    stg_svg_rect(out, &box);
    stg_svg_text(out, &place, series->names[i]);
  }
}
