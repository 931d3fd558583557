/*
 * bench/plot_scale.c: see plot_scale.h.
 */
#include "tools/bench/plot_scale.h"

#include <math.h>
#include <stdio.h>

#define WANTED_TICKS 5
/* A tick that is the largest time within rounding is on the axis. */
#define NEARLY 1e-9

/* 1, 2 or 5 times a power of ten: the distance of ticks. */
static double round_step(double rough) {
  const double power = pow(10, floor(log10(rough)));
  const double lead = rough / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

struct stg_plot_scale stg_plot_scale_for(double least_us, double most_us) {
  struct stg_plot_scale scale = {.logarithmic = most_us > STG_PLOT_LINEAR_SPAN * least_us};
  if (scale.logarithmic) {
    /* the least bar is to be seen, so that the axis begins below it */
    const int first = (int)floor(log10(least_us * 0.8));
    const int last = (int)ceil(log10(most_us) - NEARLY);
    scale.low_us = pow(10, first);
    scale.high_us = pow(10, last);
    for (int power = first; power <= last && scale.n_ticks < STG_PLOT_MAX_TICKS; power++) {
      scale.ticks_us[scale.n_ticks++] = pow(10, power);
    }
    return scale;
  }
  const double step = round_step(most_us / WANTED_TICKS);
  const double steps = ceil(most_us / step - NEARLY);
  scale.high_us = steps * step;
  for (int i = 0; i <= (int)steps && scale.n_ticks < STG_PLOT_MAX_TICKS; i++) {
    scale.ticks_us[scale.n_ticks++] = i * step;
  }
  return scale;
}

double stg_plot_scale_share(const struct stg_plot_scale *scale, double us) {
  if (!scale->logarithmic) {
    return us / scale->high_us;
  }
  const double share = log(us / scale->low_us) / log(scale->high_us / scale->low_us);
  return share > 0 ? share : 0;
}

void stg_plot_time(double us, char ret_text[STG_PLOT_TIME_CHARS]) {
  static const struct {
    double us;
    const char *unit;
  } units[] = {{1e6, "s"}, {1e3, "ms"}, {1, "µs"}, {1e-3, "ns"}};
  size_t i = 0;
  while (i < 3 && us < units[i].us * 0.9995) {
    i++;
  }
  const double value = us / units[i].us;
  if (us <= 0) {
    snprintf(ret_text, STG_PLOT_TIME_CHARS, "0");
    return;
  }
  snprintf(ret_text, STG_PLOT_TIME_CHARS, "%.3g %s", value < 999.5 ? value : round(value),
           units[i].unit);
}
