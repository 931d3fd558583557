/*
 * doctor/folder.c: the facts of one element of the cache's path list. Prints nothing, judges
 * nothing.
 */
#include "tools/doctor/folder.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file system of a path, or of its nearest parent that is there. */
static bool find_system(const char *path, struct stg_file_system *ret) {
  struct stg_strbuf text = {0};
  bool found = false;
  stg_strbuf_printf(&text, "%s%s", path[0] == '/' ? "" : "./", path);
  while (!text.failed && !found && text.data[0] != '\0') {
    found = stg_file_system_find(text.data, ret);
    char *slash = strrchr(text.data, '/');
    *(slash != NULL ? slash : text.data) = '\0';
  }
  stg_strbuf_finish(&text);
  return found || stg_file_system_find("/", ret);
}

static void look_inside(const char *path, struct stg_doctor_folder *ret) {
  struct stg_strbuf inner = {0};
  struct stat facts;
  stg_strbuf_printf(&inner, "%s/v1", path);
  if (!inner.failed && stat(inner.data, &facts) == 0) {
    ret->has_inner = true;
    ret->inner_owner = facts.st_uid;
    ret->inner_mode = (unsigned)facts.st_mode & 07777u;
  }
  stg_strbuf_finish(&inner);
}

/* By names alone; one that cannot be opened is not counted. */
static void count(const char *path, struct stg_doctor_folder *ret) {
  stg_cache *cache = NULL;
  ret->layer.struct_size = sizeof ret->layer;
  ret->is_counted = stg_cache_open(path, &cache, NULL) == STG_OK &&
                    stg_cache_layer_get(cache, 0, &ret->layer, NULL) == STG_OK &&
                    ret->layer.n_left_out == 0;
  ret->layer.path = NULL; /* the cache's, which is closed */
  stg_cache_close(cache);
}

void stg_doctor_folder_examine(const char *path, size_t len, struct stg_doctor_folder *ret) {
  struct stat facts;
  stg_strbuf_mem(&ret->path, path, len);
  const char *text = stg_strbuf_text(&ret->path);
  ret->user = geteuid();
  ret->is_there = stat(text, &facts) == 0;
  if (ret->is_there) {
    ret->is_pack = S_ISREG(facts.st_mode);
    ret->owner = facts.st_uid;
    ret->mode = (unsigned)facts.st_mode & 07777u;
    ret->can_write = access(text, W_OK | (ret->is_pack ? 0 : X_OK)) == 0;
    look_inside(text, ret);
  }
  ret->has_system = find_system(text, &ret->system);
  count(text, ret);
}
