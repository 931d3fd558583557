/*
 * json.c: documents: parse, refuse duplicate members, walk, look up.
 *
 * Works on cJSON's nodes directly (child, next, string), since its lookups by index are linear and
 * some of its lookups by name ignore case. Knows nothing of what a document means; typed reads and
 * their messages are in json_value.c.
 */
#include "specs/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

struct stg_json stg_json_root(const struct stg_json_doc *doc) {
  return (struct stg_json){.doc = doc, .value = doc->root};
}

bool stg_json_first(const struct stg_json *container, struct stg_json *ret) {
  const struct cJSON *child = container->value->child;
  if (child == NULL) {
    return false;
  }
  *ret = (struct stg_json){
      .doc = container->doc, .value = child, .parent = container, .key = child->string};
  return true;
}

bool stg_json_next(struct stg_json *child) {
  const struct cJSON *next = child->value->next;
  if (next == NULL) {
    return false;
  }
  child->value = next;
  child->key = next->string;
  child->index++;
  return true;
}

size_t stg_json_count(const struct stg_json *at) {
  size_t n = 0;
  for (const struct cJSON *child = at->value->child; child != NULL; child = child->next) {
    n++;
  }
  return n;
}

bool stg_json_find(const struct stg_json *object, const char *key, struct stg_json *ret) {
  struct stg_json child;
  for (bool more = stg_json_first(object, &child); more; more = stg_json_next(&child)) {
    if (child.key != NULL && strcmp(child.key, key) == 0) {
      *ret = child;
      return true;
    }
  }
  return false;
}

stg_status stg_json_get(const struct stg_json *object, const char *key, struct stg_json *ret,
                        stg_error *reterr) {
  if (stg_json_find(object, key, ret)) {
    return STG_OK;
  }
  return stg_json_error(reterr, STG_E_FORMAT, object, "'%s' is missing", key);
}

struct member {
  const struct cJSON *node;
};

static int compare_names(const void *a, const void *b) {
  const struct member *left = a;
  const struct member *right = b;
  return strcmp(left->node->string, right->node->string);
}

/* Refuse an object that has a member twice; n log n, since a hostile file may have many. */
static stg_status check_members(const struct stg_json *object, stg_error *err) {
  size_t n = stg_json_count(object);
  if (n < 2) {
    return STG_OK;
  }
  struct member *members = stg_calloc(n, sizeof *members);
  if (members == NULL) {
    return stg_error_memory(err, "the members of an object", n * sizeof *members);
  }
  size_t i = 0;
  for (const struct cJSON *node = object->value->child; node != NULL; node = node->next) {
    members[i++].node = node;
  }
  qsort(members, n, sizeof *members, compare_names);
  stg_status status = STG_OK;
  for (i = 1; i < n && status == STG_OK; i++) {
    if (compare_names(&members[i - 1], &members[i]) == 0) {
      const struct cJSON *node = members[i].node;
      struct stg_json twice = {
          .doc = object->doc, .value = node, .parent = object, .key = node->string};
      status = stg_json_error(err, STG_E_FORMAT, &twice, "this member is given twice; keep one");
    }
  }
  stg_free(members);
  return status;
}

/* Visit every object, parents first. The grammar bounds the depth, so a fixed path is enough. */
static stg_status check_duplicates(const struct stg_json_doc *doc, stg_error *err) {
  struct stg_json path[STG_JSON_MAX_DEPTH + 1];
  size_t depth = 0;
  path[0] = stg_json_root(doc);
  for (;;) {
    if (stg_json_is_object(&path[depth])) {
      stg_status status = check_members(&path[depth], err);
      if (status != STG_OK) {
        return status;
      }
    }
    if (depth < STG_JSON_MAX_DEPTH && stg_json_first(&path[depth], &path[depth + 1])) {
      depth++;
      continue;
    }
    while (!stg_json_next(&path[depth])) {
      if (depth == 0) {
        return STG_OK;
      }
      depth--;
    }
  }
}

stg_status stg_json_parse_within(const char *file, const char *text, size_t len,
                                 struct stg_json_limit limit, struct stg_json_doc *ret_doc,
                                 stg_error *reterr) {
  if (len > STG_JSON_MAX_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: %zu bytes; a JSON file has at most %" PRIu64,
                         file, len, STG_JSON_MAX_BYTES);
  }
  stg_status status = stg_json_scan_within(file, text, len, limit, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_json_doc doc = {.file = stg_strdup(file)};
  /* the grammar has been checked: only memory can be missing now */
  doc.root = doc.file != NULL ? cJSON_ParseWithLengthOpts(text, len, NULL, false) : NULL;
  if (doc.root == NULL) {
    status = stg_error_memory(reterr, "a JSON document", len);
  } else {
    status = check_duplicates(&doc, reterr);
  }
  if (status != STG_OK) {
    stg_json_finish(&doc);
    return status;
  }
  *ret_doc = doc;
  return STG_OK;
}

stg_status stg_json_parse(const char *file, const char *text, size_t len,
                          struct stg_json_doc *ret_doc, stg_error *reterr) {
  return stg_json_parse_within(file, text, len, STG_JSON_LIMIT, ret_doc, reterr);
}

stg_status stg_json_load(const char *file, struct stg_json_doc *ret_doc, stg_error *reterr) {
  char *text = NULL;
  size_t len = 0;
  stg_status status = stg_file_read(file, STG_JSON_MAX_BYTES, &text, &len, reterr);
  if (status == STG_OK) {
    status = stg_json_parse(file, text, len, ret_doc, reterr);
  }
  stg_free(text);
  return status;
}

void stg_json_finish(struct stg_json_doc *doc) {
  if (doc == NULL) {
    return;
  }
  cJSON_Delete(doc->root);
  stg_free(doc->file);
  *doc = (struct stg_json_doc){0};
}
