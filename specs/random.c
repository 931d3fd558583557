/*
 * random.c: Philox4x32-10, and normal values from its words.
 *
 * Everything here must give the same bits on every platform: integer arithmetic, IEEE double
 * + - * / sqrt (the build sets -ffp-contract=off), one rounding to float32 at the end. Knows
 * nothing of tensors or specs.
 */
#include "specs/random.h"

#include <math.h>
#include <string.h>

#define PHILOX_ROUNDS 10

void stg_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]) {
  uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  uint32_t k[2] = {key[0], key[1]};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c[0];
    uint64_t p1 = (uint64_t)0xcd9e8d57u * c[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1,
                        (uint32_t)(p0 >> 32) ^ c[3] ^ k[1], (uint32_t)p0};
    memcpy(c, next, sizeof c);
    k[0] += 0x9e3779b9u; /* Weyl steps: golden ratio, sqrt(3) - 1 */
    k[1] += 0xbb67ae85u;
  }
  memcpy(ret, c, sizeof c);
}

/*
 * Natural logarithm of a normal x > 0. x = m * 2^e with m in [sqrt(1/2), sqrt(2)); with
 * s = (m-1)/(m+1), |s| <= 0.1716, log m = 2 (s + s^3/3 + s^5/5 + ...): 11 terms reach 1e-18.
 */
static double natural_log(double x) {
  static const double ln2 = 0.693147180559945309417;
  static const double sqrt2 = 1.41421356237309504880;
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int exponent = (int)(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m >= sqrt2) {
    m *= 0.5;
    exponent++;
  }
  double s = (m - 1.0) / (m + 1.0);
  double square = s * s;
  double sum = 0.0;
  for (int k = 21; k >= 1; k -= 2) {
    sum = sum * square + 1.0 / k;
  }
  return exponent * ln2 + 2.0 * s * sum;
}

/* A ratio of two polynomials of degree 7, constant terms first. */
struct ratio {
  double num[8];
  double den[8];
};

static double evaluate(const struct ratio *ratio, double x) {
  double num = ratio->num[7];
  double den = ratio->den[7];
  for (int k = 6; k >= 0; k--) {
    num = num * x + ratio->num[k];
    den = den * x + ratio->den[k];
  }
  return num / den;
}

/* AS 241, PPND16: |p - 1/2| <= 0.425, then by r = sqrt(-log of the smaller tail) up to 5 and over.
 */
static const struct ratio central = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
     1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
     3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
     5.2264952788528545610e+3}};
static const struct ratio middle = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9}};
static const struct ratio tail = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15}};

double stg_inverse_normal(uint32_t word) {
  static const double scale = 1.0 / 4294967296.0;
  double p = (word + 0.5) * scale;
  double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    return q * evaluate(&central, 0.180625 - q * q);
  }
  double r = sqrt(-natural_log(q < 0.0 ? p : 1.0 - p));
  double z = r <= 5.0 ? evaluate(&middle, r - 1.6) : evaluate(&tail, r - 5.0);
  return q < 0.0 ? -z : z;
}

void stg_random_normal(uint64_t seed, uint64_t stream, uint64_t first, float scale, float *dst,
                       size_t count) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4] = {0};
  for (size_t i = 0; i < count; i++) {
    uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) {
      uint64_t block = element / 4;
      const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                                   (uint32_t)(stream >> 32)};
      stg_philox4x32(counter, key, words);
    }
    dst[i] = (float)(stg_inverse_normal(words[element % 4]) * (double)scale);
  }
}

int64_t stg_random_between(uint64_t seed, uint64_t stream, uint64_t index, int64_t min,
                           int64_t max) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  const uint64_t block = index / 4;
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                               (uint32_t)(stream >> 32)};
  uint32_t words[4] = {0};
  stg_philox4x32(counter, key, words);
  /* a word times at most 2^32 */
  return min + (int64_t)(words[index % 4] * ((uint64_t)(max - min) + 1) >> 32);
}
