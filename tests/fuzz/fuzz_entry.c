/*
 * fuzz_entry.c: the libFuzzer target of what reads cache entries.
 *
 * An input is tried as it is; with sizes, key and checksum made right; and with key material that
 * says what the metadata say, so that all of an entry is reached. Finds crashes, leaks, hangs,
 * messages that break the rule of one line, and entries that are taken without being ones.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/entry.h"
#include "runtime/entry_head.h"
#include "runtime/entry_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

/* A part of an input, as large as its header says where there is room for that. */
struct piece {
  const char *data;
  size_t size;
};

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static void check_error(stg_status status, const stg_error *err) {
  check(status == STG_OK ||
        (err->code == status && err->message[0] != '\0' && strpbrk(err->message, "\r\n") == NULL));
}

/* What was read is written, and reads back as the same. */
static void check_metadata(const struct stg_entry_meta *meta, struct stg_arena *arena) {
  struct stg_strbuf first = {0}, second = {0};
  struct stg_entry_meta again;
  stg_entry_meta_write(meta, &first);
  check(stg_entry_meta_read(first.data, first.len, arena, &again, NULL) == STG_OK);
  again.cubin = meta->cubin;
  stg_entry_meta_write(&again, &second);
  check(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
  stg_strbuf_finish(&first);
  stg_strbuf_finish(&second);
}

/* What was taken is an entry: its parts are the bytes, in order, and its cubin is of its kernel. */
static void check_entry(const struct stg_entry *entry, const char *bytes, size_t size) {
  struct stg_cubin_info cubin;
  uint32_t sm = 0;
  check(entry->material == bytes + STG_ENTRY_HEADER_BYTES &&
        entry->metadata == entry->material + entry->material_size &&
        entry->source == entry->metadata + entry->metadata_size &&
        (const char *)entry->cubin == entry->source + entry->source_size &&
        (const char *)entry->cubin + entry->cubin_size + STG_ENTRY_FOOTER_BYTES == bytes + size);
  check(stg_key_equal(entry->key, stg_key_of(entry->material, entry->material_size)));
  check(stg_cubin_read(entry->cubin, entry->cubin_size, entry->meta.kernel, &cubin, NULL) ==
        STG_OK);
  check(stg_arch_parse(entry->meta.arch, &sm) && sm == cubin.sm && sm == entry->meta.cubin.sm);
  check_metadata(&entry->meta, entry->arena);
}

/* struct stg_entry_bytes.read, of bytes in memory. */
static stg_status read_range(void *user, uint64_t offset, void *ret_data, size_t size,
                             stg_error *reterr) {
  const struct piece *bytes = user;
  (void)reterr;
  check(offset <= bytes->size && size <= bytes->size - offset);
  if (size > 0) {
    memcpy(ret_data, bytes->data + offset, size);
  }
  return STG_OK;
}

/* What an entry says of itself is what all of it says; STG_OK or why it says nothing. */
static stg_status peek(const char *bytes, size_t size, const struct stg_entry *entry) {
  struct piece all = {bytes, size};
  const struct stg_entry_bytes from = {.read = read_range, .user = &all, .size = size};
  struct stg_arena arena = {0};
  struct stg_entry_facts facts;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_entry_peek(&from, &arena, &facts, &err);
  check_error(status, &err);
  if (entry != NULL) {
    check(status == STG_OK && stg_key_equal(facts.head.key, entry->key) &&
          strcmp(facts.meta.signature, entry->meta.signature) == 0 &&
          strcmp(facts.meta.compiler, entry->meta.compiler) == 0 &&
          facts.head.parts[STG_ENTRY_CUBIN].size == entry->cubin_size);
  }
  stg_arena_finish(&arena);
  return status;
}

static void read_entry(const char *bytes, size_t size) {
  struct stg_arena arena = {0};
  struct stg_entry entry;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_entry_decode(bytes, size, &arena, &entry, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    check_entry(&entry, bytes, size);
  }
  const stg_status peeked = peek(bytes, size, status == STG_OK ? &entry : NULL);
  check(status != STG_E_UNSUPPORTED || peeked == STG_E_UNSUPPORTED);
  stg_arena_finish(&arena);
}

/* Parts that fill the bytes: each as its size says, or all that is left; the cubin takes the rest.
 */
static void cut(const uint8_t *data, size_t size, struct piece *ret_parts) {
  size_t at = STG_ENTRY_HEADER_BYTES;
  const size_t end = size - STG_ENTRY_FOOTER_BYTES;
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    const uint64_t said = stg_le_load(data + STG_ENTRY_AT_SIZES + 8 * i, 8);
    const size_t room = end - at;
    ret_parts[i].data = (const char *)data + at;
    ret_parts[i].size = i == STG_ENTRY_CUBIN || said > room ? room : (size_t)said;
    at += ret_parts[i].size;
  }
}

