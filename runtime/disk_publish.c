/*
 * disk_publish.c: put a file into a layer all or nothing, and take a bad one out.
 *
 * Written in the layer's own tmp/, flushed, renamed. The folder may vanish between any two steps
 * (another process clears the cache): such a step says ENOENT, and all of it is tried again. Must
 * not know what is in an entry.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "runtime/disk_layer.h"

#define ATTEMPTS 8

static const char cachedir_tag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by steergraph.\n"
    "# For information about cache directory tags, see https://bford.info/cachedir/\n";

/* The paths of one store. */
struct target {
  char *tag;       /* CACHEDIR.TAG */
  char *tmp;       /* v1/tmp */
  char *folder;    /* v1/ab, v1/graphs, or v1 */
  char *temporary; /* v1/tmp/NAME.PID.TIME.tmp */
  char *file;      /* v1/ab/NAME */
  bool unflushed;  /* what a crash loses of it is made again */
};

static void target_finish(struct target *t) {
  stg_free(t->tag);
  stg_free(t->tmp);
  stg_free(t->folder);
  stg_free(t->temporary);
  stg_free(t->file);
}

/* The address tells threads apart, the time tells containers apart, whose process ids repeat. */
static char *temporary_path(const char *folder, const char *name) {
  struct timespec now = {0};
  struct stg_strbuf path = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  stg_strbuf_printf(&path, "%s/%s.%ld.%lld.%ld.%p.tmp", folder, name, (long)getpid(),
                    (long long)now.tv_sec, now.tv_nsec, (void *)&path);
  return stg_strbuf_take(&path);
}

/* v1/FOLDER/NAME of a layer, or v1/NAME where the folder is "". */
static bool target_init(struct target *t, const struct stg_disk_layer *layer, const char *folder,
                        const char *name) {
  char *top = stg_path_join(layer->root, "v1");
  *t = (struct target){0};
  if (top != NULL) {
    t->tag = stg_path_join(layer->root, "CACHEDIR.TAG");
    t->tmp = stg_path_join(top, "tmp");
    t->folder = folder[0] != '\0' ? stg_path_join(top, folder) : stg_strdup(top);
    t->temporary = t->tmp == NULL ? NULL : temporary_path(t->tmp, name);
    t->file = t->folder == NULL ? NULL : stg_path_join(t->folder, name);
  }
  stg_free(top);
  return t->tag != NULL && t->temporary != NULL && t->file != NULL;
}

/* The place of an entry. */
static bool target_init_entry(struct target *t, const struct stg_disk_layer *layer,
                              struct stg_key key, const char *compiler) {
  char *name = stg_disk_file_name(key, compiler);
  *t = (struct target){0};
  if (name == NULL) {
    return false;
  }
  const char shard[STG_DISK_SHARD_CHARS + 1] = {name[0], name[1], '\0'};
  const bool ready = target_init(t, layer, shard, name);
  stg_free(name);
  return ready;
}

static int write_file(const struct stg_disk_io *io, const char *path, const void *data, size_t size,
                      bool unflushed) {
  int fd = -1;
  int errnum = io->create(io->user, path, &fd);
  if (errnum != 0) {
    return errnum;
  }
  errnum = io->write(io->user, fd, data, size);
  int closed = unflushed ? io->close(io->user, fd) : io->sync_and_close(io->user, fd);
  errnum = errnum != 0 ? errnum : closed;
  if (errnum != 0) {
    (void)io->remove(io->user, path);
  }
  return errnum;
}

/* A step that failed: what it was doing to which path, and why. */
struct failure {
  int errnum;
  const char *verb;
  const char *path;
};

/* A link in its place leads out of the cache, where nobody would look for what was written, nor
 * remove it: ELOOP. */
static int make_folder(const struct stg_disk_io *io, const char *path) {
  struct stat info;
  const int errnum = io->make_folder(io->user, path);
  return errnum == 0 && lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? ELOOP : errnum;
}

static struct failure make_folders(const struct target *t, const struct stg_disk_io *io) {
  struct failure failure = {make_folder(io, t->tmp), "make folder", t->tmp};
  if (failure.errnum == 0) {
    failure.errnum = make_folder(io, t->folder);
    failure.path = t->folder;
  }
  return failure;
}

/* So that a reader never sees half of it. A signal that ends the process waits, or the temporary
 * file would stay. */
static struct failure write_beside(const struct target *t, const struct stg_disk_io *io,
                                   const void *data, size_t size) {
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  struct failure failure = {write_file(io, t->temporary, data, size, t->unflushed), "write",
                            t->temporary};
  if (failure.errnum == 0) {
    failure.errnum = io->rename(io->user, t->temporary, t->file);
    failure.path = t->file;
    if (failure.errnum != 0) {
      (void)io->remove(io->user, t->temporary);
    }
  }
  stg_interrupt_release(&hold);
  return failure;
}

static struct failure write_and_rename(const struct target *t, const struct stg_disk_io *io,
                                       const void *data, size_t size) {
  if (access(t->tag, F_OK) != 0) {
    struct stg_interrupt_hold hold; /* one that was cut short would never be written again */
    stg_interrupt_hold(&hold);
    (void)write_file(io, t->tag, cachedir_tag, sizeof cachedir_tag - 1, false); /* nice to have */
    stg_interrupt_release(&hold);
  }
  return write_beside(t, io, data, size);
}

