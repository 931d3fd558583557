/*
 * json.h: strict JSON with the place of every value, on top of cJSON.
 *
 * The grammar is checked first (json_scan.h), so cJSON only builds the tree; duplicate keys are
 * refused next. Every value carries its JSON path for messages:
 * "specs/x.json: slots.calm.layers.0[1].scale: expected a number, found \"two\"".
 * Knows nothing of what a document means.
 */
#ifndef STG_SPECS_JSON_H
#define STG_SPECS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/json_scan.h"
#include "runtime/base/strbuf.h"

struct cJSON;

#define STG_JSON_MAX_BYTES ((uint64_t)64 << 20)
#define STG_JSON_PATH_BYTES 256

/* A parsed document; finish frees it. */
struct stg_json_doc {
  struct cJSON *root;
  char *file; /* as given, for messages */
};

/* A value and where it stands. Borrowed from the document; copies are cheap; `parent` must outlive
 * it. */
struct stg_json {
  const struct stg_json_doc *doc;
  const struct cJSON *value;
  const struct stg_json *parent; /* NULL at the root */
  const char *key;               /* member name, or NULL for an array element */
  size_t index;                  /* array element */
};

/**
 * Parse `text` (need not end in a NUL; not kept). `file` names it in messages.
 * @return STG_E_FORMAT with "file:line:column: " for grammar, "file: path: " for duplicate members;
 *         STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_json_parse(const char *file, const char *text, size_t len,
                                        struct stg_json_doc *ret_doc, stg_error *reterr);
/** The same with fewer values than any JSON file may have. */
STG_NODISCARD stg_status stg_json_parse_within(const char *file, const char *text, size_t len,
                                               struct stg_json_limit limit,
                                               struct stg_json_doc *ret_doc, stg_error *reterr);
/** As stg_json_parse, from a file; STG_E_IO when it cannot be read. */
STG_NODISCARD stg_status stg_json_load(const char *file, struct stg_json_doc *ret_doc,
                                       stg_error *reterr);
void stg_json_finish(struct stg_json_doc *doc);

struct stg_json stg_json_root(const struct stg_json_doc *doc);
/** The JSON path of a value ("" at the root), cut with "..." when it does not fit. */
void stg_json_path(const struct stg_json *at, char ret_path[STG_JSON_PATH_BYTES]);
/** Fill `err` with "file: path: " and a formatted message; returns `code`. */
stg_status stg_json_error(stg_error *err, stg_status code, const struct stg_json *at,
                          const char *fmt, ...) STG_PRINTF(4, 5);
/** STG_E_FORMAT with "expected <expected>, found <the value, cut>". */
stg_status stg_json_unexpected(const struct stg_json *at, const char *expected, stg_error *reterr);

/** Refuse members that are not in the NULL-terminated list; the message lists what is allowed. */
STG_NODISCARD stg_status stg_json_check_keys(const struct stg_json *object,
                                             const char *const *allowed, stg_error *reterr);
bool stg_json_is_object(const struct stg_json *at);
bool stg_json_is_array(const struct stg_json *at);
bool stg_json_is_string(const struct stg_json *at);
bool stg_json_is_number(const struct stg_json *at);
/** The string "inf" or "-inf". */
bool stg_json_is_bound(const struct stg_json *at);
bool stg_json_is_null(const struct stg_json *at);
/** Number of elements or members; takes one walk over them. */
size_t stg_json_count(const struct stg_json *at);
/** A member by name; false when absent. `*ret` points at `object` as its parent. */
bool stg_json_find(const struct stg_json *object, const char *key, struct stg_json *ret);
/** Like find, but absence is an error. */
STG_NODISCARD stg_status stg_json_get(const struct stg_json *object, const char *key,
                                      struct stg_json *ret, stg_error *reterr);
/** Walk: the first child (false when none), and the next sibling. */
bool stg_json_first(const struct stg_json *container, struct stg_json *ret);
bool stg_json_next(struct stg_json *child);

STG_NODISCARD stg_status stg_json_expect_object(const struct stg_json *at, stg_error *reterr);
STG_NODISCARD stg_status stg_json_expect_array(const struct stg_json *at, stg_error *reterr);
STG_NODISCARD stg_status stg_json_string(const struct stg_json *at, const char **ret,
                                         stg_error *reterr);
STG_NODISCARD stg_status stg_json_bool(const struct stg_json *at, bool *ret, stg_error *reterr);
/** An integer in [min, max]; 1.5 and 1e300 are errors that give the range. */
STG_NODISCARD stg_status stg_json_int(const struct stg_json *at, int64_t min, int64_t max,
                                      int64_t *ret, stg_error *reterr);
/** A finite number that fits a float. */
STG_NODISCARD stg_status stg_json_float(const struct stg_json *at, float *ret, stg_error *reterr);
/** A finite number, with all its digits. */
STG_NODISCARD stg_status stg_json_double(const struct stg_json *at, double *ret, stg_error *reterr);
/** Like stg_json_float, and the strings "inf" and "-inf". */
STG_NODISCARD stg_status stg_json_bound(const struct stg_json *at, float *ret, stg_error *reterr);

#endif
