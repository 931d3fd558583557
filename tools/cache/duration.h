/*
 * cache/duration.h: a span of time as a word of the command line: "30d", "12h", "60m", "0s".
 */
#ifndef STG_TOOLS_CACHE_DURATION_H
#define STG_TOOLS_CACHE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/** Whole seconds; false for text that is no number with s, m, h or d. */
bool stg_duration_parse(const char *text, int64_t *ret_seconds);

#endif
