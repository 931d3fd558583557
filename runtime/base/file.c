/*
 * file.c: bounded reads, read-only maps, folders, and the few path words they need. Writes are
 * file_write.c's.
 *
 * Opens without blocking and looks at what was opened before it reads, so that a FIFO, a device or
 * a folder given as a file is an error in one line and never a hang. Knows no format.
 */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/strbuf.h"

const char *stg_file_kind_name(unsigned mode) {
  if (S_ISDIR(mode)) {
    return "a folder";
  }
  if (S_ISFIFO(mode)) {
    return "a FIFO";
  }
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/* A missing file is told apart from one that cannot be read. */
static stg_status read_error(stg_error *reterr, int errnum, const char *path) {
  stg_status status = stg_error_io(reterr, errnum, "read", path);
  if (errnum != ENOENT) {
    return status;
  }
  if (reterr != NULL) {
    reterr->code = STG_E_NOT_FOUND;
  }
  return STG_E_NOT_FOUND;
}

/* Open a regular file; the caller closes `*ret_fd`. */
static stg_status open_regular(const char *path, int *ret_fd, struct stat *ret_info,
                               stg_error *reterr) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &info) != 0) {
    int errnum = errno;
    if (fd >= 0) {
      close(fd);
    }
    return read_error(reterr, errnum, path);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return stg_error_set(reterr, STG_E_IO, "cannot read '%s': it is %s, not a file", path,
                         stg_file_kind_name(info.st_mode));
  }
  *ret_fd = fd;
  *ret_info = info;
  return STG_OK;
}

/* Fill up to `size` bytes; `*ret_size` is less when the file shrank meanwhile. */
static stg_status read_all(int fd, const char *path, char *data, size_t size, size_t *ret_size,
                           stg_error *reterr) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(fd, data + done, size - done);
    if (got == 0) {
      break;
    }
    if (got < 0 && errno != EINTR) {
      return read_error(reterr, errno, path);
    }
    done += got > 0 ? (size_t)got : 0;
  }
  *ret_size = done;
  return STG_OK;
}

stg_status stg_file_read_stamped(const char *path, uint64_t max_bytes, char **ret_data,
                                 size_t *ret_size, int64_t *ret_mtime_unix, stg_error *reterr) {
  int fd = -1;
  struct stat info = {0};
  size_t got = 0;
  char *data = NULL;
  stg_status status = open_regular(path, &fd, &info, reterr);
  if (status != STG_OK) {
    return status;
  }
  const uint64_t size = (uint64_t)info.st_size;
  if (size > max_bytes || size >= SIZE_MAX) {
    status = stg_error_set(reterr, STG_E_INVALID,
                           "cannot read '%s': it has %llu bytes, at most %llu are allowed", path,
                           (unsigned long long)size, (unsigned long long)max_bytes);
    goto out;
  }
  data = stg_malloc((size_t)size + 1);
  if (data == NULL) {
    status = stg_error_memory(reterr, path, (size_t)size + 1);
    goto out;
  }
  status = read_all(fd, path, data, (size_t)size, &got, reterr);
  if (status != STG_OK) {
    goto out;
  }
  data[got] = '\0';
  *ret_data = data;
  *ret_size = got;
  *ret_mtime_unix = (int64_t)info.st_mtime;
  data = NULL;
out:
  stg_free(data);
  close(fd);
  return status;
}

stg_status stg_file_read(const char *path, uint64_t max_bytes, char **ret_data, size_t *ret_size,
                         stg_error *reterr) {
  int64_t mtime_unix = 0;
  return stg_file_read_stamped(path, max_bytes, ret_data, ret_size, &mtime_unix, reterr);
}

stg_status stg_file_open(const char *path, struct stg_file_pieces *ret_file, stg_error *reterr) {
  struct stat info;
  int fd = -1;
  stg_status status = open_regular(path, &fd, &info, reterr);
  if (status == STG_OK) {
    *ret_file = (struct stg_file_pieces){.path = path, .fd = fd, .size = (uint64_t)info.st_size};
  }
  return status;
}

void stg_file_close(const struct stg_file_pieces *file) {
  close(file->fd);
}

