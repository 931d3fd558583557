/*
 * cache.c: cache folders and packs as their inspector sees them: no device, no CUDA installed.
 *
 * Lists the files when opened; looks into one, or reads and verifies it, when it is asked for; and
 * keeps what it read so that text can be borrowed. Must not know how entries are laid out.
 */
#include <steergraph/cache.h>

#include <string.h>

#include "engine/cache_disk.h"
#include "engine/cache_explain.h"
#include "engine/cache_graphs.h"
#include "engine/cache_left_out.h"
#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/intmath.h"
#include "runtime/disk_cache.h"

#define MIN_PREFIX_CHARS 4

/* What is wrong with a file; `text` NULL: nothing is known to be. */
struct fault {
  const char *text;
  bool other_format;
};

/* A file of the cache. `hit` and `source` are filled when it was read and is good, `fault` when it
 * was read and is not; `facts` and `peek_fault` likewise when it was looked into. */
struct item {
  const char *path;
  uint64_t size_bytes;
  int64_t mtime_unix;
  struct stg_disk_hit *hit;
  char *source; /* NUL-terminated copy; stg_free */
  struct fault fault;
  struct stg_entry_facts *facts;
  struct fault peek_fault;
};

struct stg_cache {
  struct stg_disk_cache *disk;
  struct stg_cache_graphs *graphs;
  struct stg_left_outs left_out;
  struct stg_arena arena;
  struct item *items;
  size_t count;
  size_t capacity;
};

static bool reserve_one(stg_cache *cache) {
  if (cache->count < cache->capacity) {
    return true;
  }
  size_t capacity = cache->capacity == 0 ? 64 : 2 * cache->capacity;
  size_t bytes = 0;
  if (!stg_mul_size(capacity, sizeof *cache->items, &bytes)) {
    return false;
  }
  struct item *items = stg_realloc(cache->items, bytes);
  if (items == NULL) {
    return false;
  }
  cache->items = items;
  cache->capacity = capacity;
  return true;
}

static stg_status add_item(void *user, const struct stg_disk_item *found, stg_error *reterr) {
  stg_cache *cache = user;
  if (found->problem != NULL) {
    return stg_left_outs_add(&cache->left_out, &cache->arena, found, reterr);
  }
  if (!reserve_one(cache)) {
    return stg_error_memory(reterr, "a list of cache entries", cache->count * sizeof *cache->items);
  }
  struct item item = {.path = stg_arena_strdup(&cache->arena, found->path),
                      .size_bytes = found->size_bytes,
                      .mtime_unix = found->mtime_unix};
  cache->items[cache->count++] = item;
  return stg_arena_status(&cache->arena, reterr);
}

static stg_status open_listed(const struct stg_disk_options *options, stg_cache **ret_cache,
                              stg_error *reterr) {
  const bool has_layer = (options->path_list != NULL && options->path_list[0] != '\0') ||
                         (options->pack_path != NULL && options->pack_path[0] != '\0');
  if (!has_layer || ret_cache == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache folder is given");
  }
  stg_cache *cache = stg_calloc(1, sizeof *cache);
  if (cache == NULL) {
    return stg_error_memory(reterr, "a cache", sizeof *cache);
  }
  stg_status status = stg_disk_cache_open(options, &cache->disk, reterr);
  if (status == STG_OK) {
    status = stg_disk_cache_walk(cache->disk, add_item, cache, reterr);
  }
  if (status == STG_OK) {
    status =
        stg_cache_graphs_open(cache->disk, &cache->left_out, &cache->arena, &cache->graphs, reterr);
  }
  if (status != STG_OK) {
    stg_cache_close(cache);
    return status;
  }
  *ret_cache = cache;
  return STG_OK;
}

stg_status stg_cache_open(const char *path_list, stg_cache **ret_cache, stg_error *reterr) {
  const struct stg_disk_options options = {
      .path_list = path_list, .mode = STG_DISK_READ_ONLY, .trust = true, .strict = true};
  return open_listed(&options, ret_cache, reterr);
}

