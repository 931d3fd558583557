/*
 * disk_cache.h: compiled kernels on disk, found by request key, compared by full key material.
 *
 * A path list "RO:RO:RW" layers read-only folders under a writable one; each layer holds
 *   CACHEDIR.TAG  v1/ab/<32 hex>-<compiler>.sgc  v1/tmp/  v1/lock/ab  v1/quarantine/  v1/stats
 * An element that is a regular file is a pack (pack.h), which is read and never written.
 * Writes go to the last layer, which is a folder. Any failure to store only logs: correctness never
 * depends on the disk. Any thread.
 */
#ifndef STG_RUNTIME_DISK_CACHE_H
#define STG_RUNTIME_DISK_CACHE_H

#include "runtime/base/log.h"
#include "runtime/entry_head.h"

struct stg_disk_cache;

enum stg_disk_mode {
  STG_DISK_READ_WRITE,
  STG_DISK_READ_ONLY,
  STG_DISK_REFRESH, /* never hit, always overwrite */
  STG_DISK_OFF,     /* open gives a cache that never hits and stores nothing */
  STG_DISK_PACKS    /* packs are read; folders are left out, and nothing is stored */
};

struct stg_disk_options {
  const char *path_list; /* NULL or "": no folder; nothing is stored */
  const char *pack_path; /* a pack below all of them; NULL: none */
  enum stg_disk_mode mode;
  bool trust;  /* accept folders and packs that others own or can write */
  bool strict; /* a pack that cannot be used is an error, and not one warning */
  struct stg_log log;
  uint32_t lock_wait_ms; /* longest wait for who compiles the same kernel; 0: 30 s */
  /* How much the folder that is written to may hold, bytes and files; 0: 2 GiB and 32768;
   * UINT64_MAX: no limit. */
  uint64_t max_bytes, max_entries;
};

/**
 * Open the layers; folders are made on the first store or lock. A layer that is owned by neither
 * the effective user nor root, or that group or others can write, is refused with STG_E_INVALID
 * unless `trust`. A pack is opened once; one that is owned or writable so, or is torn or of another
 * format, is left out with one warning, or refused when `strict`. STG_E_INVALID when the element to
 * write to is a file. Relative paths are resolved here, so that a later chdir changes nothing.
 */
STG_NODISCARD stg_status stg_disk_cache_open(const struct stg_disk_options *options,
                                             struct stg_disk_cache **ret_cache, stg_error *reterr);
/** Closes, and adds what was counted to the statistics of the folder that is written to
 * (disk_stats.h). */
void stg_disk_cache_close(struct stg_disk_cache *cache);

/**
 * Whether no request can hit as things are: no pack, and no layer that has had entries; or the mode
 * is one that does not look. Cheap: reads no entry and no list of them.
 */
bool stg_disk_cache_is_empty(const struct stg_disk_cache *cache);

/* A hit: the decoded entry and the bytes it borrows from. */
struct stg_disk_hit {
  struct stg_entry entry;
  struct stg_arena arena;
  char *bytes; /* stg_free; those of its .sgc file */
  size_t size;
  char *path; /* stg_free; of an entry in a pack "PACK/NAME.sgc", which is no file */
  bool from_pack;
  int64_t mtime_unix; /* of the file when it was read; 0 for an entry in a pack */
};
void stg_disk_hit_finish(struct stg_disk_hit *hit);

/**
 * Find the request's entry: the one of `preferred_compiler` if given and there, else the newest
 * compiler's. A bad entry is moved to quarantine with one warning and passed over. STG_E_NOT_FOUND
 * is an ordinary miss. A hit in the folder that is written to gets a new stamp, at most hourly: by
 * stamps it is known what was unused longest.
 */
STG_NODISCARD stg_status stg_disk_cache_find(struct stg_disk_cache *cache,
                                             const struct stg_kernel_request *request,
                                             const char *preferred_compiler,
                                             struct stg_disk_hit *ret_hit, stg_error *reterr);
/**
 * The same before a find that a compile may follow: a hit is counted, and a miss left to that find,
 * so that a kernel that is looked for twice is missed once.
 */
STG_NODISCARD stg_status stg_disk_cache_find_early(struct stg_disk_cache *cache,
                                                   const struct stg_kernel_request *request,
                                                   const char *preferred_compiler,
                                                   struct stg_disk_hit *ret_hit, stg_error *reterr);
/**
 * The same after a miss, of what another process may have stored since: looks in the writable layer
 * only, and counts a hit but no second miss.
 */
STG_NODISCARD stg_status stg_disk_cache_find_again(struct stg_disk_cache *cache,
                                                   const struct stg_kernel_request *request,
                                                   const char *preferred_compiler,
                                                   struct stg_disk_hit *ret_hit, stg_error *reterr);
/** Move a hit whose cubin the driver refused out of the way, with one warning. */
void stg_disk_cache_reject(struct stg_disk_cache *cache, const struct stg_disk_hit *hit,
                           const char *why);
/**
 * Move one file of the walk to its layer's quarantine folder, whatever the mode. STG_E_INVALID when
 * it is in no layer, STG_E_UNSUPPORTED when it is in a pack, STG_E_IO when it cannot be moved; one
 * that is gone already is success.
 */
STG_NODISCARD stg_status stg_disk_cache_quarantine(struct stg_disk_cache *cache, const char *path,
                                                   stg_error *reterr);
/**
 * Store; STG_OK means that the entry is on disk. Entries that were unused longest make room when
 * there is too much. The caller may ignore a failure: the first is logged as a warning, later ones
 * as info. STG_E_UNSUPPORTED, not logged: the mode stores nothing.
 */
