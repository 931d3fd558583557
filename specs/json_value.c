/*
 * json_value.c: typed reads of JSON values, and messages that say where a value stands.
 *
 * Every message is "file: path: what is wrong, with the value". No heap: a message must not fail
 * for want of memory.
 */
#include <assert.h>
#include <cjson/cJSON.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "specs/json.h"

/* Integers up to here are exact in a double. */
#define MAX_EXACT_INT (((int64_t)1 << 53) - 1)
/* Longer file names are cut from the left, so that they leave room for the message. */
#define MAX_FILE_CHARS 200
#define MAX_SHOWN_CHARS 40

/* A bounded text that ends in "..." when something did not fit. */
struct text {
  char *data;
  size_t size;
  size_t len;
};

static STG_PRINTF(2, 3) void put(struct text *text, const char *fmt, ...) {
  size_t room = text->size - text->len;
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text->data + text->len, room, fmt, args);
  va_end(args);
  if (n >= 0 && (size_t)n < room) {
    text->len += (size_t)n;
    return;
  }
  memcpy(text->data + text->size - 4, "...", 4);
  text->len = text->size - 1;
}

/* At most MAX_SHOWN_CHARS bytes of `value`, whole characters, control bytes as '?'. */
static void put_quoted(struct text *text, const char *value) {
  size_t len = strlen(value);
  size_t shown = len;
  if (len > MAX_SHOWN_CHARS) {
    shown = MAX_SHOWN_CHARS;
    while (((unsigned char)value[shown] & 0xc0u) == 0x80u) {
      shown--;
    }
  }
  char copy[MAX_SHOWN_CHARS + 1];
  for (size_t i = 0; i < shown; i++) {
    unsigned char c = (unsigned char)value[i];
    copy[i] = value[i];
    if (c < 0x20 || c == 0x7f) {
      copy[i] = '?';
    }
  }
  put(text, "\"%.*s%s\"", (int)shown, copy, shown < len ? "..." : "");
}

static bool is_plain_name(const char *name) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+");
  return n > 0 && name[n] == '\0' && n <= MAX_SHOWN_CHARS;
}

void stg_json_path(const struct stg_json *at, char ret_path[STG_JSON_PATH_BYTES]) {
  const struct stg_json *steps[STG_JSON_MAX_DEPTH + 1];
  size_t n = 0;
  for (; at->parent != NULL; at = at->parent) {
    assert(n < STG_JSON_MAX_DEPTH + 1);
    steps[n++] = at;
  }
  struct text path = {ret_path, STG_JSON_PATH_BYTES, 0};
  ret_path[0] = '\0';
  while (n-- > 0) {
    const struct stg_json *step = steps[n];
    if (step->key == NULL) {
      put(&path, "[%zu]", step->index);
    } else if (is_plain_name(step->key)) {
      put(&path, "%s%s", path.len > 0 ? "." : "", step->key);
    } else {
      put(&path, "[");
      put_quoted(&path, step->key);
      put(&path, "]");
    }
  }
}

stg_status stg_json_error(stg_error *err, stg_status code, const struct stg_json *at,
                          const char *fmt, ...) {
  char path[STG_JSON_PATH_BYTES];
  char message[STG_ERROR_MESSAGE_BYTES];
  stg_json_path(at, path);
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  const char *file = at->doc->file;
  size_t len = strlen(file);
  bool cut = len > MAX_FILE_CHARS;
  return stg_error_set(err, code, "%s%s: %s%s%s", cut ? "..." : "",
                       cut ? file + len - MAX_FILE_CHARS : file, path, path[0] != '\0' ? ": " : "",
                       message);
}

/* A value as it appears in "expected ..., found <this>". */
static void describe(const struct stg_json *at, char *ret, size_t size) {
  struct text text = {ret, size, 0};
  const struct cJSON *value = at->value;
  if (cJSON_IsString(value)) {
    put_quoted(&text, value->valuestring);
  } else if (cJSON_IsNumber(value)) {
    put(&text, "%.9g", value->valuedouble);
  } else if (cJSON_IsObject(value)) {
    put(&text, "an object");
  } else if (cJSON_IsArray(value)) {
    put(&text, "an array");
  } else if (cJSON_IsBool(value)) {
    put(&text, "%s", cJSON_IsTrue(value) ? "true" : "false");
  } else {
    put(&text, "null");
  }
}

stg_status stg_json_unexpected(const struct stg_json *at, const char *expected, stg_error *reterr) {
  char found[64];
  describe(at, found, sizeof found);
  return stg_json_error(reterr, STG_E_FORMAT, at, "expected %s, found %s", expected, found);
}

