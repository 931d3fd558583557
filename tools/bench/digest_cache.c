/*
 * bench/digest_cache.c: see bench/digest_cache.h.
 */
#include "tools/bench/digest_cache.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

#define NONE UINT32_MAX

struct entry {
  unsigned char digest[STG_SHA256_BYTES];
  uint32_t next_in_bucket;
  uint32_t older, newer; /* in the order of use */
};

struct stg_digest_cache {
  struct entry *entries;
  uint32_t *buckets; /* heads of chains, a power of two of them */
  uint32_t capacity, count, n_buckets;
  uint32_t oldest, newest;
};

stg_status stg_digest_cache_create(uint32_t capacity, struct stg_digest_cache **ret_cache,
                                   stg_error *reterr) {
  struct stg_digest_cache *cache = stg_calloc(1, sizeof *cache);
  if (cache == NULL) {
    return stg_error_memory(reterr, "the digest cache", sizeof *cache);
  }
  cache->capacity = capacity;
  cache->n_buckets = (uint32_t)stg_next_pow2(2 * (size_t)capacity);
  cache->entries = stg_calloc(capacity, sizeof *cache->entries);
  cache->buckets = stg_calloc(cache->n_buckets, sizeof *cache->buckets);
  if (cache->entries == NULL || cache->buckets == NULL) {
    stg_digest_cache_destroy(cache);
    return stg_error_memory(reterr, "the digest cache", capacity * sizeof(struct entry));
  }
  stg_digest_cache_clear(cache);
  *ret_cache = cache;
  return STG_OK;
}

void stg_digest_cache_destroy(struct stg_digest_cache *cache) {
  if (cache != NULL) {
    stg_free(cache->entries);
    stg_free(cache->buckets);
    stg_free(cache);
  }
}

void stg_digest_cache_clear(struct stg_digest_cache *cache) {
  memset(cache->buckets, 0xff, cache->n_buckets * sizeof *cache->buckets);
  cache->count = 0;
  cache->oldest = NONE;
  cache->newest = NONE;
}

/* A digest is as good as random, so its first bytes choose the bucket. */
static uint32_t *bucket_of(struct stg_digest_cache *cache, const unsigned char *digest) {
  uint32_t word;
  memcpy(&word, digest, sizeof word);
  return &cache->buckets[word & (cache->n_buckets - 1)];
}

static void unlink_use(struct stg_digest_cache *cache, uint32_t place) {
  const struct entry *e = &cache->entries[place];
  *(e->older != NONE ? &cache->entries[e->older].newer : &cache->oldest) = e->newer;
  *(e->newer != NONE ? &cache->entries[e->newer].older : &cache->newest) = e->older;
}

static void link_newest(struct stg_digest_cache *cache, uint32_t place) {
  struct entry *e = &cache->entries[place];
  e->older = cache->newest;
  e->newer = NONE;
  *(cache->newest != NONE ? &cache->entries[cache->newest].newer : &cache->oldest) = place;
  cache->newest = place;
}

static void unlink_bucket(struct stg_digest_cache *cache, uint32_t place) {
  uint32_t *link = bucket_of(cache, cache->entries[place].digest);
  while (*link != place) {
    link = &cache->entries[*link].next_in_bucket;
  }
  *link = cache->entries[place].next_in_bucket;
}

/* A place that is free, or that of the oldest. */
static uint32_t make_room(struct stg_digest_cache *cache) {
  if (cache->count < cache->capacity) {
    return cache->count++;
  }
  const uint32_t place = cache->oldest;
  unlink_use(cache, place);
  unlink_bucket(cache, place);
  return place;
}

bool stg_digest_cache_take(struct stg_digest_cache *cache,
                           const unsigned char digest[STG_SHA256_BYTES], uint32_t *ret_place) {
  for (uint32_t i = *bucket_of(cache, digest); i != NONE; i = cache->entries[i].next_in_bucket) {
    if (memcmp(cache->entries[i].digest, digest, STG_SHA256_BYTES) == 0) {
      unlink_use(cache, i);
      link_newest(cache, i);
      *ret_place = i;
      return true;
    }
  }
  const uint32_t place = make_room(cache);
  uint32_t *head = bucket_of(cache, digest);
  memcpy(cache->entries[place].digest, digest, STG_SHA256_BYTES);
  cache->entries[place].next_in_bucket = *head;
  *head = place;
  link_newest(cache, place);
  *ret_place = place;
  return false;
}
