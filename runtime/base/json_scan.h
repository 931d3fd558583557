/*
 * json_scan.h: the grammar of JSON (RFC 8259), checked before cJSON sees the text.
 *
 * cJSON says no more than that it failed; of text that passes here, only memory can be missing.
 * Knows characters, not meaning: no tree, no paths, no duplicate keys (specs/json.c has those).
 */
#ifndef STG_RUNTIME_BASE_JSON_SCAN_H
#define STG_RUNTIME_BASE_JSON_SCAN_H

#include <stddef.h>

#include "runtime/base/error.h"

#define STG_JSON_MAX_DEPTH 64
/* A value of two bytes ("1,") becomes a node of some 80: this bounds the tree at about 350 MB. A
 * reader whose values are longer allows fewer of them (stg_json_scan_within). */
#define STG_JSON_MAX_VALUES (4 << 20)

/* How many values a text may hold, and what is to be done about one with more. */
struct stg_json_limit {
  size_t max_values;
  const char *remedy; /* "more than 64 values; <remedy>" */
};
#define STG_JSON_LIMIT                                                                             \
  ((struct stg_json_limit){STG_JSON_MAX_VALUES, "put large vectors into a safetensors file"})

/**
 * Check that `text` is exactly one JSON value: grammar, UTF-8, nesting, the length of numbers, the
 * number of values, at most STG_JSON_MAX_VALUES. What passes, cJSON can parse and a C string can
 * hold (no NUL, no lone surrogate).
 * @return STG_E_FORMAT with "file:line:column: " before the message; columns count characters.
 */
STG_NODISCARD stg_status stg_json_scan(const char *file, const char *text, size_t len,
                                       stg_error *reterr);
/** The same with a limit of the caller's, for a text whose values cannot be that short. */
STG_NODISCARD stg_status stg_json_scan_within(const char *file, const char *text, size_t len,
                                              struct stg_json_limit limit, stg_error *reterr);

#endif
