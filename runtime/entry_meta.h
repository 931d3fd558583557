/*
 * entry_meta.h: the metadata JSON of a cache entry, written and read back strictly.
 */
#ifndef STG_RUNTIME_ENTRY_META_H
#define STG_RUNTIME_ENTRY_META_H

#include "runtime/entry.h"

/** Append the metadata as one JSON object, always in the same order. */
void stg_entry_meta_write(const struct stg_entry_meta *meta, struct stg_strbuf *ret_json);
/**
 * Read it back, text into `arena`; `cubin` is what was written of it, and not to be believed where
 * the cubin is at hand. STG_E_CORRUPT for a missing, unknown, repeated or mistyped member, for text
 * after the object, and for a family that is not the signature's.
 */
STG_NODISCARD stg_status stg_entry_meta_read(const char *json, size_t size, struct stg_arena *arena,
                                             struct stg_entry_meta *ret_meta, stg_error *reterr);

#endif
