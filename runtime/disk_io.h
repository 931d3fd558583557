/*
 * disk_io.h: the steps by which a cache entry gets to disk, is kept and goes, each of which can
 * fail.
 *
 * A table of functions, so that tests can make any step fail the way a full disk, a read-only root
 * or another process does. Every function returns 0 or an errno value.
 */
#ifndef STG_RUNTIME_DISK_IO_H
#define STG_RUNTIME_DISK_IO_H

#include <stddef.h>

struct stg_disk_io {
  void *user;
  /* Make a folder and its missing parents, mode 0700; one that exists is success. */
  int (*make_folder)(void *user, const char *path);
  /* Create a file that must not exist, mode 0600, for writing. */
  int (*create)(void *user, const char *path, int *ret_fd);
  int (*write)(void *user, int fd, const void *data, size_t size);
  /* Flush to the device, then close; closed also on failure. */
  int (*sync_and_close)(void *user, int fd);
  /* Close alone, of what may be lost in a crash. */
  int (*close)(void *user, int fd);
  int (*rename)(void *user, const char *from, const char *to);
  int (*remove)(void *user, const char *path);
  /* Set the stamp of a file, its mtime, to now. */
  int (*touch)(void *user, const char *path);
  /* Open a lock's file, making it, mode 0600. */
  int (*open_lock)(void *user, const char *path, int *ret_fd);
  /* Lock it for this open file alone; EWOULDBLOCK when another has it. */
  int (*try_lock)(void *user, int fd);
};

/** The real thing. */
struct stg_disk_io stg_disk_io_default(void);

#endif
