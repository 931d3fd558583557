/*
 * make_cubin.h: a cubin of one kernel without a compiler: the ELF sections that runtime/cubin.h
 * reads, in the layout of CUDA 12 or 13, and a code section that says whatever a test wants.
 *
 * Equal arguments give equal bytes. No such cubin runs on a GPU.
 */
#ifndef STG_TESTS_STUB_MAKE_CUBIN_H
#define STG_TESTS_STUB_MAKE_CUBIN_H

#include <stddef.h>
#include <stdint.h>

#define STUB_CUBIN_MAX_KERNEL 64 /* characters of a kernel's name */
#define STUB_CUBIN_ADDS "adds "  /* how code begins that the stub of the driver runs */

struct stub_cubin {
  int cuda_major; /* 12 or 13: where the architecture stands in the header */
  uint32_t sm;    /* 90 for sm_90 */
  const char *kernel;
  uint32_t param_bytes; /* of its one parameter */
  uint32_t registers;
  uint32_t shared_bytes; /* static */
  uint32_t local_bytes;
  uint32_t max_threads;
  const void *code;
  size_t code_bytes; /* at least 1 */
};

/** The image, for free(); NULL without memory, for a name that is too long, or without code. */
unsigned char *stub_cubin_make(const struct stub_cubin *cubin, size_t *ret_size);

#endif
