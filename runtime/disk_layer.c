/*
 * disk_layer.c: where the files of one cache folder are, and whether it may be trusted.
 *
 * Reading only; a pack is disk_pack.c, publishing and quarantine are in disk_publish.c. Must not
 * know what is in an entry.
 */
#include "runtime/disk_layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/intmath.h"
#include "runtime/disk_pack.h"
#include "runtime/owner.h"

static stg_status check_folder(const char *path, stg_error *reterr) {
  struct stat info;
  if (stat(path, &info) != 0) {
    int errnum = errno;
    stg_status status = stg_error_io(reterr, errnum, "read cache folder", path);
    if (errnum != ENOENT) {
      return status;
    }
    if (reterr != NULL) {
      reterr->code = STG_E_NOT_FOUND;
    }
    return STG_E_NOT_FOUND;
  }
  if (!S_ISDIR(info.st_mode)) {
    return stg_error_set(reterr, STG_E_INVALID, "cache folder '%s' is not a folder", path);
  }
  return stg_owner_check(&info, "folder", path, reterr);
}

stg_status stg_disk_layer_check(const struct stg_disk_layer *layer, stg_error *reterr) {
  struct stat info;
  if (layer->pack != NULL) {
    return STG_OK; /* it was checked when it was opened */
  }
  if (layer->trust && stat(layer->root, &info) == 0 && S_ISDIR(info.st_mode)) {
    return STG_OK;
  }
  stg_status status = check_folder(layer->root, reterr);
  if (status != STG_OK) {
    return status;
  }
  char *inner = stg_path_join(layer->root, "v1");
  if (inner == NULL) {
    return stg_error_memory(reterr, "a path", strlen(layer->root));
  }
  status = check_folder(inner, reterr);
  stg_free(inner);
  return status;
}

bool stg_disk_layer_holds(const struct stg_disk_layer *layer, const char *path) {
  size_t len = strlen(layer->root);
  return strncmp(path, layer->root, len) == 0 && path[len] == '/';
}

char *stg_disk_file_name(struct stg_key key, const char *compiler) {
  char hex[STG_KEY_HEX_CHARS + 1];
  struct stg_strbuf name = {0};
  stg_key_hex(key, hex);
  stg_strbuf_printf(&name, "%s-%s" STG_DISK_SUFFIX, hex, compiler);
  return stg_strbuf_take(&name);
}

void stg_disk_files_finish(struct stg_disk_files *files) {
  stg_free(files->items);
  *files = (struct stg_disk_files){0};
}

bool stg_disk_files_push(struct stg_disk_files *files, struct stg_disk_file file) {
  if (files->count == files->capacity) {
    size_t capacity = files->capacity == 0 ? 16 : 2 * files->capacity;
    size_t bytes = 0;
    if (!stg_mul_size(capacity, sizeof *files->items, &bytes)) {
      return false;
    }
    struct stg_disk_file *items = stg_realloc(files->items, bytes);
    if (items == NULL) {
      return false;
    }
    files->items = items;
    files->capacity = capacity;
  }
  files->items[files->count++] = file;
  return true;
}

bool stg_disk_files_leave_out(struct stg_disk_files *files, struct stg_arena *arena,
                              const struct stg_disk_file *file) {
  struct stg_disk_file copy = *file;
  copy.path = stg_arena_strdup(arena, file->path);
  copy.problem = stg_arena_strdup(arena, file->problem);
  return copy.path != NULL && copy.problem != NULL && stg_disk_files_push(files, copy);
}

#define SUFFIX_CHARS (sizeof STG_DISK_SUFFIX - 1)

bool stg_disk_is_entry_name(const char *name) {
  char hex[STG_KEY_HEX_CHARS + 1];
  struct stg_key key;
  size_t len = strlen(name);
  if (len <= STG_KEY_HEX_CHARS + 1 + SUFFIX_CHARS || name[STG_KEY_HEX_CHARS] != '-' ||
      strcmp(name + len - SUFFIX_CHARS, STG_DISK_SUFFIX) != 0) {
    return false;
  }
  memcpy(hex, name, STG_KEY_HEX_CHARS);
  hex[STG_KEY_HEX_CHARS] = '\0';
  return stg_key_parse(hex, &key);
}

char *stg_disk_recipe_name(struct stg_key graph, struct stg_key kernel) {
  char graph_hex[STG_KEY_HEX_CHARS + 1];
  char kernel_hex[STG_KEY_HEX_CHARS + 1];
  struct stg_strbuf name = {0};
  stg_key_hex(graph, graph_hex);
  stg_key_hex(kernel, kernel_hex);
  stg_strbuf_printf(&name, "%s-%s" STG_DISK_RECIPE_SUFFIX, graph_hex, kernel_hex);
  return stg_strbuf_take(&name);
}

