/*
 * pack.c: open a pack, check its index against itself and the file, find and read entries.
 *
 * After open every offset and size of the index is known to lie in the file, so that finding and
 * reading check nothing but what the disk gives. Must not know what is in an entry.
 */
#include "runtime/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/entry.h"
#include "runtime/owner.h"
#include "runtime/pack_format.h"

struct stg_pack {
  int fd;
  char *path;
  int64_t mtime_unix;
  uint64_t index_at; /* where it begins in the file: pieces end there */
  size_t n_entries;
  size_t n_pieces;
  unsigned char *summed; /* what the header's checksum is over: of the header, then the index */
  const unsigned char *entries;
  const unsigned char *pieces;
};

bool stg_pack_is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* STG_E_CORRUPT when the file ends before. */
static stg_status read_at(const struct stg_pack *pack, uint64_t offset, void *data, size_t size,
                          stg_error *reterr) {
  unsigned char *bytes = data;
  size_t done = 0;
  while (done < size) {
    ssize_t got = pread(pack->fd, bytes + done, size - done, (off_t)(offset + done));
    if (got < 0 && errno != EINTR) {
      return stg_error_io(reterr, errno, "read cache pack", pack->path);
    }
    if (got == 0) {
      return stg_error_set(reterr, STG_E_CORRUPT, "it ends at byte %llu",
                           (unsigned long long)(offset + done));
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return STG_OK;
}

static stg_status open_file(const char *path, bool trust, int *ret_fd, struct stat *ret_info,
                            stg_error *reterr) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int errnum = fd < 0 || fstat(fd, ret_info) != 0 ? errno : 0;
  stg_status status = STG_OK;
  if (errnum == ENOENT) {
    status = stg_error_set(reterr, STG_E_NOT_FOUND, "cache pack '%s' is not there", path);
  } else if (errnum != 0) {
    status = stg_error_io(reterr, errnum, "read cache pack", path);
  } else if (!S_ISREG(ret_info->st_mode)) {
    status = stg_error_set(reterr, STG_E_IO, "cache pack '%s' is not a file", path);
  } else if (!trust) {
    status = stg_owner_check(ret_info, "pack", path, reterr);
  }
  if (status == STG_OK) {
    *ret_fd = fd;
  } else if (fd >= 0) {
    close(fd);
  }
  return status;
}

/* The header against the file's size: afterwards the index is known to fill the file's end. */
static stg_status read_header(struct stg_pack *pack, uint64_t file_bytes, unsigned char *header,
                              stg_error *reterr) {
  if (file_bytes < STG_PACK_HEADER_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%llu bytes, a pack has at least %d",
                         (unsigned long long)file_bytes, STG_PACK_HEADER_BYTES);
  }
  stg_status status = read_at(pack, 0, header, STG_PACK_HEADER_BYTES, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (memcmp(header, STG_PACK_MAGIC, STG_PACK_MAGIC_BYTES) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no pack: wrong magic");
  }
  unsigned version = (unsigned)stg_le_load(header + STG_PACK_AT_VERSION, 4);
  if (version != STG_PACK_FORMAT) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "pack format %u, this version reads %d",
                         version, STG_PACK_FORMAT);
  }
  uint64_t said_bytes = stg_le_load(header + STG_PACK_AT_FILE_BYTES, 8);
  if (said_bytes != file_bytes) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%llu bytes, its header says %llu",
                         (unsigned long long)file_bytes, (unsigned long long)said_bytes);
  }
  pack->index_at = stg_le_load(header + STG_PACK_AT_INDEX, 8);
  pack->n_entries = (size_t)stg_le_load(header + STG_PACK_AT_ENTRIES, 4);
  pack->n_pieces = (size_t)stg_le_load(header + STG_PACK_AT_PIECES, 4);
  uint64_t index_bytes = (uint64_t)pack->n_entries * STG_PACK_ENTRY_BYTES +
                         (uint64_t)pack->n_pieces * STG_PACK_PIECE_BYTES;
  if (pack->index_at < STG_PACK_HEADER_BYTES || pack->index_at > file_bytes ||
      file_bytes - pack->index_at != index_bytes) {
    return stg_error_set(reterr, STG_E_CORRUPT, "an index of %llu bytes does not end the file",
                         (unsigned long long)index_bytes);
  }
  return STG_OK;
}

