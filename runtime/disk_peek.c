/*
 * disk_peek.c: what an entry of the walk says of itself, without reading all of it.
 *
 * A list of ten thousand entries is a gigabyte; their headers and metadata are a few megabytes.
 * What is seen so is not verified. Must not know how an entry is laid out.
 */
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"
#include "runtime/disk_pack.h"
#include "runtime/pack.h"

static stg_status read_file(void *user, uint64_t offset, void *ret_data, size_t size,
                            stg_error *reterr) {
  return stg_file_read_at(user, offset, ret_data, size, reterr);
}

static stg_status peek_file(const char *path, struct stg_arena *arena,
                            struct stg_entry_facts *ret_facts, stg_error *reterr) {
  struct stg_file_pieces file = {0};
  stg_status status = stg_file_open(path, &file, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_entry_bytes bytes = {read_file, &file, file.size};
  status = file.size > STG_ENTRY_MAX_BYTES ? stg_error_set(reterr, STG_E_CORRUPT, "over %llu bytes",
                                                           (unsigned long long)STG_ENTRY_MAX_BYTES)
                                           : stg_entry_peek(&bytes, arena, ret_facts, reterr);
  stg_file_close(&file);
  return status;
}

/* An entry of a pack. */
struct packed {
  const struct stg_pack *pack;
  size_t index;
};

static stg_status read_packed(void *user, uint64_t offset, void *ret_data, size_t size,
                              stg_error *reterr) {
  const struct packed *packed = user;
  return stg_pack_read_part(packed->pack, packed->index, offset, ret_data, size, reterr);
}

static stg_status peek_packed(const struct stg_disk_layer *layer, const char *path,
                              struct stg_arena *arena, struct stg_entry_facts *ret_facts,
                              stg_error *reterr) {
  struct packed packed = {.pack = layer->pack};
  stg_status status = stg_disk_pack_find(layer, path, &packed.index, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_entry_bytes bytes = {read_packed, &packed,
                                        stg_pack_item_at(packed.pack, packed.index).size_bytes};
  return stg_entry_peek(&bytes, arena, ret_facts, reterr);
}

stg_status stg_disk_cache_peek(const struct stg_disk_cache *cache, const char *path,
                               struct stg_arena *arena, struct stg_entry_facts *ret_facts,
                               stg_error *reterr) {
  const struct stg_disk_layer *layer = stg_disk_layer_of(cache, path);
  struct stg_entry_facts facts = {0};
  stg_status status = layer != NULL && layer->pack != NULL
                          ? peek_packed(layer, path, arena, &facts, reterr)
                          : peek_file(path, arena, &facts, reterr);
  if (status == STG_OK) {
    status = stg_disk_check_name(path, facts.head.key, facts.meta.compiler, reterr);
  }
  if (status == STG_OK) {
    *ret_facts = facts;
  }
  return status;
}