bool stg_disk_is_recipe_name(const char *name, struct stg_key *ret_graph,
                             struct stg_key *ret_kernel) {
  char hex[STG_KEY_HEX_CHARS + 1] = "";
  const size_t stem = sizeof hex + STG_KEY_HEX_CHARS; /* two keys and what is between them */
  if (strlen(name) != stem + sizeof STG_DISK_RECIPE_SUFFIX - 1 || name[STG_KEY_HEX_CHARS] != '-' ||
      strcmp(name + stem, STG_DISK_RECIPE_SUFFIX) != 0) {
    return false;
  }
  memcpy(hex, name, STG_KEY_HEX_CHARS);
  if (!stg_key_parse(hex, ret_graph)) {
    return false;
  }
  memcpy(hex, name + STG_KEY_HEX_CHARS + 1, STG_KEY_HEX_CHARS);
  return stg_key_parse(hex, ret_kernel);
}

/* The compiler part of a file name of ours, copied into the arena; NULL for any other name. */
static const char *compiler_of(const char *name, const char *prefix, struct stg_arena *arena) {
  if (strncmp(name, prefix, strlen(prefix)) != 0 || !stg_disk_is_entry_name(name)) {
    return NULL;
  }
  return stg_arena_strndup(arena, name + STG_KEY_HEX_CHARS + 1,
                           strlen(name) - SUFFIX_CHARS - STG_KEY_HEX_CHARS - 1);
}

/* What one listing needs at every level. */
struct listing {
  const struct stg_disk_layer *layer;
  const char *prefix; /* hex digits that a name must begin with */
  struct stg_arena *arena;
  struct stg_disk_files *files;
};

/* Why a folder cannot be listed, and what to do about it. */
static stg_status say_unlisted(int errnum, const char *path, stg_error *reterr) {
  if (errnum == EACCES) {
    return stg_error_set(reterr, STG_E_IO,
                         "cannot list '%s': Permission denied; give it the mode 0700, or move it "
                         "away",
                         path);
  }
  return stg_error_io(reterr, errnum, "list", path);
}

stg_status stg_disk_open_folder(const char *path, DIR **ret_folder, stg_error *reterr) {
  struct stat info, opened;
  if (lstat(path, &info) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? STG_OK : say_unlisted(errno, path, reterr);
  }
  if (S_ISLNK(info.st_mode)) {
    return stg_error_set(
        reterr, STG_E_IO,
        "'%s' is a symbolic link, which is not followed; put a folder in its place", path);
  }
  if (!S_ISDIR(info.st_mode)) {
    return stg_error_set(reterr, STG_E_IO, "'%s' is no folder; move it away", path);
  }
  DIR *folder = opendir(path);
  if (folder == NULL) {
    return errno == ENOENT || errno == ENOTDIR ? STG_OK : say_unlisted(errno, path, reterr);
  }
  if (fstat(dirfd(folder), &opened) != 0 || opened.st_dev != info.st_dev ||
      opened.st_ino != info.st_ino) {
    closedir(folder); /* put in its place since: as if it had gone */
    return STG_OK;
  }
  *ret_folder = folder;
  return STG_OK;
}

