/*
 * tensor_elems.h: a tensor of a file, the types its elements may have, and how they are read.
 *
 * Elements lie little-endian in the file, at any address. Everything here is read-only and may be
 * called from any thread while the file is open. Must not know any file format.
 */
#ifndef STG_SPECS_TENSOR_ELEMS_H
#define STG_SPECS_TENSOR_ELEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#define STG_TENSOR_MAX_DIMS 8

/* What a file's elements can be and still be used: the library's types and float64. One row is the
 * only place a type is described: name, spelling, bytes, the library's type. */
#define STG_ELEM_LIST(X)                                                                           \
  X(BF16, "BF16", 2, STG_BF16)                                                                     \
  X(F16, "F16", 2, STG_F16)                                                                        \
  X(F32, "F32", 4, STG_F32)                                                                        \
  X(F64, "F64", 8, STG_DTYPE_NONE)

enum stg_elem {
  STG_ELEM_NONE, /* of a type that is listed but not read */
#define STG_ELEM_ENUM(name, text, bytes, dtype) STG_ELEM_##name,
  STG_ELEM_LIST(STG_ELEM_ENUM)
#undef STG_ELEM_ENUM
};

/** Bytes of one element; 0 for STG_ELEM_NONE. */
size_t stg_elem_bytes(enum stg_elem elem);
/** "BF16", "F16", "F32", "F64"; "none" otherwise. */
const char *stg_elem_name(enum stg_elem elem);
/** The type of that spelling, exactly; STG_ELEM_NONE for any other. */
enum stg_elem stg_elem_of_name(const char *name);
/** The library's type with the same elements; STG_DTYPE_NONE for F64, which has none. */
stg_dtype stg_elem_dtype(enum stg_elem elem);

/*
 * One tensor of a file; borrowed from the file. `elem` is STG_ELEM_NONE for a type that this
 * version cannot use: such a tensor is checked and listed, and stg_tensor_find refuses it.
 */
struct stg_tensor_info {
  const char *name;
  const char *dtype_name; /* as the file spells it: "BF16", "I64", "<f4" */
  enum stg_elem elem;
  uint32_t n_dims;
  int64_t shape[STG_TENSOR_MAX_DIMS]; /* row-major, the last dimension fastest, in any format */
  size_t n_elems;
  const void *data; /* n_elems elements, little-endian, at any address; not read if elem is NONE */
};

#define STG_TENSOR_SHAPE_BYTES (STG_TENSOR_MAX_DIMS * 22 + 3)
/** "[32, 4096]"; "[]" without dimensions. */
void stg_tensor_print_shape(const struct stg_tensor_info *tensor,
                            char ret_shape[STG_TENSOR_SHAPE_BYTES]);
/**
 * Set n_elems from the shape: 0 where an extent is, whatever the others are. False, with n_elems
 * undefined, where the number overflows.
 */
bool stg_tensor_count_elems(struct stg_tensor_info *tensor);
/** Elements of a row: the last dimension; of a tensor without dimensions 1. */
size_t stg_tensor_width(const struct stg_tensor_info *tensor);
/** Rows: the product of the other dimensions; 0 where the width is 0. */
size_t stg_tensor_rows(const struct stg_tensor_info *tensor);

/**
 * Read elements [first, first + count) into `dst` (aligned for `to`). Each is widened exactly to
 * float32 (a float64 is rounded to nearest even, overflow gives infinity), then rounded once to
 * `to`; an element that has the type `to` already keeps its bits. elem is not NONE; the range lies
 * in the tensor.
 */
void stg_tensor_read(const struct stg_tensor_info *tensor, size_t first, size_t count, stg_dtype to,
                     void *dst);

/** Element `index` exactly as it is stored. elem is not NONE. */
double stg_tensor_value(const struct stg_tensor_info *tensor, size_t index);

/* Of one row, in float64 from the stored elements. */
struct stg_row_facts {
  double norm;         /* NaN where an element is not finite; no overflow between */
  double max_abs;      /* infinity where an element is; NaN is passed over */
  uint64_t non_finite; /* elements */
  bool zero;           /* all elements are 0, or there are none */
};
/** row < stg_tensor_rows; elem is not NONE. */
struct stg_row_facts stg_tensor_row_facts(const struct stg_tensor_info *tensor, size_t row);

/**
 * The cosine of two rows, from -1 to 1, in float64 from the stored elements. False, with
 * `*ret_cosine` untouched, where the widths differ or a norm is 0 or not finite.
 */
bool stg_tensor_cosine(const struct stg_tensor_info *a, size_t row_a,
                       const struct stg_tensor_info *b, size_t row_b, double *ret_cosine);

#endif
