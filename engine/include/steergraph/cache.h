/*
 * cache.h: open a cache folder or a pack offline: no device, no CUDA installed.
 */
#ifndef STEERGRAPH_CACHE_H
#define STEERGRAPH_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/log.h>
#include <steergraph/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stg_cache stg_cache; /* one thread at a time */

/* One entry. Text is borrowed from the cache until it is closed; all of it is NUL-terminated. */
typedef struct stg_cache_entry {
  const char *path; /* of an entry in a pack "PACK/NAME.sgc", which is no file */
  char key[33];
  bool ok;           /* false: `problem` says why, and only path and sizes are set */
  bool other_format; /* not ok, but not bad: another version of steergraph wrote it */
  const char *problem;
  const char *signature;
  const char *family; /* the signature's first word */
  const char *kernel;
  const char *arch;
  const char *compiler;
  const char *creator;
  const char *source;
  const void *cubin;
  size_t source_bytes, cubin_bytes, material_bytes;
  const void *material; /* the key factors: name NUL length(8, little-endian) value, repeated */
  uint64_t size_bytes;
  int64_t created_unix, used_unix;
  double compile_ms;
  uint32_t threads, rows_per_block, registers, shared_bytes, local_bytes, param_bytes, code_bytes;
  uint32_t max_threads; /* of a block, as it was compiled; 0: any */
  /* dynamic shared memory of a launch without a chain: of many blocks, and of no more blocks than
   * there are multiprocessors */
  uint32_t stage_bytes, wide_stage_bytes;
} stg_cache_entry;

/* What lies in a cache folder where a cache has its own, and is left out. */
typedef struct stg_cache_left_out {
  const char *path;
  const char *problem; /* why, and what to do */
  /* one of the folders that entries or graphs are in, nothing of which is listed: it cannot be, or
   * is a symbolic link; false: such a link under the name of an entry or a graph, which is none */
  bool is_folder;
} stg_cache_left_out;

/**
 * Open a path list "RO:RW" (as STEERGRAPH_CACHE_DIR) for reading. A folder that does not exist has
 * no entries; an element that is a regular file is a pack, and may stand alone. Entries are listed
 * now and read when they are asked for. Any folder and pack may be inspected, also one that an
 * engine would refuse because others can write it. A cache folder may be reached by symbolic links;
 * in it none is followed.
 * @return STG_E_INVALID for an empty list, STG_E_IO for a folder that cannot be listed,
 * STG_E_CORRUPT or STG_E_UNSUPPORTED for a pack that is none of this version.
 */
STG_API STG_NODISCARD stg_status stg_cache_open(const char *path_list, stg_cache **ret_cache,
                                                stg_error *reterr);
STG_API void stg_cache_close(stg_cache *cache);
STG_API size_t stg_cache_count(const stg_cache *cache);
/** What was left out when the cache was opened, `*ret_count` of it; the cache's until it is closed.
 */
STG_API const stg_cache_left_out *stg_cache_left_outs(const stg_cache *cache, size_t *ret_count);
/** Entry `index` in path order, read and fully verified; a bad one is STG_OK with ok = false. */
STG_API STG_NODISCARD stg_status stg_cache_get(stg_cache *cache, size_t index,
                                               stg_cache_entry *ret_entry, stg_error *reterr);
/**
 * What entry `index` says of itself: as stg_cache_get, but its header and metadata alone are read,
 * and checked against its length and its name; its checksum is not. `source`, `cubin` and
 * `material` are NULL, with their sizes. For lists: an entry that is ok here may still be bad, and
 * one of another format may be damaged too.
 */
STG_API STG_NODISCARD stg_status stg_cache_peek(stg_cache *cache, size_t index,
                                                stg_cache_entry *ret_entry, stg_error *reterr);
/**
 * Free what stg_cache_get and stg_cache_find have read of entry `index`, for a walk over many: what
 * they gave out of it is gone, but for its path and its problem. It is read anew when it is asked
 * for again.
 */
STG_API void stg_cache_forget(stg_cache *cache, size_t index);
/**
 * Find by the first digits of its key, at least 4. Of several entries with one key the newest
 * compiler's is taken; add "-nvrtc-13.0.88", or the beginning of that, for a certain one.
 * @return STG_E_NOT_FOUND, or STG_E_INVALID when it is too short or several keys begin so.
 */
STG_API STG_NODISCARD stg_status stg_cache_find(stg_cache *cache, const char *key_prefix,
                                                stg_cache_entry *ret_entry, stg_error *reterr);
