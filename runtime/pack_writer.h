/*
 * pack_writer.h: put cache entries together as a pack (.sgp). Its bytes: pack_format.h.
 */
#ifndef STG_RUNTIME_PACK_WRITER_H
#define STG_RUNTIME_PACK_WRITER_H

#include "runtime/base/strbuf.h"

/* One thread at a time. */
struct stg_pack_writer;

STG_NODISCARD stg_status stg_pack_writer_create(struct stg_pack_writer **ret_writer,
                                                stg_error *reterr);
void stg_pack_writer_destroy(struct stg_pack_writer *writer);

/**
 * Add one entry, given as the bytes of its .sgc file, which are copied. It is verified first:
 * STG_E_CORRUPT or STG_E_UNSUPPORTED when it is bad. Of two with one key and compiler the first
 * stays.
 */
STG_NODISCARD stg_status stg_pack_writer_add(struct stg_pack_writer *writer, const void *bytes,
                                             size_t size, stg_error *reterr);
/** Entries so far. */
size_t stg_pack_writer_count(const struct stg_pack_writer *writer);
/** How often one that was added was compared with one that was there, for tests: packs have tens of
 * thousands of entries. */
size_t stg_pack_writer_compared(const struct stg_pack_writer *writer);
/**
 * Append the pack's bytes. The same entries give the same bytes, in whatever order they came.
 * STG_E_CAPACITY beyond 2^32 entries or pieces; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_pack_writer_print(const struct stg_pack_writer *writer,
                                               struct stg_strbuf *ret_bytes, stg_error *reterr);
/** Write the pack to a file, all or nothing, mode 0644. As print; STG_E_IO. */
STG_NODISCARD stg_status stg_pack_writer_save(const struct stg_pack_writer *writer,
                                              const char *path, size_t *ret_size,
                                              stg_error *reterr);

#endif
