/*
 * prelude/gumbel.h: seeded noise, the largest of which, added to logits, is a sample of their
 * softmax.
 *
 * As math.h, which it needs: the same bits on every machine, plain enough to be CUDA as well.
 * It must not know of states or of policies.
 */
#ifndef STG_CODEGEN_PRELUDE_GUMBEL_H
#define STG_CODEGEN_PRELUDE_GUMBEL_H

#ifndef __CUDACC__
#include "codegen/prelude/math.h"
#endif

#define STG_GUMBEL_ROUNDS 10

/** Word `child % 4` of Philox4x32-10 under the seed, of {query, query >> 32, depth, child / 4}. */
STG_MATH unsigned stg_gumbel_word(unsigned long long seed, unsigned long long query, unsigned depth,
                                  unsigned child) {
  unsigned key0 = (unsigned)seed;
  unsigned key1 = (unsigned)(seed >> 32);
  unsigned c0 = (unsigned)query;
  unsigned c1 = (unsigned)(query >> 32);
  unsigned c2 = depth;
  unsigned c3 = child / 4;
  for (int round = 0; round < STG_GUMBEL_ROUNDS; round++) {
    const unsigned long long p0 = 0xd2511f53ull * c0;
    const unsigned long long p1 = 0xcd9e8d57ull * c2;
    c0 = (unsigned)(p1 >> 32) ^ c1 ^ key0;
    c1 = (unsigned)p1;
    c2 = (unsigned)(p0 >> 32) ^ c3 ^ key1;
    c3 = (unsigned)p0;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return child % 4 == 0 ? c0 : child % 4 == 1 ? c1 : child % 4 == 2 ? c2 : c3;
}

/** -log(-log(u)), u = ((word >> 9) + 1/2) * 2^-23, which float32 has, above 0 and below 1. */
STG_MATH float stg_gumbel_noise(unsigned word) {
  const float u = ((float)(word >> 9) + 0.5f) * 1.1920929e-7f;
  return -stg_math_log(-stg_math_log(u));
}

#endif