static stg_status say(const struct failure *failure, stg_error *reterr) {
  struct stat there;
  if (failure->errnum == ELOOP) {
    return stg_error_set(
        reterr, STG_E_IO,
        "cannot %s '%s': a symbolic link is not followed; put a folder in its place", failure->verb,
        failure->path);
  }
  if (stat(failure->path, &there) == 0 && S_ISDIR(there.st_mode) &&
      (failure->errnum == EISDIR || failure->errnum == ENOTEMPTY || failure->errnum == EEXIST)) {
    return stg_error_set(reterr, STG_E_IO,
                         "cannot write '%s': a folder has the name of this cache entry; remove it",
                         failure->path);
  }
  return stg_error_io(reterr, failure->errnum, failure->verb, failure->path);
}

/* A folder that is refused is refused before anything is made in it. */
static stg_status put(const struct target *target, const struct stg_disk_layer *layer,
                      const struct stg_disk_io *io, const void *data, size_t size,
                      stg_error *reterr) {
  struct failure failure = {.errnum = ENOENT};
  stg_status status = stg_disk_layer_check(layer, reterr);
  if (status != STG_OK && status != STG_E_NOT_FOUND) {
    return status;
  }
  for (int i = 0; i < ATTEMPTS && failure.errnum == ENOENT; i++) {
    failure = make_folders(target, io);
    if (failure.errnum != 0) {
      continue;
    }
    /* only now: what was not there before may be somebody else's by now */
    status = stg_disk_layer_check(layer, reterr);
    if (status != STG_OK && status != STG_E_NOT_FOUND) {
      return status;
    }
    failure = write_and_rename(target, io, data, size);
  }
  return failure.errnum == 0 ? STG_OK : say(&failure, reterr);
}

stg_status stg_disk_layer_publish(const struct stg_disk_layer *layer, const struct stg_disk_io *io,
                                  struct stg_key key, const char *compiler, const void *data,
                                  size_t size, stg_error *reterr) {
  struct target target;
  stg_status status = target_init_entry(&target, layer, key, compiler)
                          ? put(&target, layer, io, data, size, reterr)
                          : stg_error_memory(reterr, "cache paths", strlen(layer->root));
  target_finish(&target);
  return status;
}

stg_status stg_disk_layer_publish_recipe(const struct stg_disk_layer *layer,
                                         const struct stg_disk_io *io, const char *name,
                                         const void *data, size_t size, stg_error *reterr) {
  struct target target;
  const bool ready = target_init(&target, layer, STG_DISK_GRAPHS, name);
  target.unflushed = true;
  stg_status status = ready ? put(&target, layer, io, data, size, reterr)
                            : stg_error_memory(reterr, "cache paths", strlen(layer->root));
  target_finish(&target);
  return status;
}

stg_status stg_disk_layer_replace(const struct stg_disk_layer *layer, const struct stg_disk_io *io,
                                  const char *name, const void *data, size_t size,
                                  stg_error *reterr) {
  struct target target;
  stg_status status = STG_OK;
  if (target_init(&target, layer, "", name)) {
    target.unflushed = true;
    struct failure failure = {make_folder(io, target.tmp), "make folder", target.tmp};
    if (failure.errnum == 0) {
      failure = write_beside(&target, io, data, size);
    }
    status = failure.errnum == 0 ? STG_OK : say(&failure, reterr);
  } else {
    status = stg_error_memory(reterr, "cache paths", strlen(layer->root));
  }
  target_finish(&target);
  return status;
}

/* The same steps under a name that is no entry's, so that nobody takes the file for one. */
stg_status stg_disk_layer_probe(const struct stg_disk_layer *layer, const struct stg_disk_io *io,
                                struct stg_key key, stg_error *reterr) {
  struct target target;
  bool ready = target_init_entry(&target, layer, key, "probe");
  if (ready) {
    stg_free(target.file);
    target.file = stg_path_join(target.folder, stg_path_name(target.temporary));
    ready = target.file != NULL;
  }
  stg_status status = ready ? put(&target, layer, io, "", 0, reterr)
                            : stg_error_memory(reterr, "cache paths", strlen(layer->root));
  if (status == STG_OK) {
    (void)io->remove(io->user, target.file);
  }
  target_finish(&target);
  return status;
}

stg_status stg_disk_layer_quarantine(const struct stg_disk_layer *layer,
                                     const struct stg_disk_io *io, const char *path,
                                     stg_error *reterr) {
  char *folder = stg_path_join(layer->root, "v1/quarantine");
  char *to = folder == NULL ? NULL : stg_path_join(folder, stg_path_name(path));
  stg_status status = STG_OK;
  if (to == NULL) {
    status = stg_error_memory(reterr, "cache paths", strlen(layer->root));
    goto out;
  }
  int errnum = make_folder(io, folder);
  if (errnum == ELOOP) {
    const struct failure failure = {errnum, "make folder", folder};
    status = say(&failure, reterr);
    goto out;
  }
  if (errnum == 0) {
    errnum = io->rename(io->user, path, to);
  }
  if (errnum == 0) {
    (void)io->touch(io->user, to); /* it is kept for as long as it is bad, not as it was unused */
  }
  if (errnum != 0 && errnum != ENOENT) {
    status = stg_error_io(reterr, errnum, "move to quarantine", path);
  }
out:
  stg_free(to);
  stg_free(folder);
  return status;
}
