/*
 * cubin.c: a little-endian ELF64 reader for what NVRTC and ptxas write.
 *
 * The facts of a kernel K stand in the sections .text.K, .nv.info, .nv.info.K, .nv.shared.K and
 * .nv.constant0.K. The image may be unaligned and hostile: fields are copied out byte by byte, and
 * no offset is followed before it is checked. Must not know CUDA, files or cache entries.
 */
#include "runtime/cubin.h"

#include <string.h>

#define ELF_HEADER_BYTES 64
#define SECTION_HEADER_BYTES 64
#define ELF_MACHINE_CUDA 190
#define SECTION_NULL 0
#define SECTION_NOBITS 8

/* CUDA 12 writes 7 and keeps the sm number in the low byte of e_flags, CUDA 13 writes 8 and keeps
 * it one byte higher. */
#define ABI_VERSION_CUDA_12 7

/* From sm_90 on the first KiB of shared memory belongs to the system; the section counts it. */
#define RESERVED_SHARED_SM 90
#define RESERVED_SHARED_BYTES 1024

#define MAX_REGISTERS 255

/* Attributes of .nv.info (keyed by symbol) and of .nv.info.K. */
enum {
  ATTR_MAX_THREADS = 0x05, /* u32 x, y, z */
  ATTR_PARAM_CBANK = 0x0a, /* symbol, u16 offset, u16 size */
  ATTR_FRAME_SIZE = 0x11,  /* symbol, u32 bytes */
  ATTR_REGCOUNT = 0x2f     /* symbol, u32 registers */
};

/* How an attribute's value is stored. */
enum { FORMAT_NONE = 1, FORMAT_BYTE = 2, FORMAT_HALF = 3, FORMAT_SIZED = 4 };

struct elf {
  const unsigned char *bytes;
  size_t size;
  uint64_t section_table;
  uint32_t n_sections;
  const unsigned char *names;
  size_t names_size;
  uint32_t sm;
};

struct section {
  const char *name;
  uint32_t type;
  uint32_t info;
  uint64_t offset;
  uint64_t size;
};

struct attribute {
  unsigned kind;
  const unsigned char *payload; /* of FORMAT_SIZED; else NULL */
  size_t size;
};

static uint32_t load_le(const unsigned char *p, size_t width) {
  uint32_t value = 0;
  for (size_t i = width; i-- > 0;) {
    value = value << 8 | p[i];
  }
  return value;
}

static uint64_t load_u64(const unsigned char *p) {
  return (uint64_t)load_le(p + 4, 4) << 32 | load_le(p, 4);
}

static bool in_image(const struct elf *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->size && size <= elf->size - offset;
}

static stg_status corrupt_header(const char *what, uint32_t value, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_CORRUPT, "no cubin: %s %u", what, value);
}

