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
/* A value of two bytes ("1,") becomes a node of some 80: this bounds the tree at about 350 MB. */
#define STG_JSON_MAX_VALUES (4 << 20)

/**
 * Check that `text` is exactly one JSON value: grammar, UTF-8, nesting, the length of numbers, the
 * number of values. What passes, cJSON can parse and a C string can hold (no NUL, no lone
 * surrogate).
 * @return STG_E_FORMAT with "file:line:column: " before the message; columns count characters.
 */
STG_NODISCARD stg_status stg_json_scan(const char *file, const char *text, size_t len,
                                       stg_error *reterr);

#endif
