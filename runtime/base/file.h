/*
 * file.h: whole-file reads with a bound, atomic writes, folders. POSIX; knows no format.
 */
#ifndef STG_RUNTIME_BASE_FILE_H
#define STG_RUNTIME_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/**
 * Read a regular file whole. `*ret_data` (stg_free) has a NUL after its last byte. A file over
 * `max_bytes`, a folder, a FIFO or a device is refused by name and value before anything is read.
 * @return STG_E_NOT_FOUND when there is no such file; STG_E_IO when it cannot be read or is none;
 * STG_E_INVALID when it is too large.
 */
STG_NODISCARD stg_status stg_file_read(const char *path, uint64_t max_bytes, char **ret_data,
                                       size_t *ret_size, stg_error *reterr);
/** The same, and when the file was last written or touched, in seconds since 1970. */
STG_NODISCARD stg_status stg_file_read_stamped(const char *path, uint64_t max_bytes,
                                               char **ret_data, size_t *ret_size,
                                               int64_t *ret_mtime_unix, stg_error *reterr);

/* A file that is read in pieces. */
struct stg_file_pieces {
  const char *path; /* borrowed */
  int fd;
  uint64_t size; /* as it was opened */
};
/** Open a regular file; fails as stg_file_read does. */
STG_NODISCARD stg_status stg_file_open(const char *path, struct stg_file_pieces *ret_file,
                                       stg_error *reterr);
void stg_file_close(const struct stg_file_pieces *file);
/** Fill `size` bytes from `offset` on. STG_E_CORRUPT when the file ends before. */
STG_NODISCARD stg_status stg_file_read_at(const struct stg_file_pieces *file, uint64_t offset,
                                          void *ret_data, size_t size, stg_error *reterr);

/* A read-only view of a file (mmap), so that a large tensor file costs only what is touched. An
 * empty file is {NULL, 0}. The file must not be cut short while it is mapped. */
struct stg_file_map {
  const unsigned char *data;
  size_t size;
};
STG_NODISCARD stg_status stg_file_map(const char *path, struct stg_file_map *ret_map,
                                      stg_error *reterr);
void stg_file_unmap(struct stg_file_map *map);

/**
 * Write parts, one behind the other, to a temporary file in `path`'s own folder, fsync, rename over
 * `path`. On failure `path` is as it was and the temporary file is gone. Refuses a path that is a
 * device, a FIFO, a folder, or a link to an open file such as /dev/stdout; any other symbolic link
 * is itself replaced. `mode` is subject to the umask.
 */
struct stg_file_part {
  const void *data;
  size_t size;
};
STG_NODISCARD stg_status stg_file_write_parts(const char *path, const struct stg_file_part *parts,
                                              size_t n_parts, unsigned mode, stg_error *reterr);
/** The same of one part. */
STG_NODISCARD stg_status stg_file_write_atomic(const char *path, const void *data, size_t size,
                                               unsigned mode, stg_error *reterr);

/* A file of a set, whole. */
struct stg_file_whole {
  const char *path;
  const void *data;
  size_t size;
};
/**
 * Write files of different paths, all or none: each in full to a temporary file, as above, before
 * the first of them replaces its own; where one cannot, those before it come back. A process that
 * dies between two of these renames leaves the first files new and the others old, and temporary
 * files; a file system without hard links cannot give a file back that was replaced.
 */
STG_NODISCARD stg_status stg_file_write_set(const struct stg_file_whole *files, size_t n,
                                            unsigned mode, stg_error *reterr);

/** "a folder", "a FIFO", "a socket" or "a device", of an st_mode that is no regular file's. */
const char *stg_file_kind_name(unsigned mode);

/** Make a folder and its missing parents; one that exists is success. */
STG_NODISCARD stg_status stg_mkdir_all(const char *path, unsigned mode, stg_error *reterr);

/** "a" + "b/c" -> "a/b/c" (stg_free; NULL when out of memory). An absolute `name` is returned
 * alone. */
char *stg_path_join(const char *folder, const char *name);
/** The folder part of a path ("." when there is none); stg_free. */
char *stg_path_folder(const char *path);
/** What stands behind its last slash, all of it when there is none; borrowed from `path`. */
const char *stg_path_name(const char *path);
/** What its name has from the last dot on, "" where there is none; borrowed from `path`. */
const char *stg_path_suffix(const char *path);
/** True when a relative `name` has no ".." component and is not absolute. */
bool stg_path_stays_inside(const char *name);

#endif
