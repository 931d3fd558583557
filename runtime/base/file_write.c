/*
 * file_write.c: writes that replace a file at once, or several of them together.
 *
 * What is written goes to a temporary file in the folder of the one it will replace. Knows no
 * format.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

#define TEMPORARY_NAMES 1000 /* tried before giving up */

/* Links such as /dev/stdout lead through /proc to a file that some process has open. */
static bool leads_to_open_file(const char *path) {
  static const char proc[] = "/proc/";
  char target[sizeof proc - 1];
  return readlink(path, target, sizeof target) == (ssize_t)sizeof target &&
         memcmp(target, proc, sizeof target) == 0;
}

/* A rename would replace what is no file: root can lose /dev/null that way, or /dev/stdout. */
static stg_status check_replaceable(const char *path, stg_error *reterr) {
  struct stat info;
  const char *kind = NULL;
  if (leads_to_open_file(path)) {
    kind = "a link to an open file";
  } else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    kind = stg_file_kind_name(info.st_mode);
  }
  return kind == NULL ? STG_OK
                      : stg_error_set(reterr, STG_E_IO, "cannot write '%s': it is %s, not a file",
                                      path, kind);
}

/* Create a file of a new name in `folder`. Names of other threads and of dead processes are passed
 * over; the length does not depend on the final name, which may be as long as names get. */
