/*
 * cubin_elf.c: a little-endian ELF64 reader for what NVRTC and ptxas write.
 *
 * The facts of a kernel K stand in the sections .text.K, .nv.info, .nv.info.K, .nv.shared.K and
 * .nv.constant0.K. The image may be unaligned and hostile: fields are copied out byte by byte, and
 * no offset is followed before it is checked. Must not know CUDA, files or cache entries.
 */
#include "runtime/cubin_elf.h"

#include <string.h>

#define ELF_HEADER_BYTES 64
#define SECTION_HEADER_BYTES 64
#define ELF_MACHINE_CUDA 190
#define SECTION_NULL 0
#define SECTION_NOBITS 8

/* CUDA 12 writes 7 and keeps the sm number in the low byte of e_flags, CUDA 13 writes 8 and keeps
 * it one byte higher. */
#define ABI_VERSION_CUDA_12 7

/* How an attribute's value is stored. */
enum { FORMAT_NONE = 1, FORMAT_BYTE = 2, FORMAT_HALF = 3, FORMAT_SIZED = 4 };

uint32_t stg_elf_load(const unsigned char *p, size_t width) {
  uint32_t value = 0;
  for (size_t i = width; i-- > 0;) {
    value = value << 8 | p[i];
  }
  return value;
}

static uint64_t load_u64(const unsigned char *p) {
  return (uint64_t)stg_elf_load(p + 4, 4) << 32 | stg_elf_load(p, 4);
}

static bool in_image(const struct stg_elf *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->size && size <= elf->size - offset;
}

static stg_status corrupt_header(const char *what, uint32_t value, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_CORRUPT, "no cubin: %s %u", what, value);
}

/* The ELF header: identity, machine, architecture and where the section table is. */
static stg_status read_header(const void *image, size_t size, struct stg_elf *ret_elf,
                              stg_error *reterr) {
  const unsigned char *h = image;
  if (size < ELF_HEADER_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no cubin: %zu bytes, an ELF header has %d", size,
                         ELF_HEADER_BYTES);
  }
  if (memcmp(h, "\177ELF", 4) != 0) {
    return corrupt_header("no ELF magic, first byte is", h[0], reterr);
  }
  if (h[4] != 2 || h[5] != 1) {
    return corrupt_header("not 64-bit little-endian, class and order are", h[4] * 256u + h[5],
                          reterr);
  }
  if (stg_elf_load(h + 18, 2) != ELF_MACHINE_CUDA) {
    return corrupt_header("ELF machine is not 190 but", stg_elf_load(h + 18, 2), reterr);
  }
  if (h[8] < ABI_VERSION_CUDA_12) {
    return corrupt_header("unknown ABI version", h[8], reterr);
  }
  struct stg_elf elf = {.bytes = h, .size = size};
  uint32_t flags = stg_elf_load(h + 48, 4);
  elf.sm = (h[8] == ABI_VERSION_CUDA_12 ? flags : flags >> 8) & 0xffu;
  elf.section_table = load_u64(h + 40);
  elf.n_sections = stg_elf_load(h + 60, 2);
  if (stg_elf_load(h + 58, 2) != SECTION_HEADER_BYTES) {
    return corrupt_header("section header size", stg_elf_load(h + 58, 2), reterr);
  }
  if (elf.n_sections == 0 ||
      !in_image(&elf, elf.section_table, (uint64_t)elf.n_sections * SECTION_HEADER_BYTES)) {
    return stg_error_set(reterr, STG_E_CORRUPT,
                         "no cubin: %u sections at offset %llu do not fit in %zu bytes",
                         elf.n_sections, (unsigned long long)elf.section_table, size);
  }
  *ret_elf = elf;
  return STG_OK;
}

