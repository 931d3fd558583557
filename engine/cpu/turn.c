/*
 * cpu/turn.c: the angles of a row, and the pairs of a head.
 *
 * Pairs are taken apart into two arrays of whole lanes, whatever their layout, so that one loop
 * serves all and the compiler vectorises it.
 * It must not know of rows, layouts of a row or the cache.
 */
#include "engine/cpu/turn.h"

#include <string.h>

#include "codegen/prelude/angle.h"
#include "engine/cpu/lanes.h"

#define LANES STG_CPU_LANES

/* x to the type and back. */
static void round_lanes(stg_dtype dtype, float *x, size_t padded) {
  uint16_t narrow[STG_CPU_MAX_PAIRS];
  if (dtype != STG_F32) {
    stg_convert(dtype, narrow, STG_F32, x, padded);
    stg_convert(STG_F32, x, dtype, narrow, padded);
  }
}

static void round_pairs(stg_dtype dtype, struct stg_cpu_pairs *pairs, size_t padded) {
  round_lanes(dtype, pairs->first, padded);
  round_lanes(dtype, pairs->second, padded);
}

static void zero_tail(float *x, size_t count, size_t padded) {
  memset(x + count, 0, (padded - count) * sizeof *x);
}

static void fill_angles(const struct stg_rope_angles *angles, int64_t position, size_t n,
                        struct stg_cpu_turn *turn) {
  if (angles->table != NULL) {
    const float *row = angles->table + (size_t)position * 2 * n;
    memcpy(turn->cosine, row, n * sizeof *row);
    memcpy(turn->sine, row + n, n * sizeof *row);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    stg_math_sincos((float)position * angles->inv_freq[i], &turn->sine[i], &turn->cosine[i]);
  }
}

/* Give the elements of each pair the scale of their frequency. */
static void spread_scale(const struct stg_rope_geometry *geometry, const float *scale, size_t n,
                         struct stg_cpu_pairs *ret_scale) {
  const bool mixed =
      geometry->xpos == STG_ROPE_XPOS_HALVES && geometry->pairs == STG_ROPE_PAIRS_INTERLEAVED;
  for (size_t i = 0; i < n; i++) {
    ret_scale->first[i] = scale[mixed ? 2 * i % n : i];
    ret_scale->second[i] = scale[mixed ? (2 * i + 1) % n : i];
  }
}

static void fill_scales(const struct stg_rope_angles *angles, float power, size_t n,
                        struct stg_cpu_turn *turn) {
  for (int inverse = 0; inverse < 2; inverse++) {
    float scale[STG_CPU_MAX_PAIRS];
    const float signed_power = inverse != 0 ? -power : power;
    for (size_t i = 0; i < n; i++) {
      scale[i] = stg_math_exp(signed_power * angles->log_scale[i]);
    }
    spread_scale(turn->geometry, scale, n, &turn->scale[inverse]);
    zero_tail(turn->scale[inverse].first, n, turn->padded);
    zero_tail(turn->scale[inverse].second, n, turn->padded);
  }
}

/* As trig= says. The scales take the tensors' type alone. */
static void round_trig(struct stg_cpu_turn *turn) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  if (geometry->trig == STG_ROPE_TRIG_F32) {
    return;
  }
  const bool swapped = geometry->trig == STG_ROPE_TRIG_SWAPPED_BF16;
  const stg_dtype dtype = swapped ? STG_BF16 : geometry->dtype;
  round_lanes(dtype, turn->cosine, turn->padded);
  round_lanes(dtype, turn->sine, turn->padded);
  for (size_t i = 0; swapped && i < turn->padded; i++) {
    const float cosine = turn->cosine[i];
    turn->cosine[i] = turn->sine[i];
    turn->sine[i] = cosine;
  }
  if (geometry->xpos != STG_ROPE_XPOS_NONE) {
    round_pairs(dtype, &turn->scale[0], turn->padded);
    round_pairs(dtype, &turn->scale[1], turn->padded);
  }
}

void stg_cpu_turn_init(const struct stg_rope_geometry *geometry,
                       const struct stg_rope_angles *angles, int64_t position, int64_t centre,
                       struct stg_cpu_turn *ret_turn) {
  const size_t n = geometry->rot / 2;
  ret_turn->geometry = geometry;
  ret_turn->padded = stg_cpu_padded((int64_t)n);
  fill_angles(angles, position, n, ret_turn);
  zero_tail(ret_turn->cosine, n, ret_turn->padded);
  zero_tail(ret_turn->sine, n, ret_turn->padded);
  if (geometry->xpos != STG_ROPE_XPOS_NONE) {
    fill_scales(angles, (float)(position - centre) / angles->xpos_base, n, ret_turn);
  }
  round_trig(ret_turn);
}

/* ret[j] = x[j] * y[j] */
static void multiply(const float *restrict x, const float *restrict y, size_t padded,
                     float *restrict ret) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      ret[j + l] = x[j + l] * y[j + l];
    }
  }
}

/* x[j] *= y[j] */
static void multiply_by(const float *restrict y, size_t padded, float *restrict x) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      x[j + l] *= y[j + l];
    }
  }
}