/* One parameter of an entry's kernel. */
typedef struct stg_cache_param {
  uint32_t ordinal, offset_bytes, size_bytes;
} stg_cache_param;
/**
 * The parameters of a kernel in their order, as its cubin describes them: the first `capacity` of
 * them go to `ret_params`, how many there are to `*ret_count`. `entry` is one of stg_cache_get or
 * stg_cache_find that is ok.
 * @return STG_E_INVALID for an entry without its cubin, STG_E_CORRUPT when they overlap or lie
 * outside of what the kernel takes.
 */
STG_API STG_NODISCARD stg_status stg_cache_params(const stg_cache_entry *entry,
                                                  stg_cache_param *ret_params, size_t capacity,
                                                  size_t *ret_count, stg_error *reterr);
/* One factor that two entries do not have in common. Text is borrowed from the cache. */
typedef struct stg_cache_difference {
  const char *factor;       /* of the key, as "signature" or "arch"; or "compiler" */
  const char *here, *there; /* its value in few words, of the signature a piece; "(none)" */
  const char *words;        /* what that means, a sentence */
} stg_cache_difference;
/**
 * Which factors make two entries two, in the order of the key material; the compiler, which is no
 * factor of the key, comes last. None: they are of one kernel and one compiler. At most 64 factors
 * are told. Both are entries of stg_cache_get or stg_cache_find that are ok, or made by the caller
 * of a kernel that no cache has: `material` and `material_bytes` are enough. Text is of `cache`,
 * which the entries need not come from.
 * @return STG_E_INVALID for an entry without its material; STG_E_NO_MEMORY.
 */
STG_API STG_NODISCARD stg_status stg_cache_explain(stg_cache *cache, const stg_cache_entry *here,
                                                   const stg_cache_entry *there,
                                                   const stg_cache_difference **ret_differences,
                                                   size_t *ret_count, stg_error *reterr);
/* A launch of a kernel in a graph, over rows / rows_per_block blocks, rounded up. */
typedef struct stg_cache_graph_node {
  char key[33]; /* of the kernel's entries, of any compiler; they may not be there */
  const char *kernel;
  uint32_t threads, rows_per_block, stage_bytes, wide_stage_bytes; /* as of an entry */
  const stg_cache_param *params;
  size_t n_params;
} stg_cache_graph_node;
/* One node runs after another. */
typedef struct stg_cache_graph_edge {
  uint32_t from, to; /* numbers of nodes; from < to */
} stg_cache_graph_edge;
/* A piece of a node's parameter that each launch sets. */
typedef struct stg_cache_graph_slot {
  const char *name;
  uint32_t node, param, offset_bytes, size_bytes;
} stg_cache_graph_slot;
/* The recipe of a graph that an engine made. Text and lists are borrowed from the cache. */
typedef struct stg_cache_graph {
  const char *path;
  char key[33];
  bool ok;           /* false: `problem` says why, and only path, size and used_unix are set */
  bool other_format; /* not ok, but not bad: another version of steergraph wrote it */
  const char *problem;
  const char *signature; /* of its kernel, with the graph's shape */
  const char *arch;
  const char *creator;
  uint64_t size_bytes;
  int64_t created_unix, used_unix;
  int64_t batch, seq, rows; /* the most that it takes */
  const stg_cache_graph_node *nodes;
  size_t n_nodes;
  const stg_cache_graph_edge *edges;
  size_t n_edges;
  const stg_cache_graph_slot *slots;
  size_t n_slots;
} stg_cache_graph;
/** How many recipes the folders of the cache hold; packs hold none. */
STG_API size_t stg_cache_graph_count(const stg_cache *cache);
/** Recipe `index` in path order, read and fully verified; a bad one is STG_OK with ok = false. */
STG_API STG_NODISCARD stg_status stg_cache_graph_get(stg_cache *cache, size_t index,
                                                     stg_cache_graph *ret_graph, stg_error *reterr);
/** Free what was read of recipe `index`, as stg_cache_forget does of an entry, but for its path. */
STG_API void stg_cache_graph_forget(stg_cache *cache, size_t index);
/**
 * Find by the first hex digits of the graph's key, at least 4.
 * @return STG_E_NOT_FOUND, or STG_E_INVALID when they are too few or several keys begin so.
 */
STG_API STG_NODISCARD stg_status stg_cache_graph_find(stg_cache *cache, const char *key_prefix,
                                                      stg_cache_graph *ret_graph,
                                                      stg_error *reterr);
/**
 * Move an entry or a recipe to its layer's quarantine folder.
 * @return STG_E_INVALID when `path` is in no layer, STG_E_UNSUPPORTED when it is in a pack.
 */
STG_API STG_NODISCARD stg_status stg_cache_quarantine(stg_cache *cache, const char *path,
                                                      stg_error *reterr);

