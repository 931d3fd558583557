/*
 * nvrtc_line.h: a line of the log about a call into NVRTC, taken apart; runtime/compile.h has its
 * form.
 */
#ifndef STG_TESTS_SUPPORT_NVRTC_LINE_H
#define STG_TESTS_SUPPORT_NVRTC_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct nvrtc_line {
  char what[64]; /* "load" or "compile KEY" */
  long thread;
  uint64_t from_ns, to_ns;
};

/* Past `words` and the number behind them; NULL where they are not. */
static inline const char *nvrtc_line_number(const char *at, const char *words, uint64_t *ret) {
  const size_t len = strlen(words);
  char *end = NULL;
  if (at == NULL || strncmp(at, words, len) != 0) {
    return NULL;
  }
  *ret = strtoull(at + len, &end, 10);
  return end != at + len ? end : NULL;
}

/** False for a line about anything else. */
static inline bool nvrtc_line_parse(const char *line, struct nvrtc_line *ret) {
  struct nvrtc_line parsed = {.thread = 0};
  uint64_t thread = 0, from_s = 0, from_ns = 0, to_s = 0, to_ns = 0;
  const char *at = strstr(line, " on thread ");
  if (strncmp(line, "nvrtc: ", 7) != 0 || at == NULL || at - line - 7 >= 64) {
    return false;
  }
  memcpy(parsed.what, line + 7, (size_t)(at - line - 7));
  at = nvrtc_line_number(at, " on thread ", &thread);
  at = nvrtc_line_number(at, " from ", &from_s);
  at = nvrtc_line_number(at, ".", &from_ns);
  at = nvrtc_line_number(at, " to ", &to_s);
  at = nvrtc_line_number(at, ".", &to_ns);
  parsed.thread = (long)thread;
  parsed.from_ns = from_s * 1000000000 + from_ns;
  parsed.to_ns = to_s * 1000000000 + to_ns;
  *ret = parsed;
  return at != NULL && strncmp(at, " (", 2) == 0;
}

#endif
