/*
 * attention_cache.c: the member "cache": sequences of a fixed capacity, how long each is, and
 * blocks; and "tokens", K and V of a window that are given whole.
 *
 * Checks every product before anything of its size is allocated.
 */
#include <inttypes.h>

#include "runtime/base/intmath.h"
#include "specs/attention_reader.h"
#include "specs/random.h"

#define MAX_SEED (((int64_t)1 << 53) - 1)

static stg_status read_size(struct stg_attention_reader *reader, const struct stg_json *object,
                            const char *key, int64_t max, int64_t *ret) {
  struct stg_json member;
  stg_status status = stg_json_get(object, key, &member, reader->spec.err);
  return status == STG_OK ? stg_json_int(&member, 1, max, ret, reader->spec.err) : status;
}

static stg_status read_random_lengths(struct stg_attention_reader *reader,
                                      const struct stg_json *random, int32_t *lengths) {
  static const char *const keys[] = {"seed", "min", "max", NULL};
  const struct stg_spec_cache *cache = &reader->workload->cache;
  struct stg_json member;
  int64_t seed = 0;
  int64_t min = 0;
  int64_t max = cache->capacity;
  stg_status status = stg_json_check_keys(random, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(random, "seed", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 0, MAX_SEED, &seed, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, random, "min", 0, cache->capacity, &min);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, random, "max", min, cache->capacity, &max);
  }
  if (status != STG_OK) {
    return status;
  }
  for (uint32_t i = 0; i < cache->batch; i++) {
    lengths[i] =
        (int32_t)stg_random_between((uint64_t)seed, STG_ATTENTION_STREAM_LENGTHS, i, min, max);
  }
  return STG_OK;
}

static stg_status read_length_list(struct stg_attention_reader *reader, const struct stg_json *list,
                                   int32_t *lengths) {
  const struct stg_spec_cache *cache = &reader->workload->cache;
  const size_t n = stg_json_count(list);
  if (n != cache->batch) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, list,
                          "%zu lengths of %u sequences; give one for each, or one number", n,
                          cache->batch);
  }
  struct stg_json item;
  stg_status status = STG_OK;
  bool more = stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    int64_t length = 0;
    status = stg_json_int(&item, 0, cache->capacity, &length, reader->spec.err);
    lengths[item.index] = (int32_t)length;
  }
  return status;
}

/* A number for all, a list, or random ones; 0 where nothing is said, of tokens all. */
static stg_status read_lengths(struct stg_attention_reader *reader, const struct stg_json *object) {
  static const char *const keys[] = {"random", NULL};
  struct stg_spec_cache *cache = &reader->workload->cache;
  int32_t *lengths = stg_arena_alloc(reader->spec.arena, cache->batch, sizeof *lengths);
  if (lengths == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  cache->lengths = lengths;
  struct stg_json member;
  struct stg_json random;
  const bool given = stg_json_find(object, "lengths", &member);
  if (given && stg_json_is_array(&member)) {
    return read_length_list(reader, &member, lengths);
  }
  if (given && stg_json_is_object(&member)) {
    stg_status status = stg_json_check_keys(&member, keys, reader->spec.err);
    if (status == STG_OK) {
      status = stg_json_get(&member, "random", &random, reader->spec.err);
    }
    return status == STG_OK ? read_random_lengths(reader, &random, lengths) : status;
  }
  if (given && !stg_json_is_number(&member)) {
    return stg_json_unexpected(&member, "a length, a list of them, or {\"random\": ...}",
                               reader->spec.err);
  }
  int64_t length = cache->tokens ? cache->capacity : 0;
  stg_status status = STG_OK;
  if (given) {
    status = stg_json_int(&member, 0, cache->capacity, &length, reader->spec.err);
  }
  for (uint32_t i = 0; i < cache->batch; i++) {
    lengths[i] = (int32_t)length;
  }
  return status;
}

/* K of all layers. A paged cache has as many positions at most as its table has room for: were it
 * dense, an index of an element would fit 63 bits. */
static stg_status check_size(struct stg_attention_reader *reader, const struct stg_json *at) {
  const struct stg_attention_workload *w = reader->workload;
  const struct stg_spec_cache *cache = &w->cache;
  const int64_t positions =
      cache->block > 0 ? (int64_t)cache->n_blocks * cache->block : cache->batch * cache->capacity;
  const int64_t per_position = (int64_t)w->layers * w->kv_heads * w->dim;
  if (positions > STG_ATTENTION_MAX_CACHE_ELEMS / per_position) {
    return stg_json_error(reader->spec.err, STG_E_CAPACITY, at,
                          "K of %u layers would have %" PRId64 " positions of %u heads of %u; at "
                          "most %" PRId64 " elements",
                          w->layers, positions, w->kv_heads, w->dim, STG_ATTENTION_MAX_CACHE_ELEMS);
  }
  return STG_OK;
}

static stg_status read_blocks(struct stg_attention_reader *reader, const struct stg_json *at) {
  struct stg_spec_cache *cache = &reader->workload->cache;
  struct stg_json member;
  struct stg_json blocks;
  int64_t block = 0;
  int64_t n_blocks = 0;
  const bool has_blocks = stg_json_find(at, "blocks", &blocks);
  if (!stg_json_find(at, "block", &member)) {
    return !has_blocks ? STG_OK
                       : stg_json_error(reader->spec.err, STG_E_FORMAT, &blocks,
                                        "goes with 'block', the positions of one; leave it out");
  }
  stg_status status = stg_json_int(&member, STG_ATTENTION_MIN_BLOCK, STG_ATTENTION_MAX_BLOCK,
                                   &block, reader->spec.err);
  if (status == STG_OK && !stg_is_pow2((size_t)block)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " is not a power of two", block);
  }
  if (status == STG_OK) {
    status = read_size(reader, at, "blocks", STG_ATTENTION_MAX_BLOCKS, &n_blocks);
  }
  if (status != STG_OK) {
    return status;
  }
  cache->block = (uint32_t)block;
  cache->n_blocks = (uint32_t)n_blocks;
  const int64_t row = stg_attention_table_row(reader->workload);
  if (row > STG_ATTENTION_MAX_TABLE / cache->batch) {
    return stg_json_error(reader->spec.err, STG_E_CAPACITY, &member,
                          "a table of %u x %" PRId64 " blocks; at most %d entries, so give larger "
                          "blocks",
                          cache->batch, row, STG_ATTENTION_MAX_TABLE);
  }
  return STG_OK;
}

