/*
 * control_file.c: the metadata of control vectors, by the keys that are in use.
 *
 * General tools write `general.architecture`, `controlvector.model_hint` and
 * `controlvector.layer_count`; projections write `glp.mode` and others. A key counts by its last
 * segment, so that a mode is not missed because a tool has another name. Files that we converted
 * carry the same keys behind "gguf." or "source.", once for each time.
 */
#include "specs/control_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/utf8.h"

/* What `vectors convert` puts before the keys of GGUF, and of any other format. */
static const char *const converted[] = {"gguf.", "source."};

/* The key as the file had it that was converted first. */
static const char *first_key(const char *key) {
  for (size_t i = 0; i < sizeof converted / sizeof converted[0];) {
    const size_t len = strlen(converted[i]);
    const bool found = strncmp(key, converted[i], len) == 0;
    key += found ? len : 0;
    i = found ? 0 : i + 1;
  }
  return key;
}

/* Whether this is a key of the model or its vocabulary, not of how a vector is applied. */
static bool is_of_model(const char *key) {
  return strncmp(key, "general.", strlen("general.")) == 0 ||
         strncmp(key, "tokenizer.", strlen("tokenizer.")) == 0;
}

static bool is_addition(const char *mode) {
  static const char *const words[] = {"add", "additive", "addition"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcasecmp(mode, words[i]) == 0) {
      return true;
    }
  }
  return false;
}

bool stg_control_adds(const struct stg_control_facts *facts) {
  return facts->mode == NULL || is_addition(facts->mode);
}

static stg_status read_count(const char *path, const char *key, const char *text, int64_t *ret,
                             stg_error *reterr) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < 0) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: %.96s '%.96s' is no count", path, key, text);
  }
  *ret = value;
  return STG_OK;
}

/* Keys that count by their last segment. */
static void read_segment(const char *key, const char *value, struct stg_control_facts *facts) {
  const char *dot = strrchr(key, '.');
  const char *last = dot != NULL ? dot + 1 : key;
  if (strcmp(last, "mode") == 0) {
    if (facts->mode == NULL || (stg_control_adds(facts) && !is_addition(value))) {
      facts->mode_key = key;
      facts->mode = value;
    }
  } else if (strcmp(last, "hook_point") == 0) {
    facts->hook_point_key = key;
    facts->hook_point = value;
  } else if (strcmp(last, "structure") == 0) {
    facts->structure_key = key;
    facts->structure = value;
  } else if (strcmp(last, "alpha_default") == 0) {
    facts->alpha_key = key;
    facts->alpha = value;
  }
}

static stg_status read_pair(const char *path, const char *full_key, const char *value,
                            struct stg_control_facts *facts, stg_error *reterr) {
  const char *key = first_key(full_key);
  if (strcmp(key, "general.architecture") == 0) {
    facts->architecture = value;
    facts->declared = strcmp(value, "controlvector") == 0;
  } else if (strcmp(key, "controlvector.model_hint") == 0) {
    facts->model_hint = value;
  } else if (strcmp(key, "controlvector.layer_count") == 0) {
    return read_count(path, key, value, &facts->layer_count, reterr);
  } else if (!is_of_model(key)) {
    read_segment(key, value, facts);
  }
  return STG_OK;
}

/* Facts go into messages and tables, where a line stays a line. */
static stg_status check_line(const char *path, const char *what, const char *text,
                             stg_error *reterr) {
  if (text == NULL || stg_utf8_is_name(text, strlen(text))) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_FORMAT, "%s: its %s holds control characters", path, what);
}

static stg_status check_lines(const char *path, const struct stg_control_facts *facts,
                              stg_error *reterr) {
  const struct {
    const char *what, *text;
  } lines[] = {
      {"architecture", facts->architecture},
      {"model_hint", facts->model_hint},
      {"mode key", facts->mode_key},
      {"mode", facts->mode},
      {"hook_point key", facts->hook_point_key},
      {"hook_point", facts->hook_point},
      {"structure key", facts->structure_key},
      {"structure", facts->structure},
      {"alpha_default key", facts->alpha_key},
      {"alpha_default", facts->alpha},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof lines / sizeof lines[0]; i++) {
    status = check_line(path, lines[i].what, lines[i].text, reterr);
  }
  return status;
}

stg_status stg_control_read(const struct stg_tensor_file *file, struct stg_control_facts *ret_facts,
                            stg_error *reterr) {
  struct stg_control_facts facts = {.layer_count = -1};
  for (size_t i = 0; i < file->n_metadata; i++) {
    stg_status status =
        read_pair(file->path, file->metadata[2 * i], file->metadata[2 * i + 1], &facts, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  stg_status status = check_lines(file->path, &facts, reterr);
  if (status == STG_OK) {
    *ret_facts = facts;
  }
  return status;
}
