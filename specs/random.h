/*
 * random.h: seeded random numbers that are the same bits on every platform.
 *
 * Philox4x32-10 (Salmon et al., SC 2011) gives 32 random bits per element; the inverse normal is
 * Wichura's AS 241 (PPND16, 1988) in double from + - * / sqrt and our own logarithm, rounded once
 * to float32. No libm function with platform-dependent rounding is involved. Documented in
 * specs/README.md; the bits are part of the file formats and never change.
 */
#ifndef STG_SPECS_RANDOM_H
#define STG_SPECS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/** One Philox4x32-10 block. */
void stg_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]);

/** The standard normal quantile of (word + 1/2) * 2^-32: finite, at most 6.34 in magnitude. */
double stg_inverse_normal(uint32_t word);

/**
 * Fill `dst[0..count)` with standard normal values times `scale`. Element i of stream (seed,
 * stream) depends on i alone, so any part of a tensor can be made on its own: `first` is the index
 * of dst[0].
 */
void stg_random_normal(uint64_t seed, uint64_t stream, uint64_t first, float scale, float *dst,
                       size_t count);

/** An integer of [min, max], max - min below 2^32: min + floor(word * (max - min + 1) / 2^32) of
 * element `index`'s word. */
int64_t stg_random_between(uint64_t seed, uint64_t stream, uint64_t index, int64_t min,
                           int64_t max);

#endif
