/*
 * faulty_disk.h: a disk cache whose steps on the disk are the real ones, but one kind of them
 * fails, or one of all kills the process.
 */
#ifndef STG_TESTS_FAULT_FAULTY_DISK_H
#define STG_TESTS_FAULT_FAULTY_DISK_H

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/disk_fixture.h"

enum step {
  NO_STEP,
  MAKE_FOLDER,
  CREATE,
  WRITE,
  SYNC,
  RENAME,
  LAST_STEP = RENAME, /* of storing */
  CLOSE,              /* of what is not flushed */
  OPEN_LOCK,
  TRY_LOCK
};

static const char *const step_names[] = {"", "make_folder", "create", "write", "sync", "rename"};

#define EVERY_TIME UINT_MAX

struct faulty {
  struct stg_disk_io real;
  enum step step; /* that says `errnum` the next `times` times */
  int errnum;
  unsigned times;
  bool vanish;      /* what is renamed into place is gone at once */
  unsigned kill_at; /* number of the step, CLOSE and locks not counted, in which the process dies;
                       0: never */
  unsigned calls;
};

static inline int faulty_says(struct faulty *faulty, enum step step) {
  if (faulty->step != step || faulty->times == 0) {
    return 0;
  }
  faulty->times--;
  return faulty->errnum;
}

static inline bool faulty_dies(struct faulty *faulty) {
  return ++faulty->calls == faulty->kill_at;
}

static inline int faulty_step(struct faulty *faulty, enum step step) {
  if (faulty_dies(faulty)) {
    raise(SIGKILL);
  }
  return faulty_says(faulty, step);
}

static inline int faulty_make_folder(void *user, const char *path) {
  struct faulty *faulty = user;
  int errnum = faulty_step(faulty, MAKE_FOLDER);
  return errnum != 0 ? errnum : faulty->real.make_folder(NULL, path);
}

static inline int faulty_create(void *user, const char *path, int *ret_fd) {
  struct faulty *faulty = user;
  int errnum = faulty_step(faulty, CREATE);
  return errnum != 0 ? errnum : faulty->real.create(NULL, path, ret_fd);
}

/* A disk gets full in the middle of a write, and a process dies there. */
static inline int faulty_write_half(void *user, int fd, const void *data, size_t size) {
  struct faulty *faulty = user;
  const bool last = faulty_dies(faulty);
  int errnum = faulty_says(faulty, WRITE);
  int written = faulty->real.write(NULL, fd, data, last || errnum != 0 ? size / 2 : size);
  if (last) {
    raise(SIGKILL);
  }
  return errnum != 0 ? errnum : written;
}

static inline int faulty_sync_and_close(void *user, int fd) {
  struct faulty *faulty = user;
  int errnum = faulty_step(faulty, SYNC);
  int closed = faulty->real.sync_and_close(NULL, fd);
  return errnum != 0 ? errnum : closed;
}

static inline int faulty_close(void *user, int fd) {
  struct faulty *faulty = user;
  int errnum = faulty_says(faulty, CLOSE);
  int closed = faulty->real.close(NULL, fd);
  return errnum != 0 ? errnum : closed;
}

static inline int faulty_rename(void *user, const char *from, const char *to) {
  struct faulty *faulty = user;
  int errnum = faulty_step(faulty, RENAME);
  if (errnum != 0) {
    return errnum;
  }
  errnum = faulty->real.rename(NULL, from, to);
  if (faulty->vanish) {
    assert_int_equal(unlink(to), 0);
  }
  return errnum;
}

static inline int faulty_open_lock(void *user, const char *path, int *ret_fd) {
  struct faulty *faulty = user;
  int errnum = faulty_says(faulty, OPEN_LOCK);
  return errnum != 0 ? errnum : faulty->real.open_lock(NULL, path, ret_fd);
}

static inline int faulty_try_lock(void *user, int fd) {
  struct faulty *faulty = user;
  int errnum = faulty_says(faulty, TRY_LOCK);
  return errnum != 0 ? errnum : faulty->real.try_lock(NULL, fd);
}

/* `faulty` outlives the cache. `lines` NULL: its log is not looked at. */
static inline struct stg_disk_cache *open_faulty(const char *path_list, struct faulty *faulty,
                                                 struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = path_list};
  struct stg_disk_io io = stg_disk_io_default();
  struct stg_disk_cache *cache = NULL;
  if (lines != NULL) {
    options.log = log_lines_to(lines, STG_LOG_DEBUG);
  }
  faulty->real = io;
  io.user = faulty;
  io.make_folder = faulty_make_folder;
  io.create = faulty_create;
  io.write = faulty_write_half;
  io.sync_and_close = faulty_sync_and_close;
  io.close = faulty_close;
  io.rename = faulty_rename;
  io.open_lock = faulty_open_lock;
  io.try_lock = faulty_try_lock;
  assert_int_equal(stg_disk_cache_open_with(&options, &io, &cache, NULL), STG_OK);
  return cache;
}

#endif