static stg_status read_tail(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const words[] = {"nan", "zeros", NULL};
  unsigned tail = STG_SPEC_TAIL_NAN;
  stg_status status = stg_spec_read_word(&reader->spec, at, "tail", words, &tail);
  reader->workload->cache.tail = (enum stg_spec_tail)tail;
  return status;
}

/* [batch, window] of 0 and 1, or [window] for every sequence. */
static stg_status read_key_mask(struct stg_attention_reader *reader, const struct stg_json *at) {
  struct stg_spec_cache *cache = &reader->workload->cache;
  struct stg_json list;
  if (!stg_json_find(at, "key_mask", &list)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_array(&list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const size_t window = (size_t)cache->capacity;
  const size_t n = stg_json_count(&list);
  if (n != window && n != window * cache->batch) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                          "%zu entries; give one for each of the %zu tokens of a window, or of all "
                          "%u windows",
                          n, window, cache->batch);
  }
  uint8_t *mask = stg_arena_alloc(reader->spec.arena, n, 1);
  if (mask == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  struct stg_json item;
  bool more = stg_json_first(&list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    int64_t reads = 0;
    status = stg_json_int(&item, 0, 1, &reads, reader->spec.err);
    mask[item.index] = (uint8_t)reads;
  }
  cache->one_mask = n == window;
  cache->key_mask = mask;
  return status;
}

static stg_status read_members(struct stg_attention_reader *reader, const struct stg_json *at,
                               const char *capacity_key) {
  struct stg_spec_cache *cache = &reader->workload->cache;
  int64_t batch = 0;
  stg_status status = read_size(reader, at, "batch", STG_ATTENTION_MAX_BATCH, &batch);
  cache->batch = (uint32_t)batch;
  if (status == STG_OK) {
    status = read_size(reader, at, capacity_key, STG_ATTENTION_MAX_CAPACITY, &cache->capacity);
  }
  if (status == STG_OK && !cache->tokens) {
    status = read_blocks(reader, at);
  }
  if (status == STG_OK) {
    status = check_size(reader, at);
  }
  if (status == STG_OK) {
    status = read_lengths(reader, at);
  }
  return status == STG_OK ? read_tail(reader, at) : status;
}

static stg_status read_tokens(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const keys[] = {"batch", "window", "lengths", "key_mask", "tail", NULL};
  reader->workload->cache.tokens = true;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = read_members(reader, at, "window");
  }
  return status == STG_OK ? read_key_mask(reader, at) : status;
}

/* A geometry's layers are a cache's. */
static stg_status check_layers(struct stg_attention_reader *reader, const struct stg_json *root) {
  struct stg_json geometry;
  struct stg_json layers;
  if (reader->workload->layers == 1 || !stg_json_find(root, "geometry", &geometry) ||
      !stg_json_find(&geometry, "layers", &layers)) {
    return STG_OK;
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, &layers,
                        "%u layers are those of a cache, and there is none; leave it out",
                        reader->workload->layers);
}

stg_status stg_attention_read_cache(struct stg_attention_reader *reader,
                                    const struct stg_json *root) {
  static const char *const keys[] = {"batch",   "capacity", "block", "blocks",
                                     "lengths", "tail",     NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json at;
  struct stg_json tokens;
  const bool has_cache = stg_json_find(root, "cache", &at);
  const bool has_tokens = stg_json_find(root, "tokens", &tokens);
  if (has_cache && has_tokens) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &tokens,
                          "stands in the place of 'cache'; leave one out");
  }
  w->cache.exists = has_cache || has_tokens;
  stg_status status = STG_OK;
  if (has_cache) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
    status = status == STG_OK ? read_members(reader, &at, "capacity") : status;
  } else {
    status = w->kind == STG_SPEC_STEP || (w->kind == STG_SPEC_DECODE && !has_tokens)
                 ? stg_json_get(root, "cache", &at, reader->spec.err)
                 : check_layers(reader, root);
    status = status == STG_OK && has_tokens ? read_tokens(reader, &tokens) : status;
  }
  w->batch = w->cache.batch;
  return status;
}
