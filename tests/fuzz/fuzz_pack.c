/*
 * fuzz_pack.c: the libFuzzer target of what reads packs, down to the entries in them.
 *
 * An input is tried as it is, and with the checksum of header and index made right, so that what
 * lies behind it is reached. Finds crashes, leaks, hangs and messages that break the rule of one
 * line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/entry.h"
#include "runtime/pack.h"
#include "runtime/pack_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

static void check_error(stg_status status, const stg_error *err) {
  if (status != STG_OK &&
      (err->code != status || err->message[0] == '\0' || strpbrk(err->message, "\r\n") != NULL)) {
    abort();
  }
}

/* A part of an entry is what stands there in all of it. */
static void read_part(const struct stg_pack *pack, size_t index, const char *bytes, size_t size) {
  stg_error err = STG_ERROR_INIT;
  const size_t offset = size / 3;
  const size_t part_size = size / 2;
  char *part = stg_malloc(part_size + 1);
  if (part == NULL) {
    return;
  }
  if (stg_pack_read_part(pack, index, offset, part, part_size, &err) != STG_OK ||
      memcmp(part, bytes + offset, part_size) != 0) {
    abort();
  }
  stg_free(part);
}

static void read_entry(const struct stg_pack *pack, size_t index) {
  const struct stg_pack_item item = stg_pack_item_at(pack, index);
  struct stg_arena arena = {0};
  struct stg_entry entry;
  stg_error err = STG_ERROR_INIT;
  char *bytes = NULL;
  size_t got = 0;
  size_t first = 0;
  const size_t count = stg_pack_find(pack, item.key, &first);
  if (index < first || index >= first + count) {
    abort(); /* every entry is found by its key */
  }
  stg_status status = stg_pack_read(pack, index, &bytes, &got, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    if (got != item.size_bytes) {
      abort();
    }
    read_part(pack, index, bytes, got);
    status = stg_entry_decode(bytes, got, &arena, &entry, &err);
    check_error(status, &err);
  }
  stg_arena_finish(&arena);
  stg_free(bytes);
}

/* Open the file as a pack and read all of it. */
static void read_pack(const char *path) {
  struct stg_pack *pack = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_pack_open(path, true, &pack, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    for (size_t i = 0; i < stg_pack_count(pack); i++) {
      read_entry(pack, i);
    }
    stg_pack_close(pack);
  }
}

/* Write the sizes and the checksum that the rest of the input calls for. */
static void seal(uint8_t *data, size_t size) {
  unsigned char sum[STG_KEY_BYTES];
  struct stg_strbuf summed = {0};
  for (size_t i = 0; i < 8; i++) {
    data[i] = (uint8_t)STG_PACK_MAGIC[i];
    data[STG_PACK_AT_FILE_BYTES + i] = (uint8_t)(size >> (8 * i));
  }
  const uint64_t index = stg_le_load(data + STG_PACK_AT_INDEX, 8);
  stg_strbuf_mem(&summed, data, STG_PACK_AT_SUM);
  if (index <= size) {
    stg_strbuf_mem(&summed, data + index, size - (size_t)index);
  }
  stg_key_store(stg_key_of(stg_strbuf_text(&summed), summed.len), sum);
  memcpy(data + STG_PACK_AT_SUM, sum, sizeof sum);
  stg_strbuf_finish(&summed);
}

static void put(int fd, const uint8_t *data, size_t size) {
  if (ftruncate(fd, (off_t)size) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  static int fd = -1;
  char path[64];
  if (fd < 0) {
    fd = memfd_create("pack", MFD_CLOEXEC);
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  put(fd, data, size);
  read_pack(path);
  if (size >= STG_PACK_HEADER_BYTES) {
    uint8_t *copy = stg_malloc(size);
    if (copy == NULL) {
      return 0;
    }
    memcpy(copy, data, size);
    seal(copy, size);
    put(fd, copy, size);
    stg_free(copy);
    read_pack(path);
  }
  return 0;
}