/* The ELF header: identity, machine, architecture and where the section table is. */
static stg_status read_header(const void *image, size_t size, struct elf *ret_elf,
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
  if (load_le(h + 18, 2) != ELF_MACHINE_CUDA) {
    return corrupt_header("ELF machine is not 190 but", load_le(h + 18, 2), reterr);
  }
  if (h[8] < ABI_VERSION_CUDA_12) {
    return corrupt_header("unknown ABI version", h[8], reterr);
  }
  struct elf elf = {.bytes = h, .size = size};
  uint32_t flags = load_le(h + 48, 4);
  elf.sm = (h[8] == ABI_VERSION_CUDA_12 ? flags : flags >> 8) & 0xffu;
  elf.section_table = load_u64(h + 40);
  elf.n_sections = load_le(h + 60, 2);
  if (load_le(h + 58, 2) != SECTION_HEADER_BYTES) {
    return corrupt_header("section header size", load_le(h + 58, 2), reterr);
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
static stg_status read_section(const struct elf *elf, uint32_t index, struct section *ret,
                               stg_error *reterr) {
  const unsigned char *h = elf->bytes + elf->section_table + (size_t)index * SECTION_HEADER_BYTES;
  struct section s = {.type = load_le(h + 4, 4),
                      .offset = load_u64(h + 24),
                      .size = load_u64(h + 32),
                      .info = load_le(h + 44, 4)};
  if (s.type != SECTION_NOBITS && s.type != SECTION_NULL && !in_image(elf, s.offset, s.size)) {
    return stg_error_set(reterr, STG_E_CORRUPT,
                         "cubin section %u: %llu bytes at offset %llu do not fit in %zu bytes",
                         index, (unsigned long long)s.size, (unsigned long long)s.offset,
                         elf->size);
  }
  s.name = "";
  if (elf->names != NULL) {
    uint32_t name = load_le(h, 4);
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

static stg_status open_elf(const void *image, size_t size, struct elf *ret_elf, stg_error *reterr) {
  struct elf elf = {.bytes = image};
  stg_status status = read_header(image, size, &elf, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint32_t names_index = load_le(elf.bytes + 62, 2);
  if (names_index >= elf.n_sections) {
    return corrupt_header("the section of names is number", names_index, reterr);
  }
  struct section names = {0};
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
static bool named(const struct section *s, const char *prefix, const char *kernel) {
  size_t n = strlen(prefix);
  return strncmp(s->name, prefix, n) == 0 && strcmp(s->name + n, kernel) == 0;
}

/* The sections that speak of one kernel; an absent one has type SECTION_NULL. */
struct kernel_sections {
  struct section text, common_info, info, shared, constant;
};

static stg_status find_sections(const struct elf *elf, const char *kernel,
                                struct kernel_sections *ret, stg_error *reterr) {
  struct kernel_sections found = {0};
  for (uint32_t i = 1; i < elf->n_sections; i++) {
    struct section s = {.name = ""};
    stg_status status = read_section(elf, i, &s, reterr);
    if (status != STG_OK) {
      return status;
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

/* Read the attribute at `*cursor` and move on. False at the end and on malformed bytes, which leave
 * the cursor short of the end. */
static bool next_attribute(const struct elf *elf, const struct section *s, uint64_t *cursor,
                           struct attribute *ret) {
  uint64_t left = s->size - *cursor;
  if (left < 4) {
    return false;
  }
  const unsigned char *p = elf->bytes + s->offset + *cursor;
  uint64_t payload = p[0] == FORMAT_SIZED ? load_le(p + 2, 2) : 0;
  if (p[0] < FORMAT_NONE || p[0] > FORMAT_SIZED || payload > left - 4) {
    return false;
  }
  ret->kind = p[1];
  ret->payload = p[0] == FORMAT_SIZED ? p + 4 : NULL;
  ret->size = (size_t)payload;
  *cursor += 4 + payload;
  return true;
}

static stg_status check_end(const struct section *s, uint64_t cursor, stg_error *reterr) {
  if (cursor == s->size) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT, "cubin section '%.80s': bad attribute at byte %llu",
                       s->name, (unsigned long long)cursor);
}

/* Registers and stack frame, from the attributes that name the kernel's symbol. */
static stg_status read_common_info(const struct elf *elf, const struct kernel_sections *sections,
                                   struct stg_cubin_info *info, stg_error *reterr) {
  const struct section *s = &sections->common_info;
  uint32_t symbol = sections->text.info & 0xffffffu;
  /* Older compilers also put the register count over the symbol's index. */
  info->registers = sections->text.info >> 24;
  uint64_t cursor = 0;
  struct attribute attribute = {0};
  while (next_attribute(elf, s, &cursor, &attribute)) {
    if (attribute.size < 8 || load_le(attribute.payload, 4) != symbol) {
      continue;
    }
    if (attribute.kind == ATTR_REGCOUNT) {
      info->registers = load_le(attribute.payload + 4, 4);
    } else if (attribute.kind == ATTR_FRAME_SIZE) {
      info->local_bytes = load_le(attribute.payload + 4, 4);
    }
  }
  return check_end(s, cursor, reterr);
}

/* Threads of a block of three dimensions; UINT32_MAX where it is beyond any. */
static uint32_t count_threads(const unsigned char *dims) {
  uint64_t count = load_le(dims, 4);
  for (size_t i = 1; i < 3; i++) {
    count *= load_le(dims + 4 * i, 4);
    count = count > UINT32_MAX ? UINT32_MAX : count;
  }
  return (uint32_t)count;
}

static stg_status read_kernel_info(const struct elf *elf, const struct section *s,
                                   struct stg_cubin_info *info, stg_error *reterr) {
  uint64_t cursor = 0;
  struct attribute attribute = {0};
  while (next_attribute(elf, s, &cursor, &attribute)) {
    if (attribute.kind == ATTR_PARAM_CBANK && attribute.size >= 8) {
      info->param_bytes = load_le(attribute.payload + 6, 2);
    } else if (attribute.kind == ATTR_MAX_THREADS && attribute.size >= 12) {
      info->max_threads = count_threads(attribute.payload);
    }
  }
  return check_end(s, cursor, reterr);
}

static stg_status read_sizes(const struct kernel_sections *sections, struct stg_cubin_info *info,
                             stg_error *reterr) {
  const struct section *const from[] = {&sections->text, &sections->shared, &sections->constant};
  uint32_t *const to[] = {&info->code_bytes, &info->shared_bytes, &info->constant_bytes};
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
    if (from[i]->size > UINT32_MAX) {
      return stg_error_set(reterr, STG_E_CORRUPT, "cubin section '%.80s': size %llu", from[i]->name,
                           (unsigned long long)from[i]->size);
    }
    *to[i] = (uint32_t)from[i]->size;
  }
  return STG_OK;
}

stg_status stg_cubin_read(const void *image, size_t size, const char *name,
                          struct stg_cubin_info *ret_info, stg_error *reterr) {
  struct elf elf = {0};
  struct kernel_sections sections = {0};
  struct stg_cubin_info info = {0};
  stg_status status = open_elf(image, size, &elf, reterr);
  if (status == STG_OK) {
    status = find_sections(&elf, name, &sections, reterr);
  }
  if (status == STG_OK) {
    status = read_common_info(&elf, &sections, &info, reterr);
  }
  if (status == STG_OK) {
    status = read_kernel_info(&elf, &sections.info, &info, reterr);
  }
  if (status == STG_OK) {
    status = read_sizes(&sections, &info, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  if (info.registers == 0 || info.registers > MAX_REGISTERS) {
    return stg_error_set(reterr, STG_E_CORRUPT, "cubin kernel '%s': %u registers, expected 1 to %d",
                         name, info.registers, MAX_REGISTERS);
  }
  info.sm = elf.sm;
  if (info.sm >= RESERVED_SHARED_SM && info.shared_bytes >= RESERVED_SHARED_BYTES) {
    info.shared_bytes -= RESERVED_SHARED_BYTES;
  }
  *ret_info = info;
  return STG_OK;
}

stg_status stg_cubin_sm(const void *image, size_t size, uint32_t *ret_sm, stg_error *reterr) {
  struct elf elf = {0};
  stg_status status = open_elf(image, size, &elf, reterr);
  if (status == STG_OK) {
    *ret_sm = elf.sm;
  }
  return status;
}

bool stg_arch_parse(const char *arch, uint32_t *ret_sm) {
  if (strncmp(arch, "sm_", 3) != 0) {
    return false;
  }
  const char *p = arch + 3;
  uint32_t sm = 0;
  size_t digits = 0;
  for (; *p >= '0' && *p <= '9' && digits < 3; p++, digits++) {
    sm = sm * 10 + (uint32_t)(*p - '0');
  }
  if (*p >= 'a' && *p <= 'z') {
    p++;
  }
  if (digits < 2 || *p != '\0' || arch[3] == '0') {
    return false;
  }
  *ret_sm = sm;
  return true;
}
