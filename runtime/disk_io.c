/*
 * disk_io.c: the real steps of writing a cache entry, POSIX. Must not know what an entry is.
 */
#include "runtime/disk_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"

#define FOLDER_MODE 0700
#define FILE_MODE 0600

static int make_one(const char *path) {
  return mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST ? 0 : errno;
}

/* Parents are made only when they are missing: on a read-only root, mkdir of an existing folder may
 * say EROFS. */
static int make_folder(void *user, const char *path) {
  (void)user;
  int errnum = make_one(path);
  if (errnum != ENOENT) {
    return errnum;
  }
  char *part = stg_strdup(path);
  if (part == NULL) {
    return ENOMEM;
  }
  errnum = 0;
  for (char *c = part + 1; *c != '\0' && errnum == 0; c++) {
    if (*c == '/') {
      *c = '\0';
      errnum = access(part, F_OK) == 0 ? 0 : make_one(part);
      *c = '/';
    }
  }
  if (errnum == 0) {
    errnum = make_one(path);
  }
  stg_free(part);
  return errnum;
}

static int create(void *user, const char *path, int *ret_fd) {
  (void)user;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)FILE_MODE);
  if (fd < 0) {
    return errno;
  }
  *ret_fd = fd;
  return 0;
}

static int write_all(void *user, int fd, const void *data, size_t size) {
  (void)user;
  const char *bytes = data;
  while (size > 0) {
    ssize_t put = write(fd, bytes, size);
    if (put < 0 && errno != EINTR) {
      return errno;
    }
    size_t done = put > 0 ? (size_t)put : 0;
    bytes += done;
    size -= done;
  }
  return 0;
}

static int sync_and_close(void *user, int fd) {
  (void)user;
  int errnum = fsync(fd) == 0 ? 0 : errno;
  if (close(fd) != 0 && errnum == 0) {
    errnum = errno;
  }
  return errnum;
}

static int close_alone(void *user, int fd) {
  (void)user;
  return close(fd) == 0 ? 0 : errno;
}

static int rename_file(void *user, const char *from, const char *to) {
  (void)user;
  return rename(from, to) == 0 ? 0 : errno;
}

static int remove_file(void *user, const char *path) {
  (void)user;
  return unlink(path) == 0 ? 0 : errno;
}

static int touch_file(void *user, const char *path) {
  (void)user;
  return utimensat(AT_FDCWD, path, NULL, 0) == 0 ? 0 : errno;
}

/* For writing, as NFS wants it for a lock that excludes; never waits, whatever is in its place. */
static int open_lock(void *user, const char *path, int *ret_fd) {
  (void)user;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
                (mode_t)FILE_MODE);
  if (fd < 0) {
    return errno;
  }
  *ret_fd = fd;
  return 0;
}

static int try_lock(void *user, int fd) {
  (void)user;
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

struct stg_disk_io stg_disk_io_default(void) {
  return (struct stg_disk_io){.make_folder = make_folder,
                              .create = create,
                              .write = write_all,
                              .sync_and_close = sync_and_close,
                              .close = close_alone,
                              .rename = rename_file,
                              .remove = remove_file,
                              .touch = touch_file,
                              .open_lock = open_lock,
                              .try_lock = try_lock};
}
