/*
 * bytes.h: little-endian numbers in files, the same on every machine.
 */
#ifndef STG_RUNTIME_BASE_BYTES_H
#define STG_RUNTIME_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/strbuf.h"

/** The number in the `width` bytes at `p`; at most 8. */
static inline uint64_t stg_le_load(const unsigned char *p, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) {
    value = value << 8 | p[i];
  }
  return value;
}

/** Append the low `width` bytes of a number. */
static inline void stg_le_append(struct stg_strbuf *out, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) {
    stg_strbuf_char(out, (char)(value >> (8 * i) & 0xffu));
  }
}

#endif
