/*
 * dtype.h: the element types of tensors.
 */
#ifndef STEERGRAPH_DTYPE_H
#define STEERGRAPH_DTYPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* One row per type: name, value, text, bytes per element. */
#define STG_DTYPE_LIST(X)                                                                          \
  X(BF16, 1, "bf16", 2)                                                                            \
  X(F16, 2, "f16", 2)                                                                              \
  X(F32, 3, "f32", 4)

/* Values are ABI. 0 is no type: a zeroed struct is refused, or means "the same as the other". */
typedef enum stg_dtype {
  STG_DTYPE_NONE = 0,
#define STG_DTYPE_ENUM(name, value, text, bytes) STG_##name = value,
  STG_DTYPE_LIST(STG_DTYPE_ENUM)
#undef STG_DTYPE_ENUM
} stg_dtype;

#ifdef __cplusplus
}
#endif

#endif
