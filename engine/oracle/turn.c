/*
 * oracle/turn.c: see turn.h; the bound is that of rope.h.
 */
#include "engine/oracle/turn.h"

#include <math.h>

#include "runtime/base/dtype.h"

#define PI 3.14159265358979323846

/* The stretched frequency by wave lengths, as the models' own code has it. */
static double frequency(const struct stg_rope_freq *freq, uint32_t rot, uint32_t i) {
  const double plain = 1 / pow(freq->base, (double)(2 * i) / (double)rot);
  if (freq->scaling == STG_ROPE_SCALING_NONE) {
    return plain;
  }
  if (freq->scaling == STG_ROPE_SCALING_LINEAR) {
    return plain / freq->factor;
  }
  const double wave = 2 * PI / plain;
  const double longest_kept = (double)freq->original / freq->high_freq;
  const double shortest_stretched = (double)freq->original / freq->low_freq;
  if (wave < longest_kept) {
    return plain;
  }
  if (wave > shortest_stretched) {
    return plain / freq->factor;
  }
  const double smooth =
      ((double)freq->original / wave - freq->low_freq) / (freq->high_freq - freq->low_freq);
  return (1 - smooth) * plain / freq->factor + smooth * plain;
}

void stg_oracle_turn_init(const struct stg_rope_geometry *geometry,
                          const struct stg_oracle_angles *angles, int64_t position, int64_t centre,
                          struct stg_oracle_turn *ret_turn) {
  const uint32_t n = geometry->rot / 2;
  const double rot = geometry->rot;
  ret_turn->geometry = geometry;
  for (uint32_t i = 0; i < n; i++) {
    double cosine;
    double sine;
    ret_turn->angle_error[i] = 0;
    if (angles->table != NULL) {
      cosine = (double)angles->table[(size_t)position * 2 * n + i];
      sine = (double)angles->table[(size_t)position * 2 * n + n + i];
    } else {
      const double angle = (double)position * frequency(angles->freq, geometry->rot, i);
      cosine = cos(angle);
      sine = sin(angle);
      ret_turn->angle_error[i] = angle * (position > (1 << 24) ? 1.5 : 1);
    }
    const bool swapped = geometry->trig == STG_ROPE_TRIG_SWAPPED_BF16;
    ret_turn->cosine[i] = swapped ? sine : cosine;
    ret_turn->sine[i] = swapped ? cosine : sine;
    ret_turn->log_scale[i] = 0;
    if (geometry->xpos != STG_ROPE_XPOS_NONE) {
      const double power = (double)(position - centre) / angles->xpos_base;
      ret_turn->log_scale[i] = power * log((2 * (double)i + 0.4 * rot) / (1.4 * rot));
    }
  }
}

/* Of element e: its pair, the other element of it, and which of the two it is. */
struct member {
  uint32_t pair, other;
  bool second;
};

static struct member member_of(const struct stg_rope_geometry *geometry, uint32_t e) {
  const uint32_t half = geometry->rot / 2;
  if (geometry->pairs == STG_ROPE_PAIRS_INTERLEAVED) {
    return (struct member){e / 2, e % 2 == 0 ? e + 1 : e - 1, e % 2 == 1};
  }
  return e < half ? (struct member){e, e + half, false} : (struct member){e - half, e - half, true};
}

static double log_scale_of(const struct stg_oracle_turn *turn, enum stg_rope_part part,
                           uint32_t e) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const uint32_t half = geometry->rot / 2;
  const uint32_t place = e < half ? e : e - half;
  const uint32_t frequency_of =
      geometry->xpos == STG_ROPE_XPOS_HALVES ? place : member_of(geometry, e).pair;
  return part == STG_ROPE_K ? -turn->log_scale[frequency_of] : turn->log_scale[frequency_of];
}

static double bound_of(const struct stg_oracle_turn *turn, struct member member, double a, double b,
                       double log_scale, double ref) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const bool scaled = geometry->xpos != STG_ROPE_XPOS_NONE;
  const double unit = stg_dtype_unit(geometry->dtype);
  const double tiny = stg_dtype_tiny(geometry->dtype);
  const double terms = fabs(a * turn->cosine[member.pair]) + fabs(b * turn->sine[member.pair]);
  const double pair = hypot(a, b);
  const double arithmetic = 2 + (scaled ? 2 + 2 * fabs(log_scale) : 0);
  const double length = hypot(turn->cosine[member.pair], turn->sine[member.pair]); /* of a table */
  const double angle =
      0x1p-23 * (turn->angle_error[member.pair] + arithmetic) * pair * fmax(1, length);
  const double roundings = scaled ? 2 : 1;
  double inside = 0;
  if (geometry->round == STG_ROPE_ROUND_EACH_OP) {
    inside += roundings * (unit * terms + tiny);
  }
  if (geometry->trig != STG_ROPE_TRIG_F32) {
    const bool swapped = geometry->trig == STG_ROPE_TRIG_SWAPPED_BF16;
    const stg_dtype dtype = swapped ? STG_BF16 : geometry->dtype;
    inside += roundings * (stg_dtype_unit(dtype) * terms + stg_dtype_tiny(dtype) * pair);
  }
  return unit * fabs(ref) + tiny / 2 + (1 + 2 * unit) * angle + 1.02 * inside;
}

void stg_oracle_turn_head(const struct stg_oracle_turn *turn, enum stg_rope_part part, bool back,
                          const double *head, double *ret_ref, double *ret_bound) {
  for (uint32_t e = 0; e < turn->geometry->rot; e++) {
    const struct member member = member_of(turn->geometry, e);
    const double own_log = log_scale_of(turn, part, e);
    const double other_log = back ? log_scale_of(turn, part, member.other) : own_log;
    const double a = head[e] * exp(own_log);
    const double b = head[member.other] * exp(other_log);
    const double straight = a * turn->cosine[member.pair];
    const double across = b * turn->sine[member.pair];
    ret_ref[e] = member.second != back ? straight + across : straight - across;
    ret_bound[e] = bound_of(turn, member, a, b, fmax(fabs(own_log), fabs(other_log)), ret_ref[e]);
  }
}

bool stg_oracle_turn_is_exact(const struct stg_rope_geometry *geometry,
                              const struct stg_oracle_angles *angles) {
  return angles->table != NULL && geometry->round == STG_ROPE_ROUND_EACH_OP &&
         geometry->xpos == STG_ROPE_XPOS_NONE;
}

static float rounded(stg_dtype dtype, float x) {
  uint32_t bits = 0;
  stg_store_f32(dtype, &bits, 0, x);
  return stg_load_f32(dtype, &bits, 0);
}

void stg_oracle_turn_eager(const struct stg_oracle_turn *turn, bool back, const double *head,
                           float *ret_head) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const stg_dtype dtype = geometry->dtype;
  stg_dtype trig = STG_F32;
  if (geometry->trig != STG_ROPE_TRIG_F32) {
    trig = geometry->trig == STG_ROPE_TRIG_DTYPE ? dtype : STG_BF16;
  }
  for (uint32_t e = 0; e < geometry->rot; e++) {
    const struct member member = member_of(geometry, e);
    const float cosine = rounded(trig, (float)turn->cosine[member.pair]);
    const float sine = rounded(trig, (float)turn->sine[member.pair]);
    const float straight = rounded(dtype, (float)head[e] * cosine);
    const float across = rounded(dtype, (float)head[member.other] * sine);
    ret_head[e] = rounded(dtype, member.second != back ? straight + across : straight - across);
  }
}
