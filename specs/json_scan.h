/*
 * json_scan.h: the grammar of JSON (RFC 8259), checked before cJSON sees the text.
 *
 * Knows characters, not meaning: no tree, no paths, no duplicate keys (json.c has those).
 */
#ifndef STG_SPECS_JSON_SCAN_H
#define STG_SPECS_JSON_SCAN_H

#include <stddef.h>

#include "runtime/base/error.h"

/**
 * Check that `text` is exactly one JSON value: grammar, UTF-8, nesting, the length of numbers, the
 * number of values. What passes, cJSON can parse and a C string can hold (no NUL, no lone
 * surrogate).
 * @return STG_E_FORMAT with "file:line:column: " before the message; columns count characters.
 */
STG_NODISCARD stg_status stg_json_scan(const char *file, const char *text, size_t len,
                                       stg_error *reterr);

#endif