/* Read an entry of these parts whose header and checksum are right, in memory of just its size. */
static void seal_and_read(const struct piece *parts, uint32_t flags) {
  unsigned char sum[STG_KEY_BYTES];
  struct stg_strbuf out = {0};
  stg_strbuf_str(&out, STG_ENTRY_MAGIC);
  stg_le_append(&out, STG_ENTRY_FORMAT, 4);
  stg_le_append(&out, flags, 4);
  stg_key_store(stg_key_of(parts[STG_ENTRY_MATERIAL].data, parts[STG_ENTRY_MATERIAL].size), sum);
  stg_strbuf_mem(&out, sum, sizeof sum);
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    stg_le_append(&out, parts[i].size, 8);
  }
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    stg_strbuf_mem(&out, parts[i].data, parts[i].size);
  }
  stg_key_store(stg_key_of(stg_strbuf_text(&out), out.len), sum);
  stg_strbuf_mem(&out, sum, sizeof sum);
  char *bytes = stg_malloc(out.len);
  if (bytes != NULL) {
    memcpy(bytes, out.data, out.len);
    read_entry(bytes, out.len);
  }
  stg_free(bytes);
  stg_strbuf_finish(&out);
}

/* The same with key material of these metadata and this source. */
static void agree_and_read(struct piece *parts) {
  struct stg_arena arena = {0};
  struct stg_entry_meta meta;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_entry_meta_read(parts[STG_ENTRY_METADATA].data,
                                          parts[STG_ENTRY_METADATA].size, &arena, &meta, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    struct stg_strbuf material = {0};
    const size_t prelude = parts[STG_ENTRY_SOURCE].size / 2;
    stg_material_text(&material, STG_FIELD_SIGNATURE, meta.signature);
    stg_material_text(&material, STG_FIELD_KERNEL, meta.kernel);
    stg_material_field(&material, STG_FIELD_PRELUDE, parts[STG_ENTRY_SOURCE].data, prelude);
    stg_material_field(&material, STG_FIELD_SOURCE, parts[STG_ENTRY_SOURCE].data + prelude,
                       parts[STG_ENTRY_SOURCE].size - prelude);
    stg_material_text(&material, STG_FIELD_ARCH, meta.arch);
    parts[STG_ENTRY_MATERIAL] = (struct piece){stg_strbuf_text(&material), material.len};
    seal_and_read(parts, 0);
    stg_strbuf_finish(&material);
  }
  stg_arena_finish(&arena);
}

/* Another format with a right checksum. */
static void read_other_format(const uint8_t *data, size_t size) {
  char *bytes = stg_malloc(size);
  if (bytes != NULL) {
    memcpy(bytes, data, size);
    stg_key_store(stg_key_of(bytes, size - STG_ENTRY_FOOTER_BYTES),
                  (unsigned char *)bytes + size - STG_ENTRY_FOOTER_BYTES);
    read_entry(bytes, size);
  }
  stg_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  struct piece parts[STG_ENTRY_N_PARTS];
  read_entry((const char *)data, size);
  if (size >= STG_ENTRY_HEADER_BYTES + STG_ENTRY_FOOTER_BYTES) {
    if (stg_le_load(data + STG_ENTRY_AT_VERSION, 4) != STG_ENTRY_FORMAT) {
      read_other_format(data, size);
    }
    cut(data, size, parts);
    seal_and_read(parts, (uint32_t)stg_le_load(data + STG_ENTRY_AT_FLAGS, 4));
    agree_and_read(parts);
  }
  return 0;
}
