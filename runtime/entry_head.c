/*
 * entry_head.c: the header of an entry, checked against its length; and a look at header and
 * metadata alone, for lists of many entries. Must not know where the bytes are.
 */
#include "runtime/entry_head.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/entry_meta.h"

static stg_status read_sizes(const unsigned char *header, uint64_t size,
                             struct stg_entry_head *head, stg_error *reterr) {
  uint64_t offset = STG_ENTRY_HEADER_BYTES;
  uint64_t room = size - STG_ENTRY_HEADER_BYTES - STG_ENTRY_FOOTER_BYTES;
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    uint64_t part_size = stg_le_load(header + STG_ENTRY_AT_SIZES + 8 * i, 8);
    if (part_size > room) {
      return stg_error_set(reterr, STG_E_CORRUPT, "part %zu of %llu bytes does not fit in %llu", i,
                           (unsigned long long)part_size, (unsigned long long)size);
    }
    head->parts[i].offset = offset;
    head->parts[i].size = part_size;
    offset += part_size;
    room -= part_size;
  }
  if (room != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%llu bytes too many", (unsigned long long)room);
  }
  return STG_OK;
}

stg_status stg_entry_head_read(const unsigned char *header, uint64_t size,
                               struct stg_entry_head *ret_head, stg_error *reterr) {
  if (size < STG_ENTRY_HEADER_BYTES + STG_ENTRY_FOOTER_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%llu bytes, an entry has at least %d",
                         (unsigned long long)size, STG_ENTRY_HEADER_BYTES + STG_ENTRY_FOOTER_BYTES);
  }
  if (memcmp(header, STG_ENTRY_MAGIC, sizeof STG_ENTRY_MAGIC - 1) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no cache entry: wrong magic");
  }
  unsigned version = (unsigned)stg_le_load(header + STG_ENTRY_AT_VERSION, 4);
  if (version != STG_ENTRY_FORMAT) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "entry format %u, this version reads %d",
                         version, STG_ENTRY_FORMAT);
  }
  struct stg_entry_head head = {.key = stg_key_load(header + STG_ENTRY_AT_KEY),
                                .flags = (uint32_t)stg_le_load(header + STG_ENTRY_AT_FLAGS, 4)};
  stg_status status = read_sizes(header, size, &head, reterr);
  if (status == STG_OK) {
    *ret_head = head;
  }
  return status;
}

static stg_status read_metadata(const struct stg_entry_bytes *bytes,
                                const struct stg_entry_head *head, struct stg_arena *arena,
                                struct stg_entry_meta *ret_meta, stg_error *reterr) {
  const size_t size = (size_t)head->parts[STG_ENTRY_METADATA].size;
  char *json = stg_malloc(size + 1);
  if (json == NULL) {
    return stg_error_memory(reterr, "the metadata of an entry", size + 1);
  }
  stg_status status =
      bytes->read(bytes->user, head->parts[STG_ENTRY_METADATA].offset, json, size, reterr);
  if (status == STG_OK) {
    status = stg_entry_meta_read(json, size, arena, ret_meta, reterr);
  }
  stg_free(json);
  return status;
}

stg_status stg_entry_peek(const struct stg_entry_bytes *bytes, struct stg_arena *arena,
                          struct stg_entry_facts *ret_facts, stg_error *reterr) {
  unsigned char header[STG_ENTRY_HEADER_BYTES] = {0};
  struct stg_entry_facts facts = {0};
  const size_t there = bytes->size < sizeof header ? (size_t)bytes->size : sizeof header;
  stg_status status = bytes->read(bytes->user, 0, header, there, reterr);
  if (status == STG_OK) {
    status = stg_entry_head_read(header, bytes->size, &facts.head, reterr);
  }
  if (status == STG_OK && facts.head.flags != 0) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "unknown flags 0x%x", (unsigned)facts.head.flags);
  }
  if (status == STG_OK) {
    status = read_metadata(bytes, &facts.head, arena, &facts.meta, reterr);
  }
  if (status == STG_OK) {
    *ret_facts = facts;
  }
  return status;
}