stg_status stg_cache_open_as_engine(const char *path_list, const char *pack_path, bool read_only,
                                    stg_cache **ret_cache, stg_error *reterr) {
  const struct stg_disk_options options = {
      .path_list = path_list,
      .pack_path = pack_path != NULL && pack_path[0] != '\0' ? pack_path : NULL,
      .mode = read_only ? STG_DISK_READ_ONLY : STG_DISK_READ_WRITE};
  return open_listed(&options, ret_cache, reterr);
}

/* Free what was read of a file. What was looked at stays. */
static void drop(struct item *item) {
  if (item->hit != NULL) {
    stg_disk_hit_finish(item->hit);
    stg_free(item->hit);
    stg_free(item->source);
  }
  item->hit = NULL;
  item->source = NULL;
  item->fault = (struct fault){0};
}

void stg_cache_close(stg_cache *cache) {
  if (cache == NULL) {
    return;
  }
  for (size_t i = 0; i < cache->count; i++) {
    drop(&cache->items[i]);
  }
  stg_free(cache->items);
  stg_cache_graphs_close(cache->graphs);
  stg_arena_finish(&cache->arena);
  stg_disk_cache_close(cache->disk);
  stg_free(cache);
}

const struct stg_disk_cache *stg_cache_disk(const stg_cache *cache) {
  return cache->disk;
}

struct stg_arena *stg_cache_arena(stg_cache *cache) {
  return &cache->arena;
}

struct stg_cache_graphs *stg_cache_graphs_of(const stg_cache *cache) {
  return cache->graphs;
}

char *stg_cache_last_folder(const char *path_list, struct stg_arena *arena) {
  size_t end = strlen(path_list);
  while (end > 0 && (path_list[end - 1] == ':' || path_list[end - 1] == '/')) {
    if (path_list[end - 1] == '/' && (end == 1 || path_list[end - 2] == ':')) {
      break; /* the root */
    }
    end--;
  }
  size_t begin = end;
  while (begin > 0 && path_list[begin - 1] != ':') {
    begin--;
  }
  return stg_arena_strndup(arena, path_list + begin, end - begin);
}

size_t stg_cache_count(const stg_cache *cache) {
  return cache == NULL ? 0 : cache->count;
}

const stg_cache_left_out *stg_cache_left_outs(const stg_cache *cache, size_t *ret_count) {
  *ret_count = cache == NULL ? 0 : cache->left_out.count;
  return cache == NULL ? NULL : cache->left_out.items;
}

/* A bad file is a fact about it, not a failure. */
static stg_status note_fault(stg_cache *cache, struct fault *fault, stg_status status,
                             const stg_error *error, stg_error *reterr) {
  if (status == STG_E_NO_MEMORY) {
    return stg_error_set(reterr, status, "%s", error->message);
  }
  fault->text = stg_arena_strdup(&cache->arena, error->message);
  fault->other_format = status == STG_E_UNSUPPORTED;
  return stg_arena_status(&cache->arena, reterr);
}

/* Read a file that was not read before. */
static stg_status read_item(stg_cache *cache, struct item *item, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  struct stg_disk_hit *hit = stg_calloc(1, sizeof *hit);
  if (hit == NULL) {
    return stg_error_memory(reterr, "a cache entry", sizeof *hit);
  }
  stg_status status = stg_disk_cache_read(cache->disk, item->path, hit, &error);
  if (status != STG_OK) {
    stg_free(hit);
    return note_fault(cache, &item->fault, status, &error, reterr);
  }
  item->hit = hit;
  const size_t source_size = hit->entry.source_size;
  item->source = stg_malloc(source_size + 1);
  if (item->source == NULL) {
    drop(item);
    return stg_error_memory(reterr, "the source of a cache entry", source_size + 1);
  }
  memcpy(item->source, hit->entry.source, source_size);
  item->source[source_size] = '\0';
  return STG_OK;
}

