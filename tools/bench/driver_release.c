/*
 * bench/driver_release.c: see driver_release.h.
 */
#include "tools/bench/driver_release.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789"

/* As "580.159.04"; the architecture and a year have no dot. */
static bool is_release(const char *word, size_t length) {
  return strspn(word, DIGITS ".") == length && memchr(word, '.', length) != NULL &&
         strchr(DIGITS, word[0]) != NULL && word[length - 1] != '.';
}

bool stg_bench_driver_release(const char *path, char *ret_release, size_t size) {
  char text[512] = "";
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return false;
  }
  const size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  for (const char *word = text; *word != '\0';) {
    word += strspn(word, " \t\n");
    const size_t end = strcspn(word, " \t\n");
    if (end > 0 && is_release(word, end)) {
      if (end >= size) {
        return false;
      }
      memcpy(ret_release, word, end);
      ret_release[end] = '\0';
      return true;
    }
    word += end;
  }
  return false;
}