static bool is_link(DIR *folder, const char *name) {
  struct stat info;
  return fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

/* Append a file of a folder. */
static stg_status add_file(const struct listing *listing, const char *folder, const char *name,
                           const char *compiler, stg_error *reterr) {
  char *path = stg_path_join(folder, name);
  const struct stg_disk_file file = {.path = path == NULL ? NULL
                                                          : stg_arena_strdup(listing->arena, path),
                                     .compiler = compiler,
                                     .layer = listing->layer};
  stg_free(path);
  return file.path != NULL && stg_disk_files_push(listing->files, file)
             ? STG_OK
             : stg_error_memory(reterr, "a list of cache files", strlen(folder));
}

/* Append what is left out. */
static stg_status leave_out(const struct listing *listing, const struct stg_disk_file *file,
                            stg_error *reterr) {
  return stg_disk_files_leave_out(listing->files, listing->arena, file)
             ? STG_OK
             : stg_error_memory(reterr, "a list of cache files", strlen(file->path));
}

/* Append a symbolic link under the name of a file: a cache holds what was written into it. */
static stg_status leave_out_link(const struct listing *listing, const char *folder,
                                 const char *name, stg_error *reterr) {
  char *path = stg_path_join(folder, name);
  const struct stg_disk_file file = {
      .path = path,
      .layer = listing->layer,
      .problem = "a symbolic link, which is not followed; put the file itself in its place"};
  stg_status status = path != NULL ? leave_out(listing, &file, reterr)
                                   : stg_error_memory(reterr, "a path", strlen(folder));
  stg_free(path);
  return status;
}

/* What came of opening a folder, where the others are to be listed although it cannot be. */
static stg_status pass_over(const struct listing *listing, const char *folder, stg_status status,
                            const stg_error *error, stg_error *reterr) {
  const struct stg_disk_file file = {
      .path = folder, .layer = listing->layer, .problem = error->message, .is_folder = true};
  if (status == STG_OK) {
    return STG_OK;
  }
  return status == STG_E_IO ? leave_out(listing, &file, reterr)
                            : stg_error_set(reterr, status, "%s", error->message);
}

static stg_status list_shard(const struct listing *listing, const char *shard, stg_error *reterr) {
  DIR *folder = NULL;
  stg_status status = stg_disk_open_folder(shard, &folder, reterr);
  if (status != STG_OK || folder == NULL) {
    return status;
  }
  const struct dirent *entry;
  while (status == STG_OK && (entry = readdir(folder)) != NULL) {
    const char *compiler = compiler_of(entry->d_name, listing->prefix, listing->arena);
    if (compiler != NULL && !is_link(folder, entry->d_name)) {
      status = add_file(listing, shard, entry->d_name, compiler, reterr);
    } else if (compiler != NULL && listing->prefix[0] == '\0') {
      status = leave_out_link(listing, shard, entry->d_name, reterr);
    }
  }
  closedir(folder);
  return status == STG_OK ? stg_arena_status(listing->arena, reterr) : status;
}

bool stg_disk_is_shard_name(const char *name) {
  return strlen(name) == STG_DISK_SHARD_CHARS &&
         strspn(name, "0123456789abcdef") == STG_DISK_SHARD_CHARS;
}

static stg_status list_all(const struct listing *listing, const char *top, stg_error *reterr) {
  DIR *folder = opendir(top); /* the root and its v1 may be links: those are the user's choice */
  stg_status status = STG_OK;
  if (folder == NULL) {
    return errno == ENOENT || errno == ENOTDIR ? STG_OK : say_unlisted(errno, top, reterr);
  }
  const struct dirent *entry;
  while (status == STG_OK && (entry = readdir(folder)) != NULL) {
    if (!stg_disk_is_shard_name(entry->d_name)) {
      continue;
    }
    char *shard = stg_path_join(top, entry->d_name);
    stg_error error = STG_ERROR_INIT;
    status = shard == NULL ? stg_error_memory(&error, "a path", strlen(top))
                           : list_shard(listing, shard, &error);
    status = pass_over(listing, shard, status, &error, reterr);
    stg_free(shard);
  }
  closedir(folder);
  return status;
}

bool stg_disk_layer_is_empty(const struct stg_disk_layer *layer) {
  bool empty = layer->pack == NULL;
  char *top = empty ? stg_path_join(layer->root, "v1") : NULL;
  DIR *folder = top != NULL ? opendir(top) : NULL;
  stg_free(top);
  const struct dirent *entry;
  while (folder != NULL && empty && (entry = readdir(folder)) != NULL) {
    empty = !stg_disk_is_shard_name(entry->d_name);
  }
  if (folder != NULL) {
    closedir(folder);
  }
  return empty;
}

stg_status stg_disk_layer_list(const struct stg_disk_layer *layer, const struct stg_key *key,
                               struct stg_arena *arena, struct stg_disk_files *files,
                               stg_error *reterr) {
  char hex[STG_KEY_HEX_CHARS + 1] = "";
  struct stg_strbuf path = {0};
  if (layer->pack != NULL) {
    return stg_disk_pack_list(layer, key, arena, files, reterr);
  }
  struct listing listing = {.layer = layer, .prefix = hex, .arena = arena, .files = files};
  if (key != NULL) {
    stg_key_hex(*key, hex);
  }
  stg_strbuf_printf(&path, "%s/v1", layer->root);
  if (key != NULL) {
    stg_strbuf_printf(&path, "/%.*s", STG_DISK_SHARD_CHARS, hex);
  }
  stg_status status = stg_strbuf_status(&path, reterr);
  if (status == STG_OK) {
    status = key != NULL ? list_shard(&listing, path.data, reterr)
                         : list_all(&listing, path.data, reterr);
  }
  stg_strbuf_finish(&path);
  return status;
}

stg_status stg_disk_layer_list_recipes(const struct stg_disk_layer *layer, struct stg_arena *arena,
                                       struct stg_disk_files *files, stg_error *reterr) {
  const struct listing listing = {.layer = layer, .arena = arena, .files = files};
  struct stg_key graph;
  struct stg_key kernel;
  DIR *folder = NULL;
  if (layer->pack != NULL) {
    return STG_OK;
  }
  char *path = stg_path_join(layer->root, "v1/" STG_DISK_GRAPHS);
  stg_error error = STG_ERROR_INIT;
  stg_status status = path != NULL ? stg_disk_open_folder(path, &folder, &error)
                                   : stg_error_memory(&error, "a path", strlen(layer->root));
  status = pass_over(&listing, path, status, &error, reterr);
  const struct dirent *entry;
  while (folder != NULL && status == STG_OK && (entry = readdir(folder)) != NULL) {
    if (stg_disk_is_recipe_name(entry->d_name, &graph, &kernel)) {
      status = is_link(folder, entry->d_name)
                   ? leave_out_link(&listing, path, entry->d_name, reterr)
                   : add_file(&listing, path, entry->d_name, NULL, reterr);
    }
  }
  if (folder != NULL) {
    closedir(folder);
  }
  stg_free(path);
  return status;
}
