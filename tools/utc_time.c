/*
 * utc_time.c: see utc_time.h.
 */
#include "tools/utc_time.h"

#include <string.h>
#include <time.h>

void stg_utc_time(int64_t unix_seconds, char ret_text[STG_UTC_TIME_CHARS]) {
  time_t seconds = (time_t)unix_seconds;
  struct tm parts;
  if (gmtime_r(&seconds, &parts) == NULL ||
      strftime(ret_text, STG_UTC_TIME_CHARS, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
    memcpy(ret_text, "?", 2);
  }
}
