/*
 * entry_head.h: what stands before the parts of an entry, and what an entry says of itself by that
 * and by its metadata. The bytes are described in entry.h.
 */
#ifndef STG_RUNTIME_ENTRY_HEAD_H
#define STG_RUNTIME_ENTRY_HEAD_H

#include "runtime/base/arena.h"
#include "runtime/entry.h"

#define STG_ENTRY_MAGIC "STGCACHE"

/* Offsets in the header, its size, and that of the checksum at the end. */
enum {
  STG_ENTRY_AT_VERSION = 8,
  STG_ENTRY_AT_FLAGS = 12,
  STG_ENTRY_AT_KEY = 16,
  STG_ENTRY_AT_SIZES = 32,
  STG_ENTRY_HEADER_BYTES = 64,
  STG_ENTRY_FOOTER_BYTES = 16
};

/* Parts, in the order of their sizes in the header and of their bytes after it. */
enum {
  STG_ENTRY_MATERIAL,
  STG_ENTRY_METADATA,
  STG_ENTRY_SOURCE,
  STG_ENTRY_CUBIN,
  STG_ENTRY_N_PARTS
};

struct stg_entry_head {
  struct stg_key key;
  uint32_t flags;
  struct {
    uint64_t offset, size;
  } parts[STG_ENTRY_N_PARTS];
};

/**
 * Read the header of an entry of `size` bytes; `header` has the first STG_ENTRY_HEADER_BYTES of
 * them, or all when there are fewer. Afterwards every part is known to lie in the entry.
 * STG_E_CORRUPT says what is wrong; STG_E_UNSUPPORTED for another format version, whose footer is
 * not looked at.
 */
STG_NODISCARD stg_status stg_entry_head_read(const unsigned char *header, uint64_t size,
                                             struct stg_entry_head *ret_head, stg_error *reterr);

/* The bytes of an entry, wherever they are. `read` gets a range that lies in `size`. */
struct stg_entry_bytes {
  stg_status (*read)(void *user, uint64_t offset, void *ret_data, size_t size, stg_error *reterr);
  void *user;
  uint64_t size;
};

/* What an entry says of itself; text in the arena it was read into. */
struct stg_entry_facts {
  struct stg_entry_head head;
  struct stg_entry_meta meta; /* `cubin` too is what the metadata say */
};

/**
 * Read the header and the metadata of an entry, and nothing else of it: neither checksum nor key
 * material nor cubin. As stg_entry_head_read, and what `read` fails with.
 */
STG_NODISCARD stg_status stg_entry_peek(const struct stg_entry_bytes *bytes,
                                        struct stg_arena *arena, struct stg_entry_facts *ret_facts,
                                        stg_error *reterr);

#endif
