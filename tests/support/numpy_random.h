/*
 * numpy_random.h: the numbers of numpy.random.RandomState: a Mersenne Twister, uniform numbers of
 * 53 bits and normal ones by the polar method, of which each pair is handed out second first.
 */
#ifndef STG_TESTS_SUPPORT_NUMPY_RANDOM_H
#define STG_TESTS_SUPPORT_NUMPY_RANDOM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMPY_WORDS 624

struct numpy_random {
  uint32_t words[NUMPY_WORDS];
  size_t used;
  bool has_normal;
  double normal;
};

static inline void numpy_random_init(struct numpy_random *random, uint32_t seed) {
  *random = (struct numpy_random){.words = {seed}, .used = NUMPY_WORDS};
  for (uint32_t k = 1; k < NUMPY_WORDS; k++) {
    const uint32_t before = random->words[k - 1];
    random->words[k] = 1812433253U * (before ^ (before >> 30)) + k;
  }
}

static inline uint32_t numpy_random_word(struct numpy_random *random) {
  uint32_t *words = random->words;
  if (random->used == NUMPY_WORDS) {
    for (size_t k = 0; k < NUMPY_WORDS; k++) {
      const uint32_t joined =
          (words[k] & 0x80000000U) | (words[(k + 1) % NUMPY_WORDS] & 0x7fffffffU);
      words[k] = words[(k + 397) % NUMPY_WORDS] ^ (joined >> 1) ^ ((joined & 1U) * 0x9908b0dfU);
    }
    random->used = 0;
  }
  uint32_t y = words[random->used++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

/** rand(): uniform in [0, 1). */
static inline double numpy_random_uniform(struct numpy_random *random) {
  const uint32_t upper = numpy_random_word(random) >> 5;
  const uint32_t lower = numpy_random_word(random) >> 6;
  return (upper * 67108864.0 + lower) / 9007199254740992.0;
}

/** randn(): normal, mean 0, deviation 1. */
static inline double numpy_random_normal(struct numpy_random *random) {
  if (random->has_normal) {
    random->has_normal = false;
    return random->normal;
  }
  double a;
  double b;
  double square;
  do {
    a = 2 * numpy_random_uniform(random) - 1;
    b = 2 * numpy_random_uniform(random) - 1;
    square = a * a + b * b;
  } while (square >= 1 || square == 0);
  const double factor = sqrt(-2 * log(square) / square);
  random->has_normal = true;
  random->normal = factor * a;
  return factor * b;
}

#endif
