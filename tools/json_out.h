/*
 * json_out.h: write JSON in the order of the calls, indented, with nothing to get wrong.
 *
 * Failure is sticky in `text`. Members take a key, array elements take NULL.
 */
#ifndef STG_TOOLS_JSON_OUT_H
#define STG_TOOLS_JSON_OUT_H

#include "runtime/base/strbuf.h"

/* {0} is a valid empty document. */
struct stg_json_out {
  struct stg_strbuf text;
  uint32_t depth;
  bool filled; /* the innermost container has a member already */
};

void stg_json_out_open(struct stg_json_out *out, const char *key, char bracket);
/** Close with '}' or ']'; the outermost one ends the document with a newline. */
void stg_json_out_close(struct stg_json_out *out, char bracket);

/** NULL is written as null. */
void stg_json_out_text(struct stg_json_out *out, const char *key, const char *value);
void stg_json_out_int(struct stg_json_out *out, const char *key, int64_t value);
void stg_json_out_count(struct stg_json_out *out, const char *key, uint64_t value);
/** null where it is not known, or where there is no such number. */
void stg_json_out_count_if(struct stg_json_out *out, const char *key, uint64_t value,
                           bool is_known);
/** JSON has no infinity and no NaN: they become the strings "inf", "-inf" and "nan". */
void stg_json_out_number(struct stg_json_out *out, const char *key, double value);
/** The same with the digits of a float. */
void stg_json_out_float(struct stg_json_out *out, const char *key, float value);
void stg_json_out_bool(struct stg_json_out *out, const char *key, bool value);
void stg_json_out_null(struct stg_json_out *out, const char *key);

#endif
