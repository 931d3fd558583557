/*
 * cpu/lanes.h: a row as padded float32, and the loops over it.
 *
 * Buffers hold stg_cpu_padded(hidden_size) floats, zero past the row, so that no loop has a tail
 * and the compiler vectorises all of them. The order of every sum depends on the length alone,
 * and products are never contracted, so the bits are those of any x86-64, AVX or not.
 */
#ifndef STG_ENGINE_CPU_LANES_H
#define STG_ENGINE_CPU_LANES_H

#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

/* Independent partial sums of a dot product. */
#define STG_CPU_LANES 32

/** hidden_size rounded up to whole lanes. */
size_t stg_cpu_padded(int64_t hidden_size);

/** Widen `count` elements at `src` (any alignment) and zero the rest of the padded buffer. */
void stg_cpu_load(stg_dtype dtype, const void *src, size_t count, float *ret_row);

/** Round each of `count` elements once and store them at `dst` (any alignment). */
void stg_cpu_store(stg_dtype dtype, const float *row, size_t count, void *dst);

/** Sum of a[j]*b[j] over a padded length. */
float stg_cpu_dot(const float *a, const float *b, size_t padded);

/** y[j] = factor * x[j]. */
void stg_cpu_scale(float factor, const float *restrict x, size_t padded, float *restrict ret_y);

/** y[j] += factor * x[j], product and sum rounded each. */
void stg_cpu_axpy(float factor, const float *restrict x, size_t padded, float *restrict y);

/** y[j] += x[j]. */
void stg_cpu_add(const float *restrict x, size_t padded, float *restrict y);

/** y[j] = (factor * x[j]) * w[j], each product rounded. */
void stg_cpu_scale_by(float factor, const float *restrict x, const float *restrict w, size_t padded,
                      float *restrict ret_y);

/** Sum of squares of `scale * row + sum_i factors[i] * vectors[i]`; factors of 0 are skipped. */
float stg_cpu_combined_squares(float scale, const float *row, const float *factors,
                               const float *const *vectors, size_t n_vectors, size_t padded);

#endif