/* Look into a file that was not looked into before. */
static stg_status peek_item(stg_cache *cache, struct item *item, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  struct stg_entry_facts facts;
  stg_status status = stg_disk_cache_peek(cache->disk, item->path, &cache->arena, &facts, &error);
  if (status != STG_OK) {
    return note_fault(cache, &item->peek_fault, status, &error, reterr);
  }
  item->facts = stg_arena_alloc(&cache->arena, 1, sizeof facts);
  if (item->facts != NULL) {
    *item->facts = facts;
  }
  return stg_arena_status(&cache->arena, reterr);
}

static void describe_meta(const struct stg_entry_meta *meta, stg_cache_entry *ret) {
  ret->signature = meta->signature;
  ret->family = meta->family;
  ret->kernel = meta->kernel;
  ret->arch = meta->arch;
  ret->compiler = meta->compiler;
  ret->creator = meta->creator;
  ret->created_unix = meta->created_unix;
  ret->compile_ms = meta->compile_ms;
  ret->threads = meta->threads;
  ret->rows_per_block = meta->rows_per_block;
  ret->registers = meta->cubin.registers;
  ret->shared_bytes = meta->cubin.shared_bytes;
  ret->local_bytes = meta->cubin.local_bytes;
  ret->param_bytes = meta->cubin.param_bytes;
  ret->code_bytes = meta->cubin.code_bytes;
  ret->max_threads = meta->cubin.max_threads;
  ret->stage_bytes = meta->stage_bytes;
  ret->wide_stage_bytes = meta->wide_stage_bytes;
}

/* What is known whether an entry is good or not. */
static stg_cache_entry describe(const struct item *item, const struct fault *fault) {
  return (stg_cache_entry){.path = item->path,
                           .ok = fault->text == NULL,
                           .problem = fault->text,
                           .other_format = fault->other_format,
                           .size_bytes = item->size_bytes,
                           .used_unix = item->mtime_unix};
}

static stg_status find_item(stg_cache *cache, size_t index, const stg_cache_entry *ret_entry,
                            struct item **ret_item, stg_error *reterr) {
  if (cache == NULL || ret_entry == NULL || index >= cache->count) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache entry %zu, the cache has %zu", index,
                         stg_cache_count(cache));
  }
  *ret_item = &cache->items[index];
  return STG_OK;
}

