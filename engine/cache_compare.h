/*
 * cache_compare.h: where the key materials of two kernels differ, as views into them.
 */
#ifndef STG_ENGINE_CACHE_COMPARE_H
#define STG_ENGINE_CACHE_COMPARE_H

#include <stddef.h>

/* A value of one side; NULL where that side has none. Not NUL-terminated. */
struct stg_factor_value {
  const char *text;
  size_t len;
};

/* A factor, or a piece of the signature, that differs. `name` is borrowed from a material. */
struct stg_factor_difference {
  const char *name;
  struct stg_factor_value here, there;
};

struct stg_key_material {
  const void *bytes;
  size_t size;
};

/**
 * Compare field by field; the signature piece by piece; compile options as a set, and by their
 * order only when the sets are one. Returns how many differences there are; the first `capacity`
 * are written.
 */
size_t stg_factors_compare(const struct stg_key_material *here,
                           const struct stg_key_material *there, struct stg_factor_difference *ret,
                           size_t capacity);

#endif
