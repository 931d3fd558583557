/*
 * prove/progress.c: see progress.h.
 */
#include "tools/prove/progress.h"

#include "tools/report.h"
#include "tools/times.h"

#define LIVE_S 0.1   /* between two states of a line on a terminal */
#define LINES_S 1.0  /* between two lines elsewhere */
#define MAX_LINES 19 /* of these, behind the first */

double stg_prove_seconds(const struct timespec *from, const struct timespec *to) {
  return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

double stg_prove_us_since(const struct timespec *begun) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return stg_prove_seconds(begun, &now) * 1e6;
}

void stg_prove_progress_begin(struct stg_prove_progress *progress, const char *what) {
  *progress = (struct stg_prove_progress){.what = what};
  clock_gettime(CLOCK_MONOTONIC, &progress->begun);
  progress->said = progress->begun;
}

void stg_prove_progress_say(void *user, size_t done, size_t n) {
  struct stg_prove_progress *progress = user;
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const bool is_live = stg_report_is_live();
  const bool is_last = done == n;
  const bool is_due =
      stg_prove_seconds(&progress->said, &now) >= (is_live ? LIVE_S : LINES_S) &&
      (is_live || !progress->has_said || (done - progress->said_done) * MAX_LINES >= n);
  if (!is_due && !(is_last && is_live && progress->has_said)) {
    return;
  }
  const double seconds = stg_prove_seconds(&progress->begun, &now);
  const double each = seconds / (double)done;
  struct stg_strbuf text = {0};
  stg_times_print_one(each * 1e6, &text);
  stg_report_live("%s: %zu of %zu candidates, %s each, %.1f s left", progress->what, done, n,
                  stg_strbuf_text(&text), each * (double)(n - done));
  stg_strbuf_finish(&text);
  progress->said = now;
  progress->said_done = done;
  progress->has_said = true;
}
