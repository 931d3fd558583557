/*
 * prove/progress.h: how far a search has come, and how long it will take.
 */
#ifndef STG_TOOLS_PROVE_PROGRESS_H
#define STG_TOOLS_PROVE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct stg_prove_progress {
  const char *what; /* borrowed: "prove" */
  struct timespec begun, said;
  size_t said_done;
  bool has_said;
};

void stg_prove_progress_begin(struct stg_prove_progress *progress, const char *what);
/**
 * Say "WHAT: 4096 of 20200 candidates, 3.1 us each, 0.1 s left": on a terminal ten times a second,
 * elsewhere in lines, of which there are twenty at most; short work says nothing. `progress` is a
 * struct stg_prove_progress.
 */
void stg_prove_progress_say(void *progress, size_t done, size_t n);

/** Seconds from one moment to another. */
double stg_prove_seconds(const struct timespec *from, const struct timespec *to);
/** Microseconds since then. */
double stg_prove_us_since(const struct timespec *begun);

#endif
