/*
 * disk_evict.c: list what a cache folder holds, choose what goes, remove it.
 *
 * Only regular files with names of ours are seen, and only those are removed; no symbolic link is
 * followed on the way. Must not know when a folder is too full, nor what is in a file.
 */
#include "runtime/disk_evict.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/intmath.h"
#include "runtime/entry.h"
#include "runtime/recipe.h"

#define NS_PER_S INT64_C(1000000000)
#define MAX_STAMP_S (INT64_MAX / NS_PER_S - 1)

#define TEMPORARY_SUFFIX ".tmp"
#define TEMPORARY_S 3600 /* no writer takes so long */

#define QUARANTINE_FILES 64
#define QUARANTINE_BYTES (UINT64_C(64) << 20)
#define QUARANTINE_S (INT64_C(30) * 24 * 3600)

void stg_disk_content_finish(struct stg_disk_content *content) {
  stg_free(content->items);
  stg_disk_files_finish(&content->left_out);
  stg_arena_finish(&content->arena);
  *content = (struct stg_disk_content){0};
}

bool stg_disk_content_add(struct stg_disk_content *content,
                          const struct stg_disk_content_file *file) {
  if (content->count == content->capacity) {
    size_t capacity = content->capacity == 0 ? 64 : 2 * content->capacity;
    size_t bytes = 0;
    if (!stg_mul_size(capacity, sizeof *content->items, &bytes)) {
      return false;
    }
    struct stg_disk_content_file *items = stg_realloc(content->items, bytes);
    if (items == NULL) {
      return false;
    }
    content->items = items;
    content->capacity = capacity;
  }
  struct stg_disk_content_file copy = *file;
  copy.path = stg_arena_strdup(&content->arena, file->path);
  if (copy.path == NULL) {
    return false;
  }
  content->items[content->count++] = copy;
  return true;
}

/* A clock that was set wrong gives any number of seconds; before 1970 is all the same. */
static int64_t stamp_of(const struct stat *info) {
  int64_t seconds = (int64_t)info->st_mtim.tv_sec;
  if (seconds < 0) {
    return 0;
  }
  return seconds > MAX_STAMP_S ? MAX_STAMP_S * NS_PER_S
                               : seconds * NS_PER_S + info->st_mtim.tv_nsec;
}

static bool is_temporary_name(const char *name) {
  const size_t len = strlen(name);
  const size_t tail = sizeof TEMPORARY_SUFFIX - 1;
  return len >= tail && strcmp(name + len - tail, TEMPORARY_SUFFIX) == 0;
}

/* Whether a file of this name in a folder of `home` kind is ours, and of which kind. */
static bool kind_of(enum stg_disk_kind home, const char *name, enum stg_disk_kind *ret_kind) {
  struct stg_key graph;
  struct stg_key kernel;
  *ret_kind = home;
  switch (home) {
  case STG_DISK_QUARANTINED:
    return true;
  case STG_DISK_RECIPE:
    if (stg_disk_is_recipe_name(name, &graph, &kernel)) {
      return true;
    }
    break;
  case STG_DISK_ENTRY:
    if (stg_disk_is_entry_name(name)) {
      return true;
    }
    break;
  case STG_DISK_TEMPORARY:
    break;
  }
  *ret_kind = STG_DISK_TEMPORARY;
  return is_temporary_name(name);
}