/* Section `index`, whose bytes are known to lie in the image. */
static stg_status read_section(const struct stg_elf *elf, uint32_t index,
                               struct stg_elf_section *ret, stg_error *reterr) {
  const unsigned char *h = elf->bytes + elf->section_table + (size_t)index * SECTION_HEADER_BYTES;
  struct stg_elf_section s = {.type = stg_elf_load(h + 4, 4),
                              .offset = load_u64(h + 24),
                              .size = load_u64(h + 32),
                              .info = stg_elf_load(h + 44, 4)};
  if (s.type != SECTION_NOBITS && s.type != SECTION_NULL && !in_image(elf, s.offset, s.size)) {
    return stg_error_set(reterr, STG_E_CORRUPT,
                         "cubin section %u: %llu bytes at offset %llu do not fit in %zu bytes",
                         index, (unsigned long long)s.size, (unsigned long long)s.offset,
                         elf->size);
  }
  s.name = "";
  if (elf->names != NULL) {
    uint32_t name = stg_elf_load(h, 4);
    if (name >= elf->names_size ||
        memchr(elf->names + name, '\0', elf->names_size - name) == NULL) {
      return stg_error_set(reterr, STG_E_CORRUPT,
                           "cubin section %u: name at %u is outside the %zu bytes of names", index,
                           name, elf->names_size);
    }
    s.name = (const char *)elf->names + name;
  }
  *ret = s;
  return STG_OK;
}

stg_status stg_elf_open(const void *image, size_t size, struct stg_elf *ret_elf,
                        stg_error *reterr) {
  struct stg_elf elf = {.bytes = image};
  stg_status status = read_header(image, size, &elf, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint32_t names_index = stg_elf_load(elf.bytes + 62, 2);
  if (names_index >= elf.n_sections) {
    return corrupt_header("the section of names is number", names_index, reterr);
  }
  struct stg_elf_section names = {0};
  status = read_section(&elf, names_index, &names, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (names.type == SECTION_NOBITS || names.type == SECTION_NULL) {
    return corrupt_header("the section of names has type", names.type, reterr);
  }
  elf.names = elf.bytes + names.offset;
  elf.names_size = (size_t)names.size;
  *ret_elf = elf;
  return STG_OK;
}

/* True when the section's name is `prefix` followed by `kernel`. */
static bool named(const struct stg_elf_section *s, const char *prefix, const char *kernel) {
  size_t n = strlen(prefix);
  return strncmp(s->name, prefix, n) == 0 && strcmp(s->name + n, kernel) == 0;
}

stg_status stg_elf_find_kernel(const struct stg_elf *elf, const char *kernel,
                               struct stg_elf_kernel *ret, stg_error *reterr) {
  struct stg_elf_kernel found = {0};
  for (uint32_t i = 1; i < elf->n_sections; i++) {
    struct stg_elf_section s = {.name = ""};
    stg_status status = read_section(elf, i, &s, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (s.type == SECTION_NULL) {
      continue; /* it is none, whatever its name, and its bytes are anywhere */
    }
    if (named(&s, ".text.", kernel) && s.type != SECTION_NOBITS) {
      found.text = s;
    } else if (named(&s, ".nv.info", "") && s.type != SECTION_NOBITS) {
      found.common_info = s;
    } else if (named(&s, ".nv.info.", kernel) && s.type != SECTION_NOBITS) {
      found.info = s;
    } else if (named(&s, ".nv.shared.", kernel)) {
      found.shared = s;
    } else if (named(&s, ".nv.constant0.", kernel)) {
      found.constant = s;
    }
  }
  if (found.text.type == SECTION_NULL || found.text.size == 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "cubin holds no kernel '%s'", kernel);
  }
  *ret = found;
  return STG_OK;
}

bool stg_elf_next_attribute(const struct stg_elf *elf, const struct stg_elf_section *s,
                            uint64_t *cursor, struct stg_elf_attribute *ret) {
  uint64_t left = s->size - *cursor;
  if (left < 4) {
    return false;
  }
  const unsigned char *p = elf->bytes + s->offset + *cursor;
  uint64_t payload = p[0] == FORMAT_SIZED ? stg_elf_load(p + 2, 2) : 0;
  if (p[0] < FORMAT_NONE || p[0] > FORMAT_SIZED || payload > left - 4) {
    return false;
  }
  ret->kind = p[1];
  ret->payload = p[0] == FORMAT_SIZED ? p + 4 : NULL;
  ret->size = (size_t)payload;
  *cursor += 4 + payload;
  return true;
}

stg_status stg_elf_check_end(const struct stg_elf_section *s, uint64_t cursor, stg_error *reterr) {
  if (cursor == s->size) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT, "cubin section '%.80s': bad attribute at byte %llu",
                       s->name, (unsigned long long)cursor);
}
