/*
 * key.h: 128-bit keys (XXH3) over length-prefixed fields, so that no two lists of fields share
 * bytes.
 */
#ifndef STG_RUNTIME_BASE_KEY_H
#define STG_RUNTIME_BASE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/strbuf.h"

#define STG_KEY_HEX_CHARS 32
#define STG_KEY_BYTES 16 /* in a file */

struct stg_key {
  uint64_t high;
  uint64_t low;
};

/*
 * The key material as bytes: each field is its name, a NUL, the value's length as 8 little-endian
 * bytes, the value. Kept as text so that a cache entry can store and compare it whole.
 */
void stg_material_field(struct stg_strbuf *material, const char *name, const void *value,
                        size_t len);
void stg_material_text(struct stg_strbuf *material, const char *name, const char *value);
void stg_material_u64(struct stg_strbuf *material, const char *name, uint64_t value);

/* One field of a material, borrowed from its bytes. */
struct stg_material_view {
  const char *name;
  const char *value;
  size_t len;
};
/**
 * Read the field at `*cursor` and move it on. False at the end (cursor == len) and on malformed
 * bytes (cursor left where it is, != len).
 */
bool stg_material_next(const void *material, size_t len, size_t *cursor,
                       struct stg_material_view *ret);

/** XXH3-128 of any bytes. */
struct stg_key stg_key_of(const void *data, size_t len);
bool stg_key_equal(struct stg_key a, struct stg_key b);
int stg_key_compare(struct stg_key a, struct stg_key b);
/** As a file has it: 16 bytes, in the order of the hex digits. */
void stg_key_store(struct stg_key key, unsigned char ret_bytes[STG_KEY_BYTES]);
struct stg_key stg_key_load(const unsigned char bytes[STG_KEY_BYTES]);
/** 32 lower-case hex digits, high half first, and a NUL. */
void stg_key_hex(struct stg_key key, char ret_hex[STG_KEY_HEX_CHARS + 1]);
/** Parse exactly 32 lower-case hex digits. */
bool stg_key_parse(const char *hex, struct stg_key *ret_key);

#endif