stg_status stg_disk_cache_store(struct stg_disk_cache *cache,
                                const struct stg_kernel_request *request,
                                const struct stg_kernel_image *image, stg_error *reterr);

/**
 * Whether the request's entry could be stored, found out by writing where it would go. Nothing is
 * logged. STG_E_UNSUPPORTED: the mode stores nothing.
 */
STG_NODISCARD stg_status stg_disk_cache_probe(struct stg_disk_cache *cache,
                                              const struct stg_kernel_request *request,
                                              stg_error *reterr);

/**
 * Keep an entry that was read elsewhere and verified (stg_disk_cache_read of another cache) in the
 * folder that is written to. `*ret_there`: it has a good entry of that key and compiler, which
 * stays, whatever its bytes; one that is damaged goes to quarantine first. `dry_run` only looks.
 * Any failure is the folder's: STG_E_UNSUPPORTED when none is written to, STG_E_INVALID for its
 * owner or mode, STG_E_IO.
 */
STG_NODISCARD stg_status stg_disk_cache_put(struct stg_disk_cache *cache,
                                            const struct stg_disk_hit *hit, bool dry_run,
                                            bool *ret_there, stg_error *reterr);

/* One entry of a cache, as the inspector walks it. */
struct stg_disk_item {
  const char *path;  /* of an entry in a pack as in a hit */
  const char *layer; /* folder or pack it is in */
  uint64_t size_bytes;
  int64_t mtime_unix; /* of the file, or of the pack */
  /* Not NULL: what is left out, and why: a folder of which nothing is listed, or a symbolic link
   * under the name of a file. Only its path and layer are known. */
  const char *problem;
  bool is_folder;
};
typedef stg_status (*stg_disk_visit)(void *user, const struct stg_disk_item *item,
                                     stg_error *reterr);
/** Visit every entry of every layer in path order, and what is left out; stops at the first failure
 * of `visit`. */
STG_NODISCARD stg_status stg_disk_cache_walk(struct stg_disk_cache *cache, stg_disk_visit visit,
                                             void *user, stg_error *reterr);
/**
 * Read and decode one entry of the walk. STG_E_CORRUPT or STG_E_UNSUPPORTED when it is bad (also
 * when its name is not that of its key and compiler), STG_E_NOT_FOUND when it is gone.
 */
STG_NODISCARD stg_status stg_disk_cache_read(const struct stg_disk_cache *cache, const char *path,
                                             struct stg_disk_hit *ret_hit, stg_error *reterr);

/* What a layer holds, counted by names and sizes. Of a pack: its entries, and its file's bytes. */
struct stg_disk_survey {
  const char *root; /* the cache's */
  bool is_pack;
  uint64_t entries, recipes, temporary, quarantined; /* files */
  uint64_t entry_bytes, bytes;                       /* of the entries; of all that limits count */
  int64_t oldest_unix; /* when the entry that was unused longest was used; 0: there is none */
  const struct stg_disk_item *left_out; /* folders that cannot be listed; the arena's */
  size_t n_left_out;
};
size_t stg_disk_cache_layers(const struct stg_disk_cache *cache);
/** Count layer `index`, below the number of them. STG_E_IO; a folder that is not there is empty. */
STG_NODISCARD stg_status stg_disk_cache_survey(const struct stg_disk_cache *cache, size_t index,
                                               struct stg_arena *arena, struct stg_disk_survey *ret,
                                               stg_error *reterr);
/** The statistics of the last folder. STG_E_NOT_FOUND: there are none; as stg_disk_stats_read. */
struct stg_disk_totals;
STG_NODISCARD stg_status stg_disk_cache_totals(const struct stg_disk_cache *cache,
                                               struct stg_disk_totals *ret, stg_error *reterr);

/**
 * Read what an entry of the walk says of itself, and not the rest of it: header against length, key
 * and compiler against the name, metadata into `arena`. Fails as reading does; what it accepts may
 * still be bad.
 */
STG_NODISCARD stg_status stg_disk_cache_peek(const struct stg_disk_cache *cache, const char *path,
                                             struct stg_arena *arena,
                                             struct stg_entry_facts *ret_facts, stg_error *reterr);

/** Order of compilers by version, numerically: "nvrtc-12.9.7" < "nvrtc-12.10.1" < "nvrtc-13.0.0".
 */
int stg_disk_compare_compilers(const char *a, const char *b);

/**
 * Whether `file_name`, of an entry, is one that `wanted` names: the first digits of its key, and
 * perhaps the beginning of its compiler behind them, as "12ab-nvrtc-13".
 */
bool stg_disk_is_named(const char *file_name, const char *wanted);

/* Counters since open; any thread. */
struct stg_disk_counters {
  uint64_t hits, misses, stores, store_failures, quarantined;
  uint64_t pack_hits; /* of the hits */
  /* entries and recipes that made room; bytes of all that went */
  uint64_t evictions, evicted_bytes;
};
void stg_disk_cache_counters(const struct stg_disk_cache *cache, struct stg_disk_counters *ret);

/* What becomes of kernels beyond the disk, for its statistics. */
struct stg_disk_work {
  uint64_t memory_hits; /* kernels that were loaded already */
  uint64_t compiles, compile_us, load_us;
};
/** Add to it. `cache` may be NULL. Any thread. */
void stg_disk_cache_note(struct stg_disk_cache *cache, const struct stg_disk_work *work);

#endif
