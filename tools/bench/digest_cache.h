/*
 * bench/digest_cache.h: interning as the published steering benchmark does it: a digest stands for
 * the bytes, and the least recently used entry makes room.
 *
 * Entries are numbered places 0..capacity-1 for whatever is kept of a vector.
 */
#ifndef STG_TOOLS_BENCH_DIGEST_CACHE_H
#define STG_TOOLS_BENCH_DIGEST_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/bench/sha256.h"

struct stg_digest_cache;

/** A cache of at most `capacity` >= 1 digests. */
STG_NODISCARD stg_status stg_digest_cache_create(uint32_t capacity,
                                                 struct stg_digest_cache **ret_cache,
                                                 stg_error *reterr);
/** NULL is fine. */
void stg_digest_cache_destroy(struct stg_digest_cache *cache);

/**
 * The place of a digest, now the most recently used. False when it was not known: the place is then
 * new, or was taken from the digest that was used longest ago.
 */
bool stg_digest_cache_take(struct stg_digest_cache *cache,
                           const unsigned char digest[STG_SHA256_BYTES], uint32_t *ret_place);
/** Forget every digest. */
void stg_digest_cache_clear(struct stg_digest_cache *cache);

#endif
