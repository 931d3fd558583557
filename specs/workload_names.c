/*
 * workload_names.c: tables of names, so that many vectors and many references stay cheap.
 *
 * Sorted once, looked up by binary search; knows nothing of what the names stand for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "specs/workload_reader.h"

#define MAX_LISTED 6

stg_status stg_spec_check_name(const struct stg_json *at, stg_error *err) {
  const char *name = at->key;
  size_t len = strlen(name);
  bool reserved = strcmp(name, "inf") == 0 || strcmp(name, "-inf") == 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)name[i];
    reserved = reserved || c < 0x20 || c == 0x7f || c == '[' || c == ']';
  }
  if (len == 0 || len > STG_WORKLOAD_MAX_NAME_BYTES || reserved) {
    return stg_json_error(err, STG_E_FORMAT, at,
                          "not a name; a name has 1 to %d bytes, no brackets and no control "
                          "characters, and is not 'inf' or '-inf'",
                          STG_WORKLOAD_MAX_NAME_BYTES);
  }
  return STG_OK;
}

static int compare_names(const void *a, const void *b) {
  const struct stg_spec_name *left = a;
  const struct stg_spec_name *right = b;
  return strcmp(left->name, right->name);
}

struct stg_spec_names stg_spec_names_of(struct stg_spec_name *entries, size_t count) {
  if (count > 1) {
    qsort(entries, count, sizeof *entries, compare_names);
  }
  return (struct stg_spec_names){entries, count};
}

bool stg_spec_names_find(const struct stg_spec_names *names, const char *name, size_t len,
                         uint32_t *ret_index) {
  size_t low = 0;
  size_t high = names->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct stg_spec_name *entry = &names->entries[middle];
    int order = strncmp(name, entry->name, len);
    if (order == 0 && entry->name[len] != '\0') {
      order = -1; /* a prefix comes before the longer name */
    }
    if (order == 0) {
      *ret_index = entry->index;
      return true;
    }
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return false;
}

stg_status stg_spec_unknown_name(const struct stg_json *at, const char *kind, const char *name,
                                 const struct stg_spec_names *names, stg_error *err) {
  char list[256] = "none";
  size_t len = 0;
  for (size_t i = 0; i < names->count && len < sizeof list; i++) {
    const char *separator = i == 0 ? "" : ", ";
    if (i == MAX_LISTED) {
      snprintf(list + len, sizeof list - len, ", ... (%zu)", names->count);
      break;
    }
    len += (size_t)snprintf(list + len, sizeof list - len, "%s'%.24s'", separator,
                            names->entries[i].name);
  }
  return stg_json_error(err, STG_E_FORMAT, at, "unknown %s '%.64s'; declared: %s", kind, name,
                        list);
}
