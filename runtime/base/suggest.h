/*
 * suggest.h: "did you mean": the nearest of some words to a mistyped one.
 */
#ifndef STG_RUNTIME_BASE_SUGGEST_H
#define STG_RUNTIME_BASE_SUGGEST_H

#include <stddef.h>

#define STG_SUGGEST_DISTANCE_BYTES 96

/** Edits between the first STG_SUGGEST_DISTANCE_BYTES bytes of two names; a swap of neighbours
 * counts once. */
size_t stg_suggest_distance(const char *a, const char *b);
/**
 * Find the word nearest to `text` by edit distance (a swap of neighbours counts once). NULL when
 * none is near enough to be meant. `get(user, i)` gives word i.
 */
const char *stg_suggest_find(const char *text, const char *(*get)(const void *user, size_t index),
                             const void *user, size_t count);

#endif