/* What may stay in a folder. {0} but for struct_size: the defaults that stores keep to. */
typedef struct stg_cache_limits {
  size_t struct_size;              /* sizeof(stg_cache_limits) */
  uint64_t max_bytes, max_entries; /* 0: 2 GiB and 32768; UINT64_MAX: no limit */
  bool by_age;                     /* what was not used for older_than_s goes anyway */
  int64_t older_than_s;            /* seconds, 0: everything */
  bool dry_run;                    /* remove nothing, only say what would go */
  /* How far it has come, of the files that are to go; from the calling thread. May be NULL. */
  void (*progress)(void *user, size_t done, size_t total);
  void *user;
} stg_cache_limits;

/* A file that went, would go, or cannot. */
typedef struct stg_cache_victim {
  const char *path;
  const char *kind; /* "entry", "graph", "temporary" or "quarantine" */
  const char *why;  /* "age", "count" or "size"; "kernel": of a graph whose kernel goes too;
                       "temporary": of a writer that is gone;
                       "quarantine": of the bad ones that are kept, it is too old or too much */
  char key[33];     /* of an entry or a graph; else "" */
  uint64_t size_bytes;
  int64_t used_unix;   /* when it was last used, to the hour */
  bool removed;        /* false in a dry run */
  const char *problem; /* why it cannot be removed, or NULL */
} stg_cache_victim;

/* What stg_cache_gc did. Graphs are counted as entries. */
typedef struct stg_cache_gc_result {
  const char *folder;              /* the one that was worked on */
  const stg_cache_victim *victims; /* longest unused first */
  size_t n_victims;
  size_t removed_entries, removed_files; /* in a dry run: that would be; files: other ones */
  uint64_t removed_bytes;
  size_t failed; /* victims with a problem */
  size_t kept_entries, kept_files;
  uint64_t kept_bytes;
  const stg_cache_left_out *left_out; /* folders: what they hold is in no count, and stays */
  size_t n_left_out;
} stg_cache_gc_result;

/**
 * Remove from the last folder of a path list, the one that is written to, what is beyond `limits`:
 * first what is not used by anybody, then what was unused longest. What is used or written between
 * the look and the removal stays. Safe beside processes that use the folder: an entry in use has
 * been read whole, and one that is missed is compiled again. Locks are neither taken nor removed. A
 * folder that is not there is an empty one.
 * @param ret_result owned by the caller, to be freed by stg_cache_gc_free; text is borrowed from it
 * @return STG_E_INVALID for an empty list or limits of another version, STG_E_UNSUPPORTED for a
 * pack, STG_E_IO for a folder that cannot be listed. A file that cannot be removed is a fact in the
 * result. Any thread.
 */
STG_API STG_NODISCARD stg_status stg_cache_gc(const char *path_list, const stg_cache_limits *limits,
                                              const stg_cache_gc_result **ret_result,
                                              stg_error *reterr);
STG_API void stg_cache_gc_free(const stg_cache_gc_result *result);

/* What engines and commands keep to where nobody says another limit. */
#define STG_CACHE_DEFAULT_BYTES (UINT64_C(2) << 30)
#define STG_CACHE_DEFAULT_ENTRIES UINT64_C(32768)

/* One element of the path list, as it is now. Counted by names: no entry is read. */
typedef struct stg_cache_layer {
  size_t struct_size; /* in: sizeof(stg_cache_layer) */
  const char *path;   /* absolute; the cache's, until it is closed */
  bool is_pack;
  bool is_last; /* the one that is written to, unless it is a pack */
  uint64_t entries, graphs, temporary, quarantined; /* files; of a pack its entries alone */
  uint64_t entry_bytes;                             /* of the entries; of a pack, its file's */
  uint64_t bytes; /* of all that limits count; of a pack, its file's */
  /* when the entry that was unused longest was used last; 0: no entry, a pack */
  int64_t oldest_unix;
  const stg_cache_left_out *left_out; /* folders, whose files are in no count; the cache's */
  size_t n_left_out;
} stg_cache_layer;

STG_API size_t stg_cache_layer_count(const stg_cache *cache);
/** @return STG_E_INVALID for an index beyond the last or a struct of another version, STG_E_IO. */
STG_API STG_NODISCARD stg_status stg_cache_layer_get(stg_cache *cache, size_t index,
                                                     stg_cache_layer *ret_layer, stg_error *reterr);

/* What was done with a folder by all processes together. A process adds to it when it closes its
 * engine, and while it stores, once a minute; one that is killed adds no more. */
