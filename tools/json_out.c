/*
 * json_out.c: the JSON writer of all reports.
 *
 * Commas and indentation come from two facts alone: how deep, and whether the container has a
 * member. Must not know any report.
 */
#include "tools/json_out.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static void begin_value(struct stg_json_out *out, const char *key) {
  if (out->depth > 0) {
    stg_strbuf_str(&out->text, out->filled ? ",\n" : "\n");
    stg_strbuf_printf(&out->text, "%*s", (int)(2 * out->depth), "");
  }
  if (key != NULL) {
    stg_strbuf_json(&out->text, key);
    stg_strbuf_str(&out->text, ": ");
  }
  out->filled = true;
}

void stg_json_out_open(struct stg_json_out *out, const char *key, char bracket) {
  begin_value(out, key);
  stg_strbuf_char(&out->text, bracket);
  out->depth++;
  out->filled = false;
}

void stg_json_out_close(struct stg_json_out *out, char bracket) {
  assert(out->depth > 0);
  out->depth--;
  if (out->filled) {
    stg_strbuf_printf(&out->text, "\n%*s", (int)(2 * out->depth), "");
  }
  stg_strbuf_char(&out->text, bracket);
  out->filled = true;
  if (out->depth == 0) {
    stg_strbuf_char(&out->text, '\n');
  }
}

void stg_json_out_text(struct stg_json_out *out, const char *key, const char *value) {
  begin_value(out, key);
  if (value == NULL) {
    stg_strbuf_str(&out->text, "null");
  } else {
    stg_strbuf_json(&out->text, value);
  }
}

void stg_json_out_int(struct stg_json_out *out, const char *key, int64_t value) {
  begin_value(out, key);
  stg_strbuf_printf(&out->text, "%" PRId64, value);
}

void stg_json_out_count(struct stg_json_out *out, const char *key, uint64_t value) {
  begin_value(out, key);
  stg_strbuf_printf(&out->text, "%" PRIu64, value);
}

static const char *non_finite_name(double value) {
  return isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
}

void stg_json_out_number(struct stg_json_out *out, const char *key, double value) {
  begin_value(out, key);
  if (isfinite(value)) {
    stg_strbuf_double(&out->text, value);
  } else {
    stg_strbuf_str(&out->text, non_finite_name(value));
  }
}

void stg_json_out_float(struct stg_json_out *out, const char *key, float value) {
  begin_value(out, key);
  if (isfinite(value)) {
    stg_strbuf_float(&out->text, value);
  } else {
    stg_strbuf_str(&out->text, non_finite_name((double)value));
  }
}

void stg_json_out_bool(struct stg_json_out *out, const char *key, bool value) {
  begin_value(out, key);
  stg_strbuf_str(&out->text, value ? "true" : "false");
}

void stg_json_out_null(struct stg_json_out *out, const char *key) {
  stg_json_out_text(out, key, NULL);
}

void stg_json_out_count_if(struct stg_json_out *out, const char *key, uint64_t value,
                           bool is_known) {
  if (is_known) {
    stg_json_out_count(out, key, value);
  } else {
    stg_json_out_null(out, key);
  }
}