/* Read the index behind the part of the header that is summed with it. */
static stg_status read_index(struct stg_pack *pack, const unsigned char *header,
                             stg_error *reterr) {
  size_t entries_bytes = pack->n_entries * STG_PACK_ENTRY_BYTES;
  size_t size = STG_PACK_AT_SUM + entries_bytes + pack->n_pieces * STG_PACK_PIECE_BYTES;
  unsigned char sum[STG_KEY_BYTES];
  pack->summed = stg_malloc(size);
  if (pack->summed == NULL) {
    return stg_error_memory(reterr, "the index of a pack", size);
  }
  pack->entries = pack->summed + STG_PACK_AT_SUM;
  pack->pieces = pack->entries + entries_bytes;
  memcpy(pack->summed, header, STG_PACK_AT_SUM);
  stg_status status =
      read_at(pack, pack->index_at, pack->summed + STG_PACK_AT_SUM, size - STG_PACK_AT_SUM, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_key_store(stg_key_of(pack->summed, size), sum);
  if (memcmp(sum, header + STG_PACK_AT_SUM, sizeof sum) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "checksum does not match its header and index");
  }
  if (stg_le_load(header + STG_PACK_AT_FLAGS, 4) != 0 ||
      stg_le_load(header + STG_PACK_AT_ZERO, 8) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "unknown flags 0x%x",
                         (unsigned)stg_le_load(header + STG_PACK_AT_FLAGS, 4));
  }
  return STG_OK;
}

static const unsigned char *entry_at(const struct stg_pack *pack, size_t index) {
  return pack->entries + index * STG_PACK_ENTRY_BYTES;
}

/* Keys stand as their digits read, and zeros follow the compiler, so bytes give the order. */
static bool is_ascending(const struct stg_pack *pack, size_t index) {
  return index == 0 ||
         memcmp(entry_at(pack, index - 1), entry_at(pack, index), STG_PACK_ENTRY_FIRST) < 0;
}

/* Letters, digits and such, then zeros to the end of the field. */
static bool has_compiler(const unsigned char *entry) {
  const char *compiler = (const char *)entry + STG_PACK_ENTRY_COMPILER;
  const char *end = memchr(compiler, '\0', STG_COMPILER_CHARS);
  if (end == NULL || !stg_compiler_is_plain(compiler)) {
    return false;
  }
  for (const char *c = end; c < compiler + STG_COMPILER_CHARS; c++) {
    if (*c != '\0') {
      return false;
    }
  }
  return true;
}

static bool is_in_blobs(const struct stg_pack *pack, size_t piece, uint64_t *ret_bytes) {
  const unsigned char *p = pack->pieces + piece * STG_PACK_PIECE_BYTES;
  uint64_t offset = stg_le_load(p, 8);
  uint64_t size = stg_le_load(p + STG_PACK_PIECE_SIZE, 8);
  *ret_bytes = size;
  return offset >= STG_PACK_HEADER_BYTES && offset <= pack->index_at && size > 0 &&
         size <= pack->index_at - offset;
}

/* The pieces of an entry lie among the blobs, and are together as long as it. */
static bool has_pieces(const struct stg_pack *pack, const unsigned char *entry) {
  size_t first = (size_t)stg_le_load(entry + STG_PACK_ENTRY_FIRST, 4);
  size_t count = (size_t)stg_le_load(entry + STG_PACK_ENTRY_PIECES, 4);
  uint64_t left = stg_le_load(entry + STG_PACK_ENTRY_SIZE, 8);
  if (first > pack->n_pieces || count > pack->n_pieces - first || left > STG_ENTRY_MAX_BYTES) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    uint64_t size = 0;
    if (!is_in_blobs(pack, first + i, &size) || size > left) {
      return false;
    }
    left -= size;
  }
  return count > 0 && left == 0;
}

static stg_status check_index(const struct stg_pack *pack, stg_error *reterr) {
  for (size_t i = 0; i < pack->n_entries; i++) {
    if (!is_ascending(pack, i) || !has_compiler(entry_at(pack, i)) ||
        !has_pieces(pack, entry_at(pack, i))) {
      return stg_error_set(reterr, STG_E_CORRUPT, "entry %zu of its index is malformed", i);
    }
  }
  return STG_OK;
}