typedef struct stg_cache_totals {
  size_t struct_size;   /* in: sizeof(stg_cache_totals) */
  int64_t since_unix;   /* when it was begun */
  uint64_t runs;        /* engines, builds and imports that added to it */
  uint64_t memory_hits; /* kernels that an engine had loaded already */
  uint64_t disk_hits;   /* kernels that were found in a folder or a pack */
  uint64_t pack_hits;   /* those of them that were in a pack */
  uint64_t misses;      /* kernels that none had when they were asked for, once each */
  uint64_t compiles, compile_us;
  uint64_t load_us; /* in the driver, of kernels that were found or compiled */
  uint64_t stores, store_failures;
  /* entries and recipes that made room; bytes of all that went */
  uint64_t evictions, evicted_bytes;
  uint64_t quarantined; /* bad entries that were set aside when they were asked for, and recipes */
} stg_cache_totals;

/**
 * Read the totals of the last folder, whatever the others hold.
 * @return STG_E_NOT_FOUND when there are none yet, or the last element is a pack; STG_E_CORRUPT
 * when their file is damaged (the next process begins it anew); STG_E_UNSUPPORTED when another
 * version of steergraph wrote it; STG_E_IO; STG_E_INVALID for a struct of another version.
 */
STG_API STG_NODISCARD stg_status stg_cache_read_totals(stg_cache *cache,
                                                       stg_cache_totals *ret_totals,
                                                       stg_error *reterr);

/* How an export tells of itself. {0} but for struct_size: not at all. */
typedef struct stg_cache_export_options {
  size_t struct_size; /* sizeof(stg_cache_export_options) */
  /* How far it has come, of the entries that are to be read; from the calling thread. May be NULL.
   */
  void (*progress)(void *user, size_t done, size_t total);
  void *user;
} stg_cache_export_options;

/* What an export wrote. */
typedef struct stg_cache_export_result {
  size_t struct_size; /* in: sizeof(stg_cache_export_result) */
  size_t entries;     /* in the pack: of several with one key and compiler one alone */
  uint64_t bytes;     /* of the file */
} stg_cache_export_result;
/**
 * Write entries of a cache into one file, a pack, all or nothing, mode 0644: each is read and
 * verified, and one that is bad, of another format or gone since it was listed fails the export.
 * `indices` are those of stg_cache_get, in any order: the same entries give the same bytes.
 * `options` and `ret_result` may be NULL.
 * @return STG_E_INVALID for no entry, an index that the cache has not, or a struct_size of another
 * version; STG_E_CORRUPT for entries that are bad, with their count and the first; STG_E_IO when
 * the file cannot be written, which is then as it was.
 */
STG_API STG_NODISCARD stg_status stg_cache_export(stg_cache *cache, const size_t *indices,
                                                  size_t n_indices, const char *path,
                                                  const stg_cache_export_options *options,
                                                  stg_cache_export_result *ret_result,
                                                  stg_error *reterr);

/* How to import. Zero means default everywhere. */
typedef struct stg_cache_import_options {
  size_t struct_size;              /* sizeof(stg_cache_import_options) */
  bool dry_run;                    /* say what would be done, and write nothing */
  uint64_t max_bytes, max_entries; /* limits of the folder, as those of stg_options */
  /* Called for each entry that is not taken, or NULL: its name in the pack, and why. */
  void (*on_bad)(void *user, const char *path, const char *problem);
  /* How far it has come, of the pack's entries; from the calling thread. May be NULL. */
  void (*progress)(void *user, size_t done, size_t total);
  void *user; /* of both */
} stg_cache_import_options;

/* What came of a pack's entries: each is in one of the counts. */
typedef struct stg_cache_import_result {
  size_t struct_size; /* in: sizeof(stg_cache_import_result) */
  size_t imported;
  size_t there; /* the folder has a good entry of that key and compiler, which stays as it is */
  size_t bad;   /* damaged, under another's name, or of a format that this version does not read */
  uint64_t bytes; /* of the entries imported, as files */
} stg_cache_import_result;
/**
 * Copy the entries of a pack into a cache folder. Each is verified as it is read and published
 * whole, under the name that follows from what it holds; bad ones are passed over and counted. What
 * is damaged in the folder under such a name is moved to quarantine and replaced. A folder that
 * gets beyond its limits loses what was unused longest, as when an engine stores. Of the path list
 * `folders` the last is written to and made where it is missing; the others are not looked at.
 * `options` and `ret_result` may be NULL. Processes may use the folder meanwhile; an import that is
 * interrupted leaves whole entries.
 * @return STG_E_NOT_FOUND when there is no pack; STG_E_CORRUPT or STG_E_UNSUPPORTED for a pack that
 * is none of this version; STG_E_INVALID for a pack or a folder that is owned by neither the user
 * nor root or that others can write, for a folder that is a file, and for a struct_size of another
 * version; STG_E_IO when the pack cannot be read or the folder cannot be written. Entries that were
 * imported before a failure stay.
 */
STG_API STG_NODISCARD stg_status stg_cache_import(const char *folders, const char *pack,
                                                  const stg_cache_import_options *options,
                                                  stg_cache_import_result *ret_result,
                                                  stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