stg_status stg_json_check_keys(const struct stg_json *object, const char *const *allowed,
                               stg_error *reterr) {
  stg_status status = stg_json_expect_object(object, reterr);
  struct stg_json child;
  bool more = status == STG_OK && stg_json_first(object, &child);
  for (; more; more = stg_json_next(&child)) {
    const char *const *name = allowed;
    while (*name != NULL && strcmp(*name, child.key) != 0) {
      name++;
    }
    if (*name == NULL) {
      char list[STG_ERROR_MESSAGE_BYTES];
      struct text text = {list, sizeof list, 0};
      for (name = allowed; *name != NULL; name++) {
        put(&text, "%s'%s'", name == allowed ? "" : ", ", *name);
      }
      return stg_json_error(reterr, STG_E_FORMAT, &child, "unknown member; allowed: %s", list);
    }
  }
  return status;
}

bool stg_json_is_object(const struct stg_json *at) {
  return cJSON_IsObject(at->value);
}

bool stg_json_is_array(const struct stg_json *at) {
  return cJSON_IsArray(at->value);
}

bool stg_json_is_string(const struct stg_json *at) {
  return cJSON_IsString(at->value);
}

bool stg_json_is_number(const struct stg_json *at) {
  return cJSON_IsNumber(at->value);
}

bool stg_json_is_null(const struct stg_json *at) {
  return cJSON_IsNull(at->value);
}

stg_status stg_json_expect_object(const struct stg_json *at, stg_error *reterr) {
  return stg_json_is_object(at) ? STG_OK : stg_json_unexpected(at, "an object", reterr);
}

stg_status stg_json_expect_array(const struct stg_json *at, stg_error *reterr) {
  return stg_json_is_array(at) ? STG_OK : stg_json_unexpected(at, "an array", reterr);
}

stg_status stg_json_string(const struct stg_json *at, const char **ret, stg_error *reterr) {
  if (!stg_json_is_string(at)) {
    return stg_json_unexpected(at, "a string", reterr);
  }
  *ret = at->value->valuestring;
  return STG_OK;
}

stg_status stg_json_bool(const struct stg_json *at, bool *ret, stg_error *reterr) {
  if (!cJSON_IsBool(at->value)) {
    return stg_json_unexpected(at, "true or false", reterr);
  }
  *ret = cJSON_IsTrue(at->value);
  return STG_OK;
}

stg_status stg_json_int(const struct stg_json *at, int64_t min, int64_t max, int64_t *ret,
                        stg_error *reterr) {
  assert(min >= -MAX_EXACT_INT && max <= MAX_EXACT_INT);
  double value = at->value->valuedouble;
  bool in_range = stg_json_is_number(at) && value >= (double)min && value <= (double)max;
  if (!in_range || (double)(int64_t)value != value) {
    char expected[96];
    if (min == max) {
      snprintf(expected, sizeof expected, "%" PRId64, min);
    } else {
      snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, min, max);
    }
    return stg_json_unexpected(at, expected, reterr);
  }
  *ret = (int64_t)value;
  return STG_OK;
}

stg_status stg_json_double(const struct stg_json *at, double *ret, stg_error *reterr) {
  if (!stg_json_is_number(at)) {
    return stg_json_unexpected(at, "a number", reterr);
  }
  if (!isfinite(at->value->valuedouble)) {
    return stg_json_unexpected(at, "a number that fits float64 (at most 1.7e308)", reterr);
  }
  *ret = at->value->valuedouble;
  return STG_OK;
}

stg_status stg_json_float(const struct stg_json *at, float *ret, stg_error *reterr) {
  if (!stg_json_is_number(at)) {
    return stg_json_unexpected(at, "a number", reterr);
  }
  double value = at->value->valuedouble;
  if (value < -(double)FLT_MAX || value > (double)FLT_MAX) {
    return stg_json_unexpected(at, "a number that fits float32 (at most 3.4e38)", reterr);
  }
  *ret = (float)value;
  return STG_OK;
}

bool stg_json_is_bound(const struct stg_json *at) {
  return cJSON_IsString(at->value) && (strcmp(at->value->valuestring, "inf") == 0 ||
                                       strcmp(at->value->valuestring, "-inf") == 0);
}

stg_status stg_json_bound(const struct stg_json *at, float *ret, stg_error *reterr) {
  if (stg_json_is_bound(at)) {
    *ret = at->value->valuestring[0] == '-' ? -INFINITY : INFINITY;
    return STG_OK;
  }
  if (!stg_json_is_number(at)) {
    return stg_json_unexpected(at, "a number, \"inf\" or \"-inf\"", reterr);
  }
  return stg_json_float(at, ret, reterr);
}