/* ret[j] = x[j] + y[j] */
static void sum(const float *restrict x, const float *restrict y, size_t padded,
                float *restrict ret) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      ret[j + l] = x[j + l] + y[j + l];
    }
  }
}

/* ret[j] = x[j] - y[j] */
static void difference(const float *restrict x, const float *restrict y, size_t padded,
                       float *restrict ret) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      ret[j + l] = x[j + l] - y[j + l];
    }
  }
}

static void load_pairs(const struct stg_cpu_turn *turn, const void *head,
                       struct stg_cpu_pairs *ret_pairs) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const size_t n = geometry->rot / 2;
  float wide[STG_ROPE_MAX_DIM];
  stg_cpu_load(geometry->dtype, head, geometry->rot, wide);
  if (geometry->pairs == STG_ROPE_PAIRS_HALF) {
    memcpy(ret_pairs->first, wide, n * sizeof *wide);
    memcpy(ret_pairs->second, wide + n, n * sizeof *wide);
  } else {
    for (size_t i = 0; i < n; i++) {
      ret_pairs->first[i] = wide[2 * i];
      ret_pairs->second[i] = wide[2 * i + 1];
    }
  }
  zero_tail(ret_pairs->first, n, turn->padded);
  zero_tail(ret_pairs->second, n, turn->padded);
}

static void store_pairs(const struct stg_cpu_turn *turn, const struct stg_cpu_pairs *pairs,
                        void *head) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const size_t n = geometry->rot / 2;
  float wide[STG_ROPE_MAX_DIM];
  if (geometry->pairs == STG_ROPE_PAIRS_HALF) {
    memcpy(wide, pairs->first, n * sizeof *wide);
    memcpy(wide + n, pairs->second, n * sizeof *wide);
  } else {
    for (size_t i = 0; i < n; i++) {
      wide[2 * i] = pairs->first[i];
      wide[2 * i + 1] = pairs->second[i];
    }
  }
  stg_cpu_store(geometry->dtype, wide, geometry->rot, head);
}

/* The type to which products are rounded. */
static stg_dtype product_dtype(const struct stg_rope_geometry *geometry) {
  return geometry->round == STG_ROPE_ROUND_EACH_OP ? geometry->dtype : STG_F32;
}

/* Both products of each pair with one of the factors, and with the scale. */
static void weigh(const struct stg_cpu_turn *turn, const struct stg_cpu_pairs *x,
                  const float *factor, const struct stg_cpu_pairs *scale,
                  struct stg_cpu_pairs *ret) {
  const stg_dtype dtype = product_dtype(turn->geometry);
  multiply(x->first, factor, turn->padded, ret->first);
  multiply(x->second, factor, turn->padded, ret->second);
  round_pairs(dtype, ret, turn->padded);
  if (scale != NULL) {
    multiply_by(scale->first, turn->padded, ret->first);
    multiply_by(scale->second, turn->padded, ret->second);
    round_pairs(dtype, ret, turn->padded);
  }
}

static const struct stg_cpu_pairs *scale_of(const struct stg_cpu_turn *turn,
                                            enum stg_rope_part part) {
  return turn->geometry->xpos == STG_ROPE_XPOS_NONE ? NULL
                                                    : &turn->scale[part == STG_ROPE_K ? 1 : 0];
}

void stg_cpu_turn_head(const struct stg_cpu_turn *turn, enum stg_rope_part part, void *head) {
  const struct stg_cpu_pairs *scale = scale_of(turn, part);
  struct stg_cpu_pairs x;
  struct stg_cpu_pairs straight;
  struct stg_cpu_pairs across;
  load_pairs(turn, head, &x);
  weigh(turn, &x, turn->cosine, scale, &straight);
  /* what crosses over to the other element has the scale of where it arrives */
  const struct stg_cpu_pairs *arriving = scale;
  struct stg_cpu_pairs exchanged;
  if (scale != NULL) {
    memcpy(exchanged.first, scale->second, turn->padded * sizeof(float));
    memcpy(exchanged.second, scale->first, turn->padded * sizeof(float));
    arriving = &exchanged;
  }
  weigh(turn, &x, turn->sine, arriving, &across);
  difference(straight.first, across.second, turn->padded, x.first);
  sum(straight.second, across.first, turn->padded, x.second);
  store_pairs(turn, &x, head);
}

void stg_cpu_turn_head_back(const struct stg_cpu_turn *turn, enum stg_rope_part part, void *head) {
  const struct stg_cpu_pairs *scale = scale_of(turn, part);
  struct stg_cpu_pairs x;
  struct stg_cpu_pairs straight;
  struct stg_cpu_pairs across;
  load_pairs(turn, head, &x);
  if (scale != NULL) {
    multiply_by(scale->first, turn->padded, x.first);
    multiply_by(scale->second, turn->padded, x.second);
    round_pairs(product_dtype(turn->geometry), &x, turn->padded);
  }
  weigh(turn, &x, turn->cosine, NULL, &straight);
  weigh(turn, &x, turn->sine, NULL, &across);
  sum(straight.first, across.second, turn->padded, x.first);
  difference(straight.second, across.first, turn->padded, x.second);
  store_pairs(turn, &x, head);
}
