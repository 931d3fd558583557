/*
 * cubin_elf.h: sections and attributes of a cubin. Private to the readers of cubins.
 */
#ifndef STG_RUNTIME_CUBIN_ELF_H
#define STG_RUNTIME_CUBIN_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_elf {
  const unsigned char *bytes;
  size_t size;
  uint64_t section_table;
  uint32_t n_sections;
  const unsigned char *names;
  size_t names_size;
  uint32_t sm;
};

struct stg_elf_section {
  const char *name;
  uint32_t type;
  uint32_t info;
  uint64_t offset;
  uint64_t size;
};

struct stg_elf_attribute {
  unsigned kind;
  const unsigned char *payload; /* NULL where the value is in the attribute itself */
  size_t size;
};

/* The sections that speak of one kernel; an absent one has type 0 and no bytes. */
struct stg_elf_kernel {
  struct stg_elf_section text, common_info, info, shared, constant;
};

/** A little-endian number of up to 4 bytes. */
uint32_t stg_elf_load(const unsigned char *p, size_t width);
/** STG_E_CORRUPT when the image is no cubin. Borrows the image. */
STG_NODISCARD stg_status stg_elf_open(const void *image, size_t size, struct stg_elf *ret_elf,
                                      stg_error *reterr);
/** STG_E_CORRUPT when it does not hold kernel `kernel`, or a section lies outside the image. */
STG_NODISCARD stg_status stg_elf_find_kernel(const struct stg_elf *elf, const char *kernel,
                                             struct stg_elf_kernel *ret, stg_error *reterr);
/**
 * Read the attribute at `*cursor` and move on. False at the end and on malformed bytes, which leave
 * the cursor short of the end.
 */
bool stg_elf_next_attribute(const struct stg_elf *elf, const struct stg_elf_section *s,
                            uint64_t *cursor, struct stg_elf_attribute *ret);
/** STG_E_CORRUPT when the cursor is short of the end. */
STG_NODISCARD stg_status stg_elf_check_end(const struct stg_elf_section *s, uint64_t cursor,
                                           stg_error *reterr);

#endif