static stg_status add_file(struct stg_disk_content *content, int folder_fd, const char *folder,
                           const char *name, enum stg_disk_kind kind, stg_error *reterr) {
  struct stat info;
  if (fstatat(folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
    return STG_OK; /* gone since it was listed, or no file of ours */
  }
  char *path = stg_path_join(folder, name);
  const struct stg_disk_content_file file = {.path = path,
                                             .kind = kind,
                                             .size_bytes = (uint64_t)info.st_size,
                                             .stamp_ns = stamp_of(&info)};
  bool added = path != NULL && stg_disk_content_add(content, &file);
  stg_free(path);
  return added ? STG_OK : stg_error_memory(reterr, "a list of cache files", strlen(folder));
}

/* One that cannot be listed does not keep the others from being so. */
static stg_status scan_folder(struct stg_disk_content *content, const char *path,
                              enum stg_disk_kind home, stg_error *reterr) {
  DIR *folder = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_disk_open_folder(path, &folder, &error);
  if (status != STG_OK) {
    const struct stg_disk_file file = {.path = path, .problem = error.message, .is_folder = true};
    return stg_disk_files_leave_out(&content->left_out, &content->arena, &file)
               ? STG_OK
               : stg_error_memory(reterr, "a list of cache files", strlen(path));
  }
  const struct dirent *entry;
  while (folder != NULL && status == STG_OK && (entry = readdir(folder)) != NULL) {
    enum stg_disk_kind kind;
    if (kind_of(home, entry->d_name, &kind)) {
      status = add_file(content, dirfd(folder), path, entry->d_name, kind, reterr);
    }
  }
  if (folder != NULL) {
    closedir(folder);
  }
  return status;
}

/* Which folder of v1/ holds what; false: nothing that is ours to remove. */
static bool home_of(const char *name, enum stg_disk_kind *ret_home) {
  static const struct {
    const char *name;
    enum stg_disk_kind home;
  } homes[] = {
      {STG_DISK_GRAPHS, STG_DISK_RECIPE},
      {"quarantine", STG_DISK_QUARANTINED},
      {"tmp", STG_DISK_TEMPORARY},
  };
  *ret_home = STG_DISK_ENTRY;
  bool found = stg_disk_is_shard_name(name);
  for (size_t i = 0; i < sizeof homes / sizeof homes[0] && !found; i++) {
    found = strcmp(name, homes[i].name) == 0;
    *ret_home = homes[i].home;
  }
  return found;
}

stg_status stg_disk_scan(const struct stg_disk_layer *layer, struct stg_disk_content *content,
                         stg_error *reterr) {
  char *top = stg_path_join(layer->root, "v1");
  DIR *folder = top == NULL ? NULL : opendir(top);
  stg_status status =
      top == NULL ? stg_error_memory(reterr, "a path", strlen(layer->root)) : STG_OK;
  if (top != NULL && folder == NULL && errno != ENOENT && errno != ENOTDIR) {
    status = stg_error_io(reterr, errno, "list", top);
  }
  const struct dirent *entry;
  while (status == STG_OK && folder != NULL && (entry = readdir(folder)) != NULL) {
    enum stg_disk_kind home;
    if (!home_of(entry->d_name, &home)) {
      continue;
    }
    char *path = stg_path_join(top, entry->d_name);
    status = path == NULL ? stg_error_memory(reterr, "a path", strlen(top))
                          : scan_folder(content, path, home, reterr);
    stg_free(path);
  }
  if (folder != NULL) {
    closedir(folder);
  }
  stg_free(top);
  return status;
}

static int by_use(const void *a, const void *b) {
  const struct stg_disk_content_file *x = a;
  const struct stg_disk_content_file *y = b;
  return x->used_ns != y->used_ns ? (x->used_ns < y->used_ns ? -1 : 1) : strcmp(x->path, y->path);
}

static bool is_older(const struct stg_disk_content_file *file, int64_t now_ns, int64_t age_s) {
  return file->used_ns <= now_ns && (now_ns - file->used_ns) / NS_PER_S >= age_s;
}

bool stg_disk_is_for_use(enum stg_disk_kind kind) {
  return kind == STG_DISK_ENTRY || kind == STG_DISK_RECIPE;
}

/* What is larger than it may be is read by nobody: what is used does not make room for it. */
static bool may_be_used(const struct stg_disk_content_file *file) {
  return stg_disk_is_for_use(file->kind) &&
         file->size_bytes <=
             (file->kind == STG_DISK_ENTRY ? STG_ENTRY_MAX_BYTES : STG_RECIPE_MAX_BYTES);
}

/* What goes whatever the limits: what writers that died left, and old or many bad files. */
static void choose_leftovers(struct stg_disk_content *content, int64_t now_ns) {
  uint64_t bytes = 0;
  size_t count = 0;
  for (size_t i = content->count; i-- > 0;) { /* newest first */
    struct stg_disk_content_file *file = &content->items[i];
    if (file->kind == STG_DISK_TEMPORARY && is_older(file, now_ns, TEMPORARY_S)) {
      file->why = "temporary";
    } else if (file->kind == STG_DISK_QUARANTINED) {
      count++;
      bytes = file->size_bytes > STG_DISK_NO_LIMIT - bytes ? STG_DISK_NO_LIMIT
                                                           : bytes + file->size_bytes;
      if (count > QUARANTINE_FILES || bytes > QUARANTINE_BYTES ||
          is_older(file, now_ns, QUARANTINE_S)) {
        file->why = "quarantine";
      }
    }
  }
}

/* Take away, oldest first, of what is for use or of the rest, as long as too much stays. */
static void choose_excess(struct stg_disk_content *content, const struct stg_disk_limits *limits,
                          bool for_use, uint64_t *count, uint64_t *bytes) {
  for (size_t i = 0; i < content->count; i++) {
    struct stg_disk_content_file *file = &content->items[i];
    if (file->why != NULL || file->kind == STG_DISK_TEMPORARY || may_be_used(file) != for_use) {
      continue;
    }
    if (*count <= limits->entries && *bytes <= limits->bytes) {
      return;
    }
    file->why = *count > limits->entries ? "count" : "size";
    *count -= 1;
    *bytes -= file->size_bytes;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(stg_path_name((*(const struct stg_disk_content_file *const *)a)->path),
                stg_path_name((*(const struct stg_disk_content_file *const *)b)->path));
}

/* Whether the entries of a kernel, of all compilers, go in this pass, the last of them too.
 * `entries` are in the order of their names, which begin with the key. */
static bool kernel_goes(const struct stg_disk_content_file *const *entries, size_t count,
                        const char *key_hex) {
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strncmp(stg_path_name(entries[middle]->path), key_hex, STG_KEY_HEX_CHARS) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  bool goes = false;
  for (; low < count; low++) {
    if (strncmp(stg_path_name(entries[low]->path), key_hex, STG_KEY_HEX_CHARS) != 0) {
      return goes;
    }
    if (entries[low]->why == NULL) {
      return false;
    }
    goes = true;
  }
  return goes;
}

/* With a kernel go the recipes of its graphs. Those of kernels that are in another layer or a pack
 * are none of them. Without memory for the list they stay until their own time. */
static void choose_recipes(struct stg_disk_content *content) {
  const struct stg_disk_content_file **entries = stg_calloc(content->count + 1, sizeof *entries);
  size_t n_entries = 0;
  for (size_t i = 0; i < content->count && entries != NULL; i++) {
    if (content->items[i].kind == STG_DISK_ENTRY) {
      entries[n_entries++] = &content->items[i];
    }
  }
  if (n_entries > 1) {
    qsort(entries, n_entries, sizeof *entries, by_name);
  }
  for (size_t i = 0; i < content->count && n_entries > 0; i++) {
    struct stg_disk_content_file *file = &content->items[i];
    const char *name = stg_path_name(file->path);
    struct stg_key graph;
    struct stg_key kernel;
    if (file->kind == STG_DISK_RECIPE && file->why == NULL &&
        stg_disk_is_recipe_name(name, &graph, &kernel) &&
        kernel_goes(entries, n_entries, name + STG_KEY_HEX_CHARS + 1)) {
      file->why = "kernel";
    }
  }
  stg_free((void *)entries);
}

void stg_disk_choose(struct stg_disk_content *content, const struct stg_disk_limits *limits,
                     int64_t now_ns) {
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < content->count; i++) {
    struct stg_disk_content_file *file = &content->items[i];
    file->used_ns = file->stamp_ns < now_ns ? file->stamp_ns : now_ns;
    file->why = NULL;
  }
  if (content->count > 1) {
    qsort(content->items, content->count, sizeof content->items[0], by_use);
  }
  choose_leftovers(content, now_ns);
  for (size_t i = 0; i < content->count; i++) {
    struct stg_disk_content_file *file = &content->items[i];
    if (limits->older_than_s >= 0 && stg_disk_is_for_use(file->kind) &&
        is_older(file, now_ns, limits->older_than_s)) {
      file->why = "age";
    }
    count += file->why == NULL;
    bytes += file->why == NULL ? file->size_bytes : 0;
  }
  choose_excess(content, limits, false, &count, &bytes);
  choose_excess(content, limits, true, &count, &bytes);
  choose_recipes(content);
}

enum stg_disk_fate stg_disk_remove(const struct stg_disk_io *io,
                                   const struct stg_disk_content_file *file, stg_error *reterr) {
  struct stat info;
  if (lstat(file->path, &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return STG_DISK_GONE;
    }
    stg_error_io(reterr, errno, "remove", file->path);
    return STG_DISK_HELD;
  }
  if (!S_ISREG(info.st_mode) || stamp_of(&info) != file->stamp_ns) {
    return STG_DISK_SPARED;
  }
  int errnum = io->remove(io->user, file->path);
  if (errnum == ENOENT) {
    return STG_DISK_GONE;
  }
  if (errnum != 0) {
    stg_error_io(reterr, errnum, "remove", file->path);
    return STG_DISK_HELD;
  }
  return STG_DISK_REMOVED;
}

int64_t stg_disk_now_ns(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}
