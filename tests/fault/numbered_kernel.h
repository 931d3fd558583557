/*
 * numbered_kernel.h: many kernels that differ, so that a wrong one is noticed.
 */
#ifndef STG_TESTS_FAULT_NUMBERED_KERNEL_H
#define STG_TESTS_FAULT_NUMBERED_KERNEL_H

#include <stdint.h>

#include "tests/support/kernel_fixture.h"

#define ELF_ENTRY_OFFSET 24 /* a field that nothing reads: the kernel's number stands there */

struct numbered_kernel {
  char source[32];
  unsigned char cubin[8192];
  struct stg_kernel_request request;
  struct stg_kernel_image image;
};

static inline void numbered_kernel_init(struct numbered_kernel *kernel, uint32_t number) {
  kernel->request = fixture_request();
  kernel->image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  snprintf(kernel->source, sizeof kernel->source, "// kernel %u\n", number);
  memcpy(kernel->cubin, kernel->image.cubin, kernel->image.cubin_size);
  memcpy(kernel->cubin + ELF_ENTRY_OFFSET, &number, sizeof number);
  kernel->request.source = kernel->source;
  kernel->image.cubin = kernel->cubin;
}

/** Whether the bytes of a hit are this kernel's. */
static inline bool numbered_kernel_is(const struct numbered_kernel *kernel, const void *cubin,
                                      size_t size) {
  return size == kernel->image.cubin_size && memcmp(cubin, kernel->cubin, size) == 0;
}

#endif