stg_status stg_pack_open(const char *path, bool trust, struct stg_pack **ret_pack,
                         stg_error *reterr) {
  struct stat info = {0};
  unsigned char header[STG_PACK_HEADER_BYTES] = {0};
  int fd = -1;
  stg_status status = open_file(path, trust, &fd, &info, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_pack *pack = stg_calloc(1, sizeof *pack);
  if (pack == NULL) {
    close(fd);
    return stg_error_memory(reterr, "a pack", sizeof *pack);
  }
  pack->fd = fd;
  pack->mtime_unix = (int64_t)info.st_mtime;
  pack->path = stg_strdup(path);
  status = pack->path != NULL ? read_header(pack, (uint64_t)info.st_size, header, reterr)
                              : stg_error_memory(reterr, "a path", strlen(path));
  if (status == STG_OK) {
    status = read_index(pack, header, reterr);
  }
  if (status == STG_OK) {
    status = check_index(pack, reterr);
  }
  if (status == STG_E_CORRUPT || status == STG_E_UNSUPPORTED) {
    stg_error_prefix(reterr, "cache pack '%s': ", path);
  }
  if (status != STG_OK) {
    stg_pack_close(pack);
    return status;
  }
  *ret_pack = pack;
  return STG_OK;
}

void stg_pack_close(struct stg_pack *pack) {
  if (pack == NULL) {
    return;
  }
  close(pack->fd);
  stg_free(pack->path);
  stg_free(pack->summed);
  stg_free(pack);
}

size_t stg_pack_count(const struct stg_pack *pack) {
  return pack->n_entries;
}

struct stg_pack_item stg_pack_item_at(const struct stg_pack *pack, size_t index) {
  const unsigned char *entry = entry_at(pack, index);
  return (struct stg_pack_item){
      .key = stg_key_load(entry),
      .compiler = (const char *)entry + STG_PACK_ENTRY_COMPILER,
      .size_bytes = stg_le_load(entry + STG_PACK_ENTRY_SIZE, 8),
  };
}

int64_t stg_pack_mtime_unix(const struct stg_pack *pack) {
  return pack->mtime_unix;
}

size_t stg_pack_find(const struct stg_pack *pack, struct stg_key key, size_t *ret_first) {
  unsigned char wanted[STG_KEY_BYTES];
  size_t low = 0;
  size_t high = pack->n_entries;
  stg_key_store(key, wanted);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memcmp(entry_at(pack, middle), wanted, sizeof wanted) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  size_t end = low;
  while (end < pack->n_entries && memcmp(entry_at(pack, end), wanted, sizeof wanted) == 0) {
    end++;
  }
  *ret_first = low;
  return end - low;
}

stg_status stg_pack_read_part(const struct stg_pack *pack, size_t index, uint64_t offset,
                              void *ret_data, size_t size, stg_error *reterr) {
  const unsigned char *entry = entry_at(pack, index);
  const unsigned char *piece =
      pack->pieces + (size_t)stg_le_load(entry + STG_PACK_ENTRY_FIRST, 4) * STG_PACK_PIECE_BYTES;
  unsigned char *data = ret_data;
  stg_status status = STG_OK;
  for (; size > 0 && status == STG_OK; piece += STG_PACK_PIECE_BYTES) {
    uint64_t piece_bytes = stg_le_load(piece + STG_PACK_PIECE_SIZE, 8);
    if (offset >= piece_bytes) {
      offset -= piece_bytes;
      continue;
    }
    size_t got = piece_bytes - offset < size ? (size_t)(piece_bytes - offset) : size;
    status = read_at(pack, stg_le_load(piece, 8) + offset, data, got, reterr);
    data += got;
    size -= got;
    offset = 0;
  }
  return status;
}

stg_status stg_pack_read(const struct stg_pack *pack, size_t index, char **ret_bytes,
                         size_t *ret_size, stg_error *reterr) {
  size_t size = (size_t)stg_le_load(entry_at(pack, index) + STG_PACK_ENTRY_SIZE, 8);
  char *bytes = stg_malloc(size);
  if (bytes == NULL) {
    return stg_error_memory(reterr, "a cache entry", size);
  }
  stg_status status = stg_pack_read_part(pack, index, 0, bytes, size, reterr);
  if (status != STG_OK) {
    stg_free(bytes);
    return status;
  }
  *ret_bytes = bytes;
  *ret_size = size;
  return STG_OK;
}
