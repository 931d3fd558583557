/*
 * disk_layer.h: one layer of a cache: a folder with its names, its owner, its files; or a pack.
 *
 *   CACHEDIR.TAG  v1/ab/<32 hex>-<compiler>.sgc  v1/tmp/  v1/lock/ab  v1/quarantine/  v1/stats
 *   v1/graphs/<32 hex of the graph>-<32 hex of its kernel>.sgr
 *
 * Private to the disk cache and to the bench that takes its lookups apart; knows no layering and no
 * counters.
 */
#ifndef STG_RUNTIME_DISK_LAYER_H
#define STG_RUNTIME_DISK_LAYER_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/key.h"
#include "runtime/disk_io.h"

#define STG_DISK_SUFFIX ".sgc"
#define STG_DISK_GRAPHS "graphs" /* the folder of recipes */
#define STG_DISK_RECIPE_SUFFIX ".sgr"
#define STG_DISK_SHARD_CHARS 2 /* hex digits of the key in a folder's or a lock's name */

struct stg_pack;

struct stg_disk_layer {
  char *root; /* absolute, no slash at the end */
  bool writable;
  bool trust;
  struct stg_pack *pack; /* NULL: a folder. Nothing but list and holds is for a pack */
};

/* A file found in a layer; text in the arena it was listed into, or the pack's. */
struct stg_disk_file {
  const char *path;
  const char *compiler; /* as its name says; of a recipe NULL */
  const struct stg_disk_layer *layer;
  uint64_t size_bytes; /* in a pack; a file's is asked for when it is visited */
  /* Not NULL: no file, but what is left out, and why. Either a folder of which nothing is listed,
   * or a symbolic link under the name of a file. */
  const char *problem;
  bool is_folder;
};

/* A growing list of files. {0} is a valid empty list; finish frees it. */
struct stg_disk_files {
  struct stg_disk_file *items;
  size_t count;
  size_t capacity;
};
void stg_disk_files_finish(struct stg_disk_files *files);
/** Append; false when out of memory. */
bool stg_disk_files_push(struct stg_disk_files *files, struct stg_disk_file file);
/** Append what is left out, its text copied; false when out of memory. */
bool stg_disk_files_leave_out(struct stg_disk_files *files, struct stg_arena *arena,
                              const struct stg_disk_file *file);

/**
 * Whether the folder is there and may be used: STG_E_NOT_FOUND when it (or its v1/) does not exist,
 * STG_E_IO when nobody can tell, STG_E_INVALID when it is no folder, or another user owns it or
 * could write it (unless trusted).
 */
STG_NODISCARD stg_status stg_disk_layer_check(const struct stg_disk_layer *layer,
                                              stg_error *reterr);
/**
 * Open a folder of v1/ to list it; NULL without an error when it is not there. A symbolic link in
 * its place is never followed: what it leads to is not the cache's to list or to remove. STG_E_IO
 * when it is one, is no folder or cannot be listed; the message says what to do.
 */
STG_NODISCARD stg_status stg_disk_open_folder(const char *path, DIR **ret_folder,
                                              stg_error *reterr);
/**
 * Append the files of one key, or of every key when `key` is NULL, in no order. Of every key: also
 * what is left out, a folder that cannot be listed or a symbolic link, which no entry is. Of one
 * key such a folder is a failure, and such a link is nothing.
 */
STG_NODISCARD stg_status stg_disk_layer_list(const struct stg_disk_layer *layer,
                                             const struct stg_key *key, struct stg_arena *arena,
                                             struct stg_disk_files *files, stg_error *reterr);
/** Append the recipes of a folder, in no order, and what is left out; a pack has none. */
STG_NODISCARD stg_status stg_disk_layer_list_recipes(const struct stg_disk_layer *layer,
                                                     struct stg_arena *arena,
                                                     struct stg_disk_files *files,
                                                     stg_error *reterr);
/**
 * Write `data` under the name of `key` and `compiler`, all or nothing, making the folders that are
 * missing. STG_E_IO, or what stg_disk_layer_check says of the folder.
 */
STG_NODISCARD stg_status stg_disk_layer_publish(const struct stg_disk_layer *layer,
                                                const struct stg_disk_io *io, struct stg_key key,
                                                const char *compiler, const void *data, size_t size,
                                                stg_error *reterr);
/**
 * Write the recipe of a graph under its name, likewise; it is not flushed to the device, so that
 * after a crash it may be torn. As publish.
 */
STG_NODISCARD stg_status stg_disk_layer_publish_recipe(const struct stg_disk_layer *layer,
                                                       const struct stg_disk_io *io,
                                                       const char *name, const void *data,
                                                       size_t size, stg_error *reterr);
/**
 * Write the file v1/`name` of a folder that is there, all or nothing, in place of what has that
 * name; it is not flushed to the device either. STG_E_IO.
 */
STG_NODISCARD stg_status stg_disk_layer_replace(const struct stg_disk_layer *layer,
                                                const struct stg_disk_io *io, const char *name,
                                                const void *data, size_t size, stg_error *reterr);
/** Make the folders that publish needs, and a file in them that is gone again. As publish. */
STG_NODISCARD stg_status stg_disk_layer_probe(const struct stg_disk_layer *layer,
                                              const struct stg_disk_io *io, struct stg_key key,
                                              stg_error *reterr);
/** Move a file of this layer to its quarantine folder; one that is gone is success. STG_E_IO. */
STG_NODISCARD stg_status stg_disk_layer_quarantine(const struct stg_disk_layer *layer,
                                                   const struct stg_disk_io *io, const char *path,
                                                   stg_error *reterr);
/** True when no folder of entries is there; not for a pack, which has some. Reads one folder. */
bool stg_disk_layer_is_empty(const struct stg_disk_layer *layer);
/** True when `path` lies under the layer's root. */
bool stg_disk_layer_holds(const struct stg_disk_layer *layer, const char *path);

/** The file name of an entry, "<32 hex>-<compiler>.sgc"; stg_free, NULL when out of memory. */
char *stg_disk_file_name(struct stg_key key, const char *compiler);
/** Whether a file has such a name, whatever is in it. */
bool stg_disk_is_entry_name(const char *name);
/** The file name of a recipe, of the keys of its graph and of that one's first kernel; stg_free,
 * NULL when out of memory. */
char *stg_disk_recipe_name(struct stg_key graph, struct stg_key kernel);
/** Read such a name; false for another. */
bool stg_disk_is_recipe_name(const char *name, struct stg_key *ret_graph,
                             struct stg_key *ret_kernel);
/** Whether a folder of v1/ has the name of one that holds entries, "ab". */
bool stg_disk_is_shard_name(const char *name);

#endif