static stg_status create_temporary(const char *folder, unsigned mode, char **ret_path, int *ret_fd,
                                   stg_error *reterr) {
  for (unsigned i = 0; i < TEMPORARY_NAMES; i++) {
    char name[64];
    snprintf(name, sizeof name, ".stg-%ld-%u.tmp", (long)getpid(), i);
    char *path = stg_path_join(folder, name);
    if (path == NULL) {
      return stg_error_memory(reterr, "a temporary file name", strlen(folder) + sizeof name);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (fd >= 0) {
      *ret_path = path;
      *ret_fd = fd;
      return STG_OK;
    }
    int errnum = errno;
    stg_free(path);
    if (errnum != EEXIST) {
      return stg_error_io(reterr, errnum, "create a file in", folder);
    }
  }
  return stg_error_set(reterr, STG_E_IO,
                       "cannot create a file in '%s': %d temporary names are taken, remove .stg-*",
                       folder, TEMPORARY_NAMES);
}

static stg_status write_all(int fd, const char *path, const char *data, size_t size,
                            stg_error *reterr) {
  size_t done = 0;
  while (done < size) {
    ssize_t put = write(fd, data + done, size - done);
    if (put < 0 && errno != EINTR) {
      return stg_error_io(reterr, errno, "write", path);
    }
    done += put > 0 ? (size_t)put : 0;
  }
  return STG_OK;
}

static stg_status write_parts(int fd, const char *path, const struct stg_file_part *parts,
                              size_t n_parts, stg_error *reterr) {
  for (size_t i = 0; i < n_parts; i++) {
    stg_status status = write_all(fd, path, parts[i].data, parts[i].size, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  return fsync(fd) == 0 ? STG_OK : stg_error_io(reterr, errno, "write", path);
}

/* Make the rename durable. Not every file system can, and the file is there in any case. */
static void sync_folder(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
}

stg_status stg_file_write_atomic(const char *path, const void *data, size_t size, unsigned mode,
                                 stg_error *reterr) {
  const struct stg_file_part whole = {data, size};
  return stg_file_write_parts(path, &whole, 1, mode, reterr);
}

/* A file that is written in full beside the one it will replace. {0} is none. */
struct written {
  char *folder, *temporary; /* owns both */
};

static void written_finish(struct written *written) {
  if (written->temporary != NULL) {
    unlink(written->temporary); /* not there once it was renamed */
  }
  stg_free(written->temporary);
  stg_free(written->folder);
  *written = (struct written){0};
}

/* On failure nothing is left. */
static stg_status written_init(const char *path, const struct stg_file_part *parts, size_t n_parts,
                               unsigned mode, struct written *ret_written, stg_error *reterr) {
  int fd = -1;
  struct written written = {0};
  stg_status status = check_replaceable(path, reterr);
  if (status != STG_OK) {
    return status;
  }
  written.folder = stg_path_folder(path);
  if (written.folder == NULL) {
    return stg_error_memory(reterr, "a folder name", strlen(path) + 1);
  }
  status = create_temporary(written.folder, mode, &written.temporary, &fd, reterr);
  if (status == STG_OK) {
    status = write_parts(fd, path, parts, n_parts, reterr);
    if (close(fd) != 0 && status == STG_OK) {
      status = stg_error_io(reterr, errno, "write", path);
    }
  }
  if (status != STG_OK) {
    written_finish(&written);
    return status;
  }
  *ret_written = written;
  return STG_OK;
}

stg_status stg_file_write_parts(const char *path, const struct stg_file_part *parts, size_t n_parts,
                                unsigned mode, stg_error *reterr) {
  struct written written = {0};
  stg_status status = written_init(path, parts, n_parts, mode, &written, reterr);
  if (status == STG_OK && rename(written.temporary, path) != 0) {
    status = stg_error_io(reterr, errno, "write", path);
  } else if (status == STG_OK) {
    sync_folder(written.folder);
  }
  written_finish(&written);
  return status;
}

/* A file of a set: what will replace the one that is there, and a second name of that one. */
struct exchange {
  struct written written;
  char *old;    /* NULL: there is none, or it cannot have two names */
  bool was_new; /* there was no file */
  bool is_done;
};

/* So that a file that was replaced can come back. Its name is that of the temporary file, which is
 * ours alone: one that is taken is a dead process's. */
static stg_status keep_old(const char *path, struct exchange *exchange, stg_error *reterr) {
  struct stat info;
  const size_t size = strlen(exchange->written.temporary) + sizeof ".old";
  exchange->was_new = lstat(path, &info) != 0;
  if (exchange->was_new) {
    return STG_OK;
  }
  char *old = stg_malloc(size);
  if (old == NULL) {
    return stg_error_memory(reterr, "a temporary file name", size);
  }
  snprintf(old, size, "%s.old", exchange->written.temporary);
  unlink(old);
  if (linkat(AT_FDCWD, path, AT_FDCWD, old, 0) != 0) {
    stg_free(old);
    old = NULL;
  }
  exchange->old = old;
  return STG_OK;
}

static void take_back(const char *path, const struct exchange *exchange) {
  if (exchange->old != NULL) {
    (void)rename(exchange->old, path);
  } else if (exchange->was_new) {
    unlink(path);
  }
}

static stg_status exchange_all(const struct stg_file_whole *files, size_t n,
                               struct exchange *exchanges, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    status = keep_old(files[i].path, &exchanges[i], reterr);
  }
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    exchanges[i].is_done = rename(exchanges[i].written.temporary, files[i].path) == 0;
    if (!exchanges[i].is_done) {
      status = stg_error_io(reterr, errno, "write", files[i].path);
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (status != STG_OK && exchanges[i].is_done) {
      take_back(files[i].path, &exchanges[i]);
    } else if (status == STG_OK) {
      sync_folder(exchanges[i].written.folder);
    }
  }
  return status;
}

stg_status stg_file_write_set(const struct stg_file_whole *files, size_t n, unsigned mode,
                              stg_error *reterr) {
  stg_status status = STG_OK;
  struct exchange *exchanges = stg_calloc(n, sizeof *exchanges);
  if (exchanges == NULL) {
    return stg_error_memory(reterr, "names of files", n * sizeof *exchanges);
  }
  for (size_t i = 0; i < n && status == STG_OK; i++) {
    const struct stg_file_part whole = {files[i].data, files[i].size};
    status = written_init(files[i].path, &whole, 1, mode, &exchanges[i].written, reterr);
  }
  if (status == STG_OK) {
    status = exchange_all(files, n, exchanges, reterr);
  }
  for (size_t i = 0; i < n; i++) {
    if (exchanges[i].old != NULL) {
      unlink(exchanges[i].old);
    }
    stg_free(exchanges[i].old);
    written_finish(&exchanges[i].written);
  }
  stg_free(exchanges);
  return status;
}
