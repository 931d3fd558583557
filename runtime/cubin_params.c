/*
 * cubin_params.c: parameters of a kernel, from the attributes of .nv.info.K.
 *
 * Each has an attribute of its own, in no order that is promised. Compilers describe kernels that
 * take more than 4 KiB in another way, which has room for larger sizes. Must not know what the
 * parameters mean.
 */
#include "runtime/cubin_params.h"

#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/cubin_elf.h"

enum {
  ATTR_PARAM_CBANK = 0x0a, /* symbol, u16 offset, u16 size of all */
  ATTR_PARAM = 0x17,      /* u32 index, u16 ordinal, u16 offset, u32 with the size from bit 18 on */
  ATTR_LARGE_PARAM = 0x45 /* u32 index, u16 ordinal, u16 offset, u16 size, u16 flags */
};
#define PARAM_BYTES 12 /* of the payload of either */
#define PARAM_SIZE_SHIFT 18

struct found {
  struct stg_cubin_param *params;
  size_t count;
  uint32_t total_bytes; /* of all parameters */
};

/* Note what an attribute says; there is room for it. */
static void note(struct found *found, const struct stg_elf_attribute *attribute) {
  const unsigned char *p = attribute->payload;
  if (attribute->kind == ATTR_PARAM_CBANK && attribute->size >= 8) {
    found->total_bytes = stg_elf_load(p + 6, 2);
  }
  if ((attribute->kind != ATTR_PARAM && attribute->kind != ATTR_LARGE_PARAM) ||
      attribute->size != PARAM_BYTES) {
    return;
  }
  found->params[found->count++] = (struct stg_cubin_param){
      .ordinal = stg_elf_load(p + 4, 2),
      .offset_bytes = stg_elf_load(p + 6, 2),
      .size_bytes = attribute->kind == ATTR_PARAM ? stg_elf_load(p + 8, 4) >> PARAM_SIZE_SHIFT
                                                  : stg_elf_load(p + 8, 2)};
}

static int by_ordinal(const void *a, const void *b) {
  const struct stg_cubin_param *x = a;
  const struct stg_cubin_param *y = b;
  return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* Sorted by number: 0, 1, 2, each behind the one before, all within what the kernel takes. */
static stg_status check(const struct found *found, const char *name, stg_error *reterr) {
  uint32_t end = 0;
  for (size_t i = 0; i < found->count; i++) {
    const struct stg_cubin_param *param = &found->params[i];
    if (param->ordinal != i || param->offset_bytes < end || param->size_bytes == 0 ||
        param->size_bytes > found->total_bytes ||
        param->offset_bytes > found->total_bytes - param->size_bytes) {
      return stg_error_set(reterr, STG_E_CORRUPT,
                           "cubin kernel '%.80s': parameter %u of %u bytes at %u does not follow "
                           "the %zu before it in %u bytes",
                           name, param->ordinal, param->size_bytes, param->offset_bytes, i,
                           found->total_bytes);
    }
    end = param->offset_bytes + param->size_bytes;
  }
  return STG_OK;
}

stg_status stg_cubin_params(const void *image, size_t size, const char *name,
                            struct stg_cubin_param **ret_params, size_t *ret_count,
                            stg_error *reterr) {
  struct stg_elf elf = {0};
  struct stg_elf_kernel kernel = {0};
  struct found found = {0};
  stg_status status = stg_elf_open(image, size, &elf, reterr);
  if (status == STG_OK) {
    status = stg_elf_find_kernel(&elf, name, &kernel, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const size_t room = (size_t)(kernel.info.size / (4 + PARAM_BYTES)) + 1;
  found.params = stg_calloc(room, sizeof *found.params);
  if (found.params == NULL) {
    return stg_error_memory(reterr, "the parameters of a kernel", room * sizeof *found.params);
  }
  uint64_t cursor = 0;
  struct stg_elf_attribute attribute = {0};
  while (stg_elf_next_attribute(&elf, &kernel.info, &cursor, &attribute)) {
    note(&found, &attribute);
  }
  status = stg_elf_check_end(&kernel.info, cursor, reterr);
  if (status == STG_OK && found.count > 0) {
    qsort(found.params, found.count, sizeof *found.params, by_ordinal);
    status = check(&found, name, reterr);
  }
  if (status != STG_OK || found.count == 0) {
    stg_free(found.params);
    found.params = NULL;
  }
  if (status == STG_OK) {
    *ret_params = found.params;
    *ret_count = found.count;
  }
  return status;
}
