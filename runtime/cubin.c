/*
 * cubin.c: what a cubin says of its kernel: sizes of sections, and attributes of .nv.info.
 *
 * Must not know CUDA, files or cache entries.
 */
#include "runtime/cubin.h"

#include <string.h>

#include "runtime/cubin_elf.h"

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

/* Registers and stack frame, from the attributes that name the kernel's symbol. */
static stg_status read_common_info(const struct stg_elf *elf, const struct stg_elf_kernel *sections,
                                   struct stg_cubin_info *info, stg_error *reterr) {
  const struct stg_elf_section *s = &sections->common_info;
  uint32_t symbol = sections->text.info & 0xffffffu;
  /* Older compilers also put the register count over the symbol's index. */
  info->registers = sections->text.info >> 24;
  uint64_t cursor = 0;
  struct stg_elf_attribute attribute = {0};
  while (stg_elf_next_attribute(elf, s, &cursor, &attribute)) {
    if (attribute.size < 8 || stg_elf_load(attribute.payload, 4) != symbol) {
      continue;
    }
    if (attribute.kind == ATTR_REGCOUNT) {
      info->registers = stg_elf_load(attribute.payload + 4, 4);
    } else if (attribute.kind == ATTR_FRAME_SIZE) {
      info->local_bytes = stg_elf_load(attribute.payload + 4, 4);
    }
  }
  return stg_elf_check_end(s, cursor, reterr);
}

/* Threads of a block of three dimensions; UINT32_MAX where it is beyond any. */
static uint32_t count_threads(const unsigned char *dims) {
  uint64_t count = stg_elf_load(dims, 4);
  for (size_t i = 1; i < 3; i++) {
    count *= stg_elf_load(dims + 4 * i, 4);
    count = count > UINT32_MAX ? UINT32_MAX : count;
  }
  return (uint32_t)count;
}

static stg_status read_kernel_info(const struct stg_elf *elf, const struct stg_elf_section *s,
                                   struct stg_cubin_info *info, stg_error *reterr) {
  uint64_t cursor = 0;
  struct stg_elf_attribute attribute = {0};
  while (stg_elf_next_attribute(elf, s, &cursor, &attribute)) {
    if (attribute.kind == ATTR_PARAM_CBANK && attribute.size >= 8) {
      info->param_bytes = stg_elf_load(attribute.payload + 6, 2);
    } else if (attribute.kind == ATTR_MAX_THREADS && attribute.size >= 12) {
      info->max_threads = count_threads(attribute.payload);
    }
  }
  return stg_elf_check_end(s, cursor, reterr);
}

static stg_status read_sizes(const struct stg_elf_kernel *sections, struct stg_cubin_info *info,
                             stg_error *reterr) {
  const struct stg_elf_section *const from[] = {&sections->text, &sections->shared,
                                                &sections->constant};
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
  struct stg_elf elf = {0};
  struct stg_elf_kernel sections = {0};
  struct stg_cubin_info info = {0};
  stg_status status = stg_elf_open(image, size, &elf, reterr);
  if (status == STG_OK) {
    status = stg_elf_find_kernel(&elf, name, &sections, reterr);
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
  struct stg_elf elf = {0};
  stg_status status = stg_elf_open(image, size, &elf, reterr);
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
