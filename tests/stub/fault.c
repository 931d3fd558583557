/*
 * fault.c: put before libc by LD_PRELOAD: calls that reach the file system, one of which fails.
 *
 *   STG_FAULT=CALL:NTH[+]:ERRNO   the NTH call, and with `+` all after it; ERRNO as a number
 *   STG_FAULT_UNDER=PREFIX        only calls on paths that begin so, and on files opened there
 *   STG_FAULT_COUNT=FILE          at exit, "CALL COUNT" of each, a line each, of such calls
 *   STG_FAULT_NO_NVRTC=1          no library with nvrtc in its name can be opened
 * CALL is open, openat, write, fsync, rename, flock, unlink, mkdir or ftruncate. A write that fails
 * has written half, unless by EINTR. Everything else is libc's.
 */
#define _GNU_SOURCE      /* NOLINT(bugprone-reserved-identifier): RTLD_NEXT */
#undef _FILE_OFFSET_BITS /* which gives open the name of open64: here both are defined */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_FILES 1024

/* CALL(name) */
#define CALL_LIST(X)                                                                               \
  X(open) X(openat) X(write) X(fsync) X(rename) X(flock) X(unlink) X(mkdir) X(ftruncate)

enum call {
#define CALL_ENUM(name) CALL_##name,
  CALL_LIST(CALL_ENUM)
#undef CALL_ENUM
      CALL_COUNT
};

static const char *const call_names[] = {
#define CALL_NAME(name) #name,
    CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

static atomic_uint counts[CALL_COUNT];
static atomic_bool is_ours[MAX_FILES]; /* by descriptor: opened under the prefix */
static const char *prefix = "";
static enum call fail_call = CALL_COUNT;
static unsigned fail_nth;
static bool fail_later;
static int fail_errno;

__attribute__((constructor)) static void read_environment(void) {
  const char *text = getenv("STG_FAULT");
  const char *under = getenv("STG_FAULT_UNDER");
  prefix = under != NULL ? under : "";
  for (int i = 0; text != NULL && i < CALL_COUNT; i++) {
    const size_t size = strlen(call_names[i]);
    if (strncmp(text, call_names[i], size) == 0 && text[size] == ':') {
      char *rest = NULL;
      fail_call = (enum call)i;
      fail_nth = (unsigned)strtoul(text + size + 1, &rest, 10);
      fail_later = *rest == '+';
      fail_errno = (int)strtol(rest + (fail_later ? 2 : 1), NULL, 10);
    }
  }
}

__attribute__((destructor)) static void write_counts(void) {
  const char *path = getenv("STG_FAULT_COUNT");
  prefix = "/no folder is called this/";
  FILE *file = path != NULL ? fopen(path, "w") : NULL;
  for (int i = 0; file != NULL && i < CALL_COUNT; i++) {
    fprintf(file, "%s %u\n", call_names[i], atomic_load(&counts[i]));
  }
  if (file != NULL) {
    fclose(file);
  }
}

static bool is_under(const char *path) {
  return strncmp(path, prefix, strlen(prefix)) == 0;
}

static bool is_file_under(int fd) {
  return fd >= 0 && fd < MAX_FILES && atomic_load(&is_ours[fd]);
}

/* Count a call that concerns us; whether it fails. */
static bool fails(enum call call, bool concerns) {
  if (!concerns) {
    return false;
  }
  const unsigned nth = atomic_fetch_add(&counts[call], 1) + 1;
  const bool now = call == fail_call && (nth == fail_nth || (fail_later && nth > fail_nth));
  if (now) {
    errno = fail_errno;
  }
  return now;
}

/* libc's own, of any type: ISO C has no cast from an object pointer to a function. */
static void find_next(const char *name, void *ret_function) {
  void *address = dlsym(RTLD_NEXT, name);
  memcpy(ret_function, &address, sizeof address);
}

static int note(int fd, bool concerns) {
  if (fd >= 0 && fd < MAX_FILES) {
    atomic_store(&is_ours[fd], concerns);
  }
  return fd;
}

static int open_file(const char *path, int flags, mode_t mode) {
  int (*next)(const char *, int, ...) = NULL;
  find_next("open", &next);
  return fails(CALL_open, is_under(path)) ? -1 : note(next(path, flags, mode), is_under(path));
}

static mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_file(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_file(path, flags | O_LARGEFILE, mode);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  int (*next)(int, const char *, int, ...) = NULL;
  const bool concerns = path[0] == '/' ? is_under(path) : is_file_under(folder);
  find_next("openat", &next);
  return fails(CALL_openat, concerns) ? -1 : note(next(folder, path, flags, mode), concerns);
}

EXPORT int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at(folder, path, flags, mode);
}

EXPORT int openat64(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at(folder, path, flags | O_LARGEFILE, mode);
}

EXPORT int close(int fd) {
  int (*next)(int) = NULL;
  find_next("close", &next);
  note(fd, false);
  return next(fd);
}

EXPORT ssize_t write(int fd, const void *data, size_t size) {
  ssize_t (*next)(int, const void *, size_t) = NULL;
  find_next("write", &next);
  if (fails(CALL_write, is_file_under(fd))) {
    const int errnum = errno;
    (void)!next(fd, data, errnum != EINTR ? size / 2 : 0); /* half of it would be no failure */
    errno = errnum;
    return -1;
  }
  return next(fd, data, size);
}

EXPORT int fsync(int fd) {
  int (*next)(int) = NULL;
  find_next("fsync", &next);
  return fails(CALL_fsync, is_file_under(fd)) ? -1 : next(fd);
}

EXPORT int ftruncate(int fd, off_t size) {
  int (*next)(int, off_t) = NULL;
  find_next("ftruncate", &next);
  return fails(CALL_ftruncate, is_file_under(fd)) ? -1 : next(fd, size);
}

EXPORT int ftruncate64(int fd, off64_t size) {
  return ftruncate(fd, size);
}

EXPORT int flock(int fd, int operation) {
  int (*next)(int, int) = NULL;
  find_next("flock", &next);
  return fails(CALL_flock, is_file_under(fd)) ? -1 : next(fd, operation);
}

EXPORT int rename(const char *from, const char *to) {
  int (*next)(const char *, const char *) = NULL;
  find_next("rename", &next);
  return fails(CALL_rename, is_under(from) || is_under(to)) ? -1 : next(from, to);
}

EXPORT int unlink(const char *path) {
  int (*next)(const char *) = NULL;
  find_next("unlink", &next);
  return fails(CALL_unlink, is_under(path)) ? -1 : next(path);
}

EXPORT void *dlopen(const char *name, int mode) {
  void *(*next)(const char *, int) = NULL;
  const bool hidden =
      name != NULL && strstr(name, "nvrtc") != NULL && getenv("STG_FAULT_NO_NVRTC") != NULL;
  find_next("dlopen", &next);
  return next(hidden ? "/no/such/folder/libnvrtc.so" : name, mode);
}

EXPORT int mkdir(const char *path, mode_t mode) {
  int (*next)(const char *, mode_t) = NULL;
  find_next("mkdir", &next);
  return fails(CALL_mkdir, is_under(path)) ? -1 : next(path, mode);
}