stg_status stg_cache_get(stg_cache *cache, size_t index, stg_cache_entry *ret_entry,
                         stg_error *reterr) {
  struct item *item = NULL;
  stg_status status = find_item(cache, index, ret_entry, &item, reterr);
  if (status == STG_OK && item->hit == NULL && item->fault.text == NULL) {
    status = read_item(cache, item, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  *ret_entry = describe(item, &item->fault);
  if (item->hit != NULL) {
    const struct stg_entry *entry = &item->hit->entry;
    stg_key_hex(entry->key, ret_entry->key);
    describe_meta(&entry->meta, ret_entry);
    ret_entry->source = item->source;
    ret_entry->cubin = entry->cubin;
    ret_entry->material = entry->material;
    ret_entry->source_bytes = entry->source_size;
    ret_entry->cubin_bytes = entry->cubin_size;
    ret_entry->material_bytes = entry->material_size;
  }
  return STG_OK;
}

stg_status stg_cache_peek(stg_cache *cache, size_t index, stg_cache_entry *ret_entry,
                          stg_error *reterr) {
  struct item *item = NULL;
  stg_status status = find_item(cache, index, ret_entry, &item, reterr);
  if (status == STG_OK && item->facts == NULL && item->peek_fault.text == NULL) {
    status = peek_item(cache, item, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  *ret_entry = describe(item, &item->peek_fault);
  if (item->facts != NULL) {
    const struct stg_entry_head *head = &item->facts->head;
    stg_key_hex(head->key, ret_entry->key);
    describe_meta(&item->facts->meta, ret_entry);
    ret_entry->source_bytes = (size_t)head->parts[STG_ENTRY_SOURCE].size;
    ret_entry->cubin_bytes = (size_t)head->parts[STG_ENTRY_CUBIN].size;
    ret_entry->material_bytes = (size_t)head->parts[STG_ENTRY_MATERIAL].size;
  }
  return STG_OK;
}

void stg_cache_forget(stg_cache *cache, size_t index) {
  if (cache != NULL && index < cache->count) {
    drop(&cache->items[index]);
  }
}

/* The digits of the key and the compiler after it order the entries of one key. */
static bool is_newer(const char *path, const char *than) {
  return stg_disk_compare_compilers(stg_path_name(path) + STG_KEY_HEX_CHARS,
                                    stg_path_name(than) + STG_KEY_HEX_CHARS) > 0;
}

static bool same_key(const char *path, const char *other) {
  return strncmp(stg_path_name(path), stg_path_name(other), STG_KEY_HEX_CHARS) == 0;
}

/* The folder that is left out and would have the entries of a key; or NULL. */
static const stg_cache_left_out *may_hide(const stg_cache *cache, const char *key_prefix) {
  for (size_t i = 0; i < cache->left_out.count; i++) {
    const char *name = stg_path_name(cache->left_out.items[i].path);
    if (cache->left_out.items[i].is_folder && strncmp(name, key_prefix, strlen(name)) == 0) {
      return &cache->left_out.items[i];
    }
  }
  return NULL;
}

stg_status stg_cache_find(stg_cache *cache, const char *key_prefix, stg_cache_entry *ret_entry,
                          stg_error *reterr) {
  if (cache == NULL || key_prefix == NULL || ret_entry == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache or no key is given");
  }
  if (strspn(key_prefix, "0123456789abcdef") < MIN_PREFIX_CHARS) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "key '%.64s' does not begin with %d lower-case hex digits", key_prefix,
                         MIN_PREFIX_CHARS);
  }
  size_t best = cache->count;
  for (size_t i = 0; i < cache->count; i++) {
    const char *path = cache->items[i].path;
    if (!stg_disk_is_named(stg_path_name(path), key_prefix)) {
      continue;
    }
    if (best == cache->count ||
        (same_key(path, cache->items[best].path) && is_newer(path, cache->items[best].path))) {
      best = i;
    } else if (!same_key(path, cache->items[best].path)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "key '%.64s' is ambiguous: '%.*s' and '%.*s' begin so, give more digits",
                           key_prefix, STG_KEY_HEX_CHARS, stg_path_name(cache->items[best].path),
                           STG_KEY_HEX_CHARS, stg_path_name(path));
    }
  }
  if (best == cache->count) {
    const stg_cache_left_out *hidden = may_hide(cache, key_prefix);
    return stg_error_set(
        reterr, STG_E_NOT_FOUND, "no entry of %zu has a key that begins '%.64s'%s%s", cache->count,
        key_prefix, hidden != NULL ? "; left out: " : "", hidden != NULL ? hidden->problem : "");
  }
  return stg_cache_get(cache, best, ret_entry, reterr);
}

stg_status stg_cache_explain(stg_cache *cache, const stg_cache_entry *here,
                             const stg_cache_entry *there,
                             const stg_cache_difference **ret_differences, size_t *ret_count,
                             stg_error *reterr) {
  if (cache == NULL || here == NULL || there == NULL || ret_differences == NULL ||
      ret_count == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache or no two entries are given");
  }
  if (here->material == NULL || there->material == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "the key material of a cache entry is not read; take one of "
                         "stg_cache_get");
  }
  return stg_explain_entries(here, there, &cache->arena, ret_differences, ret_count, reterr);
}

stg_status stg_cache_quarantine(stg_cache *cache, const char *path, stg_error *reterr) {
  if (cache == NULL || path == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache or no path is given");
  }
  return stg_disk_cache_quarantine(cache->disk, path, reterr);
}
