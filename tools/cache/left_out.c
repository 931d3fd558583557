/*
 * cache/left_out.c: name what was not looked into, with its reason and remedy. Must not read
 * anything.
 */
#include "tools/cache/left_out.h"

#include "tools/report.h"

struct stg_cache_left_out_list stg_cache_left_out_of(const stg_cache *cache, bool links) {
  struct stg_cache_left_out_list list = {.links = links};
  list.items = stg_cache_left_outs(cache, &list.count);
  return list;
}

const char *stg_cache_folder_left_out(const stg_cache *cache) {
  size_t count = 0;
  const stg_cache_left_out *items = stg_cache_left_outs(cache, &count);
  for (size_t i = 0; i < count; i++) {
    if (items[i].is_folder) {
      return items[i].problem;
    }
  }
  return NULL;
}

static bool is_said(const struct stg_cache_left_out_list *list, size_t index) {
  return list->items[index].is_folder || list->links;
}

bool stg_cache_left_out_any(const struct stg_cache_left_out_list *list) {
  bool any = false;
  for (size_t i = 0; i < list->count && !any; i++) {
    any = is_said(list, i);
  }
  return any;
}

void stg_cache_left_out_json(struct stg_json_out *json,
                             const struct stg_cache_left_out_list *list) {
  stg_json_out_open(json, "left_out", '[');
  for (size_t i = 0; i < list->count; i++) {
    if (is_said(list, i)) {
      stg_json_out_open(json, NULL, '{');
      stg_json_out_text(json, "path", list->items[i].path);
      stg_json_out_text(json, "problem", list->items[i].problem);
      stg_json_out_close(json, '}');
    }
  }
  stg_json_out_close(json, ']');
}

void stg_cache_left_out_text(const struct stg_cache_left_out_list *list, struct stg_strbuf *out) {
  for (size_t i = 0; i < list->count; i++) {
    if (is_said(list, i)) {
      stg_strbuf_str(out, "left out: ");
      if (!list->items[i].is_folder) { /* of a folder the problem names the path */
        stg_report_clean(out, list->items[i].path);
        stg_strbuf_str(out, ": ");
      }
      stg_report_clean(out, list->items[i].problem);
      stg_strbuf_char(out, '\n');
    }
  }
}
