/*
 * tensor_elems.c: see tensor_elems.h.
 *
 * Elements are copied out before they are looked at, because a mapped file need not be aligned.
 * Sums of squares are taken of elements times a power of two, which is exact, so that float64
 * elements beyond 1e154 have a norm as well.
 */
#include "specs/tensor_elems.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are used where they lie");

#define PIECE_ELEMS 256
#define MAX_SCALE_EXPONENT 1000 /* 2^1000 and 2^-1000 are normal float64 */

struct elem_row {
  const char *name;
  size_t bytes;
  stg_dtype dtype;
};

static const struct elem_row elem_rows[] = {[STG_ELEM_NONE] = {"none", 0, STG_DTYPE_NONE},
#define STG_ELEM_ROW(name, text, bytes, dtype) [STG_ELEM_##name] = {text, bytes, dtype},
                                            STG_ELEM_LIST(STG_ELEM_ROW)
#undef STG_ELEM_ROW
};

#define N_ELEMS (sizeof elem_rows / sizeof elem_rows[0])

size_t stg_elem_bytes(enum stg_elem elem) {
  return elem_rows[elem].bytes;
}

const char *stg_elem_name(enum stg_elem elem) {
  return elem_rows[elem].name;
}

enum stg_elem stg_elem_of_name(const char *name) {
  for (size_t i = STG_ELEM_NONE + 1; i < N_ELEMS; i++) {
    if (strcmp(elem_rows[i].name, name) == 0) {
      return (enum stg_elem)i;
    }
  }
  return STG_ELEM_NONE;
}

stg_dtype stg_elem_dtype(enum stg_elem elem) {
  return elem_rows[elem].dtype;
}

void stg_tensor_print_shape(const struct stg_tensor_info *tensor,
                            char ret_shape[STG_TENSOR_SHAPE_BYTES]) {
  size_t len = (size_t)snprintf(ret_shape, STG_TENSOR_SHAPE_BYTES, "[");
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    len += (size_t)snprintf(ret_shape + len, STG_TENSOR_SHAPE_BYTES - len, "%s%" PRId64,
                            i > 0 ? ", " : "", tensor->shape[i]);
  }
  snprintf(ret_shape + len, STG_TENSOR_SHAPE_BYTES - len, "]");
}

bool stg_tensor_count_elems(struct stg_tensor_info *tensor) {
  bool fits = true;
  tensor->n_elems = 1;
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    if (tensor->shape[i] == 0) {
      tensor->n_elems = 0;
      return true;
    }
    fits = fits && stg_mul_size(tensor->n_elems, (size_t)tensor->shape[i], &tensor->n_elems);
  }
  return fits;
}

size_t stg_tensor_width(const struct stg_tensor_info *tensor) {
  return tensor->n_dims == 0 ? tensor->n_elems : (size_t)tensor->shape[tensor->n_dims - 1];
}

size_t stg_tensor_rows(const struct stg_tensor_info *tensor) {
  size_t width = stg_tensor_width(tensor);
  return width == 0 ? 0 : tensor->n_elems / width;
}

static const unsigned char *address(const struct stg_tensor_info *tensor, size_t index) {
  return (const unsigned char *)tensor->data + index * stg_elem_bytes(tensor->elem);
}

/* A piece of at most PIECE_ELEMS elements, aligned. */
union piece {
  unsigned char bytes[PIECE_ELEMS * sizeof(double)];
  double f64[PIECE_ELEMS];
};

void stg_tensor_read(const struct stg_tensor_info *tensor, size_t first, size_t count, stg_dtype to,
                     void *dst) {
  union piece piece;
  float rounded[PIECE_ELEMS];
  const size_t elem_bytes = stg_elem_bytes(tensor->elem);
  for (size_t done = 0; done < count; done += PIECE_ELEMS) {
    size_t n = count - done < PIECE_ELEMS ? count - done : PIECE_ELEMS;
    unsigned char *at = (unsigned char *)dst + done * stg_dtype_bytes(to);
    memcpy(piece.bytes, address(tensor, first + done), n * elem_bytes);
    if (tensor->elem == STG_ELEM_F64) {
      for (size_t i = 0; i < n; i++) {
        rounded[i] = (float)piece.f64[i];
      }
      stg_convert(to, at, STG_F32, rounded, n);
    } else {
      stg_convert(to, at, stg_elem_dtype(tensor->elem), piece.bytes, n);
    }
  }
}

double stg_tensor_value(const struct stg_tensor_info *tensor, size_t index) {
  double aligned = 0;
  memcpy(&aligned, address(tensor, index), stg_elem_bytes(tensor->elem));
  if (tensor->elem == STG_ELEM_F64) {
    return aligned;
  }
  return (double)stg_load_f32(stg_elem_dtype(tensor->elem), &aligned, 0);
}

/* The power of two that brings `max_abs`, which is finite, near 1. */
static double scale_for(double max_abs) {
  if (max_abs == 0) {
    return 1;
  }
  int exponent = -ilogb(max_abs);
  exponent = exponent > MAX_SCALE_EXPONENT ? MAX_SCALE_EXPONENT : exponent;
  exponent = exponent < -MAX_SCALE_EXPONENT ? -MAX_SCALE_EXPONENT : exponent;
  return ldexp(1.0, exponent);
}

static double scaled_norm(const struct stg_tensor_info *tensor, size_t row, double scale) {
  size_t width = stg_tensor_width(tensor);
  double sum = 0;
  for (size_t i = 0; i < width; i++) {
    double value = stg_tensor_value(tensor, row * width + i) * scale;
    sum += value * value;
  }
  return sqrt(sum);
}

struct stg_row_facts stg_tensor_row_facts(const struct stg_tensor_info *tensor, size_t row) {
  struct stg_row_facts facts = {.zero = true};
  size_t width = stg_tensor_width(tensor);
  for (size_t i = 0; i < width; i++) {
    double magnitude = fabs(stg_tensor_value(tensor, row * width + i));
    facts.non_finite += !isfinite(magnitude);
    facts.max_abs = magnitude > facts.max_abs ? magnitude : facts.max_abs;
    facts.zero = facts.zero && magnitude == 0;
  }
  if (facts.non_finite > 0) {
    facts.norm = (double)NAN;
    return facts;
  }
  double scale = scale_for(facts.max_abs);
  facts.norm = scaled_norm(tensor, row, scale) / scale;
  return facts;
}

bool stg_tensor_cosine(const struct stg_tensor_info *a, size_t row_a,
                       const struct stg_tensor_info *b, size_t row_b, double *ret_cosine) {
  size_t width = stg_tensor_width(a);
  if (stg_tensor_width(b) != width) {
    return false;
  }
  struct stg_row_facts facts_a = stg_tensor_row_facts(a, row_a);
  struct stg_row_facts facts_b = stg_tensor_row_facts(b, row_b);
  if (facts_a.zero || facts_b.zero || facts_a.non_finite > 0 || facts_b.non_finite > 0) {
    return false;
  }
  double scale_a = scale_for(facts_a.max_abs);
  double scale_b = scale_for(facts_b.max_abs);
  double dot = 0;
  for (size_t i = 0; i < width; i++) {
    dot += stg_tensor_value(a, row_a * width + i) * scale_a *
           (stg_tensor_value(b, row_b * width + i) * scale_b);
  }
  double cosine = dot / (scaled_norm(a, row_a, scale_a) * scaled_norm(b, row_b, scale_b));
  *ret_cosine = fmax(-1.0, fmin(1.0, cosine));
  return true;
}