stg_status stg_file_read_at(const struct stg_file_pieces *file, uint64_t offset, void *ret_data,
                            size_t size, stg_error *reterr) {
  char *data = ret_data;
  size_t done = 0;
  while (done < size) {
    ssize_t got = pread(file->fd, data + done, size - done, (off_t)(offset + done));
    if (got < 0 && errno != EINTR) {
      return read_error(reterr, errno, file->path);
    }
    if (got == 0) {
      return stg_error_set(reterr, STG_E_CORRUPT, "it ends at byte %llu",
                           (unsigned long long)(offset + done));
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return STG_OK;
}

stg_status stg_file_map(const char *path, struct stg_file_map *ret_map, stg_error *reterr) {
  int fd = -1;
  struct stat info = {0};
  stg_status status = open_regular(path, &fd, &info, reterr);
  if (status != STG_OK) {
    return status;
  }
  const uint64_t size = (uint64_t)info.st_size;
  void *data = NULL; /* an empty file cannot be mapped, and needs no bytes */
  if (size != 0) {
    data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  int errnum = errno;
  close(fd);
  if (data == MAP_FAILED) {
    return stg_error_io(reterr, errnum, "map", path);
  }
  ret_map->data = data;
  ret_map->size = (size_t)size;
  return STG_OK;
}

void stg_file_unmap(struct stg_file_map *map) {
  if (map->size != 0) {
    void *data;
    memcpy(&data, &map->data, sizeof data); /* munmap wants it without the const of the view */
    munmap(data, map->size);
  }
  *map = (struct stg_file_map){0};
}

static stg_status make_folder(const char *path, unsigned mode, stg_error *reterr) {
  struct stat info;
  if (mkdir(path, (mode_t)mode) == 0) {
    return STG_OK;
  }
  int errnum = errno;
  if (stat(path, &info) != 0) {
    return stg_error_io(reterr, errnum, "make folder", path);
  }
  if (!S_ISDIR(info.st_mode)) {
    return stg_error_io(reterr, ENOTDIR, "make folder", path);
  }
  return STG_OK;
}

stg_status stg_mkdir_all(const char *path, unsigned mode, stg_error *reterr) {
  if (path[0] == '\0') {
    return stg_error_io(reterr, ENOENT, "make folder", path);
  }
  char *part = stg_strdup(path);
  if (part == NULL) {
    return stg_error_memory(reterr, "a folder name", strlen(path) + 1);
  }
  stg_status status = STG_OK;
  for (char *c = part + 1; *c != '\0' && status == STG_OK; c++) {
    if (*c == '/') {
      *c = '\0';
      status = make_folder(part, mode, reterr);
      *c = '/';
    }
  }
  if (status == STG_OK) {
    status = make_folder(part, mode, reterr);
  }
  stg_free(part);
  return status;
}

char *stg_path_join(const char *folder, const char *name) {
  struct stg_strbuf path = {0};
  size_t len = strlen(folder);
  if (name[0] != '/' && len != 0) {
    stg_strbuf_mem(&path, folder, len);
    if (folder[len - 1] != '/') {
      stg_strbuf_char(&path, '/');
    }
  }
  stg_strbuf_str(&path, name);
  return stg_strbuf_take(&path);
}

char *stg_path_folder(const char *path) {
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/') { /* "a/b/" names b */
    len--;
  }
  while (len > 0 && path[len - 1] != '/') {
    len--;
  }
  while (len > 1 && path[len - 1] == '/') {
    len--;
  }
  struct stg_strbuf folder = {0};
  stg_strbuf_mem(&folder, len == 0 ? "." : path, len == 0 ? 1 : len);
  return stg_strbuf_take(&folder);
}

const char *stg_path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

const char *stg_path_suffix(const char *path) {
  const char *dot = strrchr(stg_path_name(path), '.');
  return dot != NULL ? dot : "";
}

bool stg_path_stays_inside(const char *name) {
  if (name[0] == '/') {
    return false;
  }
  while (*name != '\0') {
    size_t len = strcspn(name, "/");
    if (len == 2 && name[0] == '.' && name[1] == '.') {
      return false;
    }
    name += len + (name[len] == '/');
  }
  return true;
}
