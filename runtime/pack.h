/*
 * pack.h: read a pack (.sgp): many cache entries in one file, to ship. Its bytes: pack_format.h.
 *
 * The file is opened once and its index is kept; entries are read when they are asked for. It is
 * not mapped: a file that is cut short in place would then end the process, and here it costs a
 * miss. Nothing is ever written to it. Any thread.
 */
#ifndef STG_RUNTIME_PACK_H
#define STG_RUNTIME_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/base/key.h"

#define STG_PACK_SUFFIX ".sgp"

struct stg_pack;

/** Whether there is a regular file at `path`, which a path list then takes for a pack. */
bool stg_pack_is_file(const char *path);

/**
 * Open a pack and check its header and index. Messages name the file.
 * @param trust  accept a file that others own or can write
 * @return STG_E_NOT_FOUND; STG_E_IO when it cannot be read or is no regular file; STG_E_INVALID for
 * its owner or mode; STG_E_UNSUPPORTED for another format version; STG_E_CORRUPT says what is wrong
 * with it.
 */
STG_NODISCARD stg_status stg_pack_open(const char *path, bool trust, struct stg_pack **ret_pack,
                                       stg_error *reterr);
void stg_pack_close(struct stg_pack *pack);

/* One entry as the index has it. Text is borrowed from the pack. */
struct stg_pack_item {
  struct stg_key key;
  const char *compiler;
  uint64_t size_bytes; /* of the entry, though it shares bytes with others */
};
size_t stg_pack_count(const struct stg_pack *pack);
/** Entry `index`, in the order of keys and then of compilers. */
struct stg_pack_item stg_pack_item_at(const struct stg_pack *pack, size_t index);
/** How many entries the key has, one per compiler, and the first of them. */
size_t stg_pack_find(const struct stg_pack *pack, struct stg_key key, size_t *ret_first);
/** When the file was last changed, as it was when it was opened. */
int64_t stg_pack_mtime_unix(const struct stg_pack *pack);

/**
 * Put an entry together: the bytes of its .sgc file, not yet verified. `*ret_bytes` is stg_free.
 * STG_E_IO; STG_E_CORRUPT when the file has become shorter; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_pack_read(const struct stg_pack *pack, size_t index, char **ret_bytes,
                                       size_t *ret_size, stg_error *reterr);
/** Put a part of it together: `size` bytes from `offset` on, which lie in the entry. As above. */
STG_NODISCARD stg_status stg_pack_read_part(const struct stg_pack *pack, size_t index,
                                            uint64_t offset, void *ret_data, size_t size,
                                            stg_error *reterr);

#endif
