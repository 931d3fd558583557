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

/* The two elements that a sum takes, as they were; their scales of xPos; and with them. */
struct terms {
  struct member member;
  double x, y;
  double x_scale, y_scale;
  double a, b;
  double log_scale; /* the larger of the two */
};

static struct terms terms_of(const struct stg_oracle_turn *turn, enum stg_rope_part part, bool back,
                             const double *head, uint32_t e) {
  const struct member member = member_of(turn->geometry, e);
  const double own_log = log_scale_of(turn, part, e);
  const double other_log = back ? log_scale_of(turn, part, member.other) : own_log;
  struct terms t = {.member = member, .x = head[e], .y = head[member.other]};
  t.x_scale = exp(own_log);
  t.y_scale = exp(other_log);
  t.a = t.x * t.x_scale;
  t.b = t.y * t.y_scale;
  t.log_scale = fmax(fabs(own_log), fabs(other_log));
  return t;
}

static bool is_scaled(const struct stg_rope_geometry *geometry) {
  return geometry->xpos != STG_ROPE_XPOS_NONE;
}

/* To which cosine, sine and scale are rounded. */
static stg_dtype trig_dtype(const struct stg_rope_geometry *geometry) {
  if (geometry->trig == STG_ROPE_TRIG_F32) {
    return STG_F32;
  }
  return geometry->trig == STG_ROPE_TRIG_SWAPPED_BF16 ? STG_BF16 : geometry->dtype;
}

/* Of cosine and sine; a table may have any. */
static double length_of(const struct stg_oracle_turn *turn, uint32_t pair) {
  return hypot(turn->cosine[pair], turn->sine[pair]);
}

static double bound_of(const struct stg_oracle_turn *turn, const struct terms *t, double ref) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const uint32_t of = t->member.pair;
  const bool scaled = is_scaled(geometry);
  const double unit = stg_dtype_unit(geometry->dtype);
  const double tiny = stg_dtype_tiny(geometry->dtype);
  const double terms = fabs(t->a * turn->cosine[of]) + fabs(t->b * turn->sine[of]);
  const double pair = hypot(t->a, t->b);
  const double arithmetic = 2 + (scaled ? 2 + 2 * t->log_scale : 0);
  const double length = fmax(1, length_of(turn, of));
  const double angle = 0x1p-23 * (turn->angle_error[of] + arithmetic) * pair * length;
  const double roundings = scaled ? 2 : 1;
  /* what rounds off below a type's normal numbers before the scale, and what the scale itself does
   */
  const double grown = scaled ? fmax(length, fmax(t->x_scale, t->y_scale)) : 1;
  const double unscaled = scaled ? hypot(t->x, t->y) * length : 0;
  double inside = scaled ? 0x1p-149 * (2 * grown + unscaled) : 0;
  if (geometry->round == STG_ROPE_ROUND_EACH_OP) {
    inside += roundings * (unit * terms + tiny * grown);
  }
  if (geometry->trig != STG_ROPE_TRIG_F32) {
    const stg_dtype dtype = trig_dtype(geometry);
    inside += roundings * (stg_dtype_unit(dtype) * terms + stg_dtype_tiny(dtype) * pair);
    inside += stg_dtype_tiny(dtype) * unscaled;
  }
  return unit * fabs(ref) + tiny / 2 + (1 + 2 * unit) * angle + 1.02 * inside;
}

/* A scale, or a product, that its type cannot hold is infinite, and so is the sum, or NaN. */
static bool may_leave(const struct stg_oracle_turn *turn, const struct terms *t, bool back) {
  const struct stg_rope_geometry *geometry = turn->geometry;
  const bool scaled = is_scaled(geometry);
  const double cosine = fabs(turn->cosine[t->member.pair]);
  const double sine = fabs(turn->sine[t->member.pair]);
  const stg_dtype of_products =
      geometry->round == STG_ROPE_ROUND_EACH_OP ? geometry->dtype : STG_F32;
  if (!scaled && length_of(turn, t->member.pair) <= 1) {
    return false;
  }
  const double first =
      back ? fmax(fabs(t->a), fabs(t->b)) : fmax(fabs(t->x) * cosine, fabs(t->y) * sine);
  const double second = fmax(fabs(t->a) * cosine, fabs(t->b) * sine);
  return 1.02 * fmax(first, second) >= stg_dtype_max(of_products) ||
         (scaled && 1.02 * fmax(t->x_scale, t->y_scale) >= stg_dtype_max(trig_dtype(geometry)));
}

void stg_oracle_turn_head(const struct stg_oracle_turn *turn, enum stg_rope_part part, bool back,
                          const double *head, struct stg_oracle_reference *ret) {
  for (uint32_t e = 0; e < turn->geometry->rot; e++) {
    const struct terms t = terms_of(turn, part, back, head, e);
    const double straight = t.a * turn->cosine[t.member.pair];
    const double across = t.b * turn->sine[t.member.pair];
    ret->ref[e] = t.member.second != back ? straight + across : straight - across;
    ret->bound[e] = bound_of(turn, &t, ret->ref[e]);
    ret->leaves[e] = may_leave(turn, &t, back);
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
  const stg_dtype trig = trig_dtype(geometry);
  for (uint32_t e = 0; e < geometry->rot; e++) {
    const struct member member = member_of(geometry, e);
    const float cosine = rounded(trig, (float)turn->cosine[member.pair]);
    const float sine = rounded(trig, (float)turn->sine[member.pair]);
    const float straight = rounded(dtype, (float)head[e] * cosine);
    const float across = rounded(dtype, (float)head[member.other] * sine);
    ret_head[e] = rounded(dtype, member.second != back ? straight + across : straight - across);
  }
}
