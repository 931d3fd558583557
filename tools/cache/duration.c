/*
 * cache/duration.c: see duration.h.
 */
#include "tools/cache/duration.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 12 /* so that no unit overflows */

bool stg_duration_parse(const char *text, int64_t *ret_seconds) {
  static const struct {
    char unit;
    int64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > MAX_DIGITS || strlen(text) != digits + 1) {
    return false;
  }
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (text[digits] == units[i].unit) {
      *ret_seconds = strtoll(text, NULL, 10) * units[i].seconds;
      return true;
    }
  }
  return false;
}
