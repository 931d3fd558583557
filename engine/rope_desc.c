/*
 * rope_desc.c: what a rope is declared as: checked, with the geometry and the kernels that follow.
 * Makes nothing, so that the command can ask what a rope would be.
 */
#include <math.h>

#include "engine/attn.h"
#include "runtime/base/dtype.h"

#define DEFAULT_BASE 10000.0

/* The public words are those of the text. */
_Static_assert((int)STG_QKV_CONCAT == (int)STG_ROPE_LAYOUT_CONCAT &&
                   (int)STG_QKV_HEAD_FASTEST == (int)STG_ROPE_LAYOUT_HEAD_FASTEST,
               "layouts");
_Static_assert((int)STG_PAIRS_INTERLEAVED == (int)STG_ROPE_PAIRS_INTERLEAVED, "pairs");
_Static_assert((int)STG_ROUND_EACH_OP == (int)STG_ROPE_ROUND_EACH_OP, "roundings");
_Static_assert((int)STG_TRIG_F32 == (int)STG_ROPE_TRIG_F32 + 1 &&
                   (int)STG_TRIG_SWAPPED_BF16 == (int)STG_ROPE_TRIG_SWAPPED_BF16 + 1,
               "trigs, behind the default");
_Static_assert((int)STG_SCALING_LLAMA3 == (int)STG_ROPE_SCALING_LLAMA3, "scalings");
_Static_assert((int)STG_XPOS_PAIRS == (int)STG_ROPE_XPOS_PAIRS, "scales");
_Static_assert((int)STG_ORDER_HEADS_FIRST == (int)STG_HEADS_HEADS_FIRST, "orders");

static stg_status check_words(const stg_rope_desc *desc, stg_error *reterr) {
  const struct {
    const char *name;
    unsigned value, last;
  } words[] = {
      {"layout", (unsigned)desc->layout, STG_QKV_HEAD_FASTEST},
      {"pairs", (unsigned)desc->pairs, STG_PAIRS_INTERLEAVED},
      {"round", (unsigned)desc->round, STG_ROUND_EACH_OP},
      {"trig", (unsigned)desc->trig, STG_TRIG_SWAPPED_BF16},
      {"scaling", (unsigned)desc->scaling, STG_SCALING_LLAMA3},
      {"xpos", (unsigned)desc->xpos, STG_XPOS_PAIRS},
      {"order", (unsigned)desc->order, STG_ORDER_HEADS_FIRST},
  };
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (words[i].value > words[i].last) {
      return stg_error_set(reterr, STG_E_INVALID, "%s: %u is not in 0..%u", words[i].name,
                           words[i].value, words[i].last);
    }
  }
  return STG_OK;
}

struct stg_rope_freq stg_rope_freq_of(const stg_rope_desc *desc) {
  return (struct stg_rope_freq){
      .base = desc->base != 0 ? desc->base : DEFAULT_BASE,
      .scaling = (enum stg_rope_scaling)desc->scaling,
      .factor = desc->factor,
      .low_freq = desc->low_freq,
      .high_freq = desc->high_freq,
      .original = desc->original,
  };
}

static bool is_positive(double value) {
  return isfinite(value) && value > 0;
}

static stg_status check_angles(const stg_rope_desc *desc, stg_error *reterr) {
  if (desc->base != 0 && !is_positive(desc->base)) {
    return stg_error_set(reterr, STG_E_INVALID, "base: %g is not finite and above 0", desc->base);
  }
  if (desc->xpos_base != 0 && !is_positive((double)desc->xpos_base)) {
    return stg_error_set(reterr, STG_E_INVALID, "xpos_base: %g is not finite and above 0",
                         (double)desc->xpos_base);
  }
  if (desc->scaling != STG_SCALING_NONE && !is_positive(desc->factor)) {
    return stg_error_set(reterr, STG_E_INVALID, "factor: %g is not finite and above 0",
                         desc->factor);
  }
  if (desc->scaling == STG_SCALING_LLAMA3 &&
      (!is_positive(desc->low_freq) || !is_positive(desc->high_freq) ||
       desc->low_freq >= desc->high_freq || desc->original < 1)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "low_freq: %g, high_freq: %g, original: %lld; frequencies are above 0, "
                         "the low one below the high one, and there is a position at least",
                         desc->low_freq, desc->high_freq, (long long)desc->original);
  }
  return STG_OK;
}

/* Sines are those of angles within 2^31, which positions are: so no frequency may be above 1. What
 * is wrong with `rot` itself is said later. */
static stg_status check_frequencies(const stg_rope_desc *desc, uint32_t rot, stg_error *reterr) {
  float inv[STG_ROPE_MAX_DIM / 2];
  if (desc->table != NULL || rot > STG_ROPE_MAX_DIM) {
    return STG_OK;
  }
  const struct stg_rope_freq freq = stg_rope_freq_of(desc);
  stg_rope_inv_freq(&freq, rot, inv);
  for (uint32_t i = 0; i < rot / 2; i++) {
    if (!(inv[i] <= 1)) {
      return stg_error_set(
          reterr, STG_E_INVALID,
          "base: %g, factor: %g: frequency %u is %g, and none may be above 1; give "
          "a larger base or factor",
          freq.base, desc->scaling != STG_SCALING_NONE ? freq.factor : 1.0, i, (double)inv[i]);
    }
  }
  return STG_OK;
}

static stg_status check_table(const stg_rope_desc *desc, const struct stg_kv_form *form,
                              stg_error *reterr) {
  const int64_t positions = desc->table_positions;
  if (desc->table == NULL ? positions != 0 : positions < 1 || positions > STG_MAX_POSITION + 1) {
    return stg_error_set(reterr, STG_E_INVALID, "table_positions: %lld with a table at %p",
                         (long long)positions, (const void *)desc->table);
  }
  if (desc->table != NULL && form != NULL && positions < form->capacity) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "table_positions: %lld are fewer than the %lld of the cache",
                         (long long)positions, (long long)form->capacity);
  }
  return STG_OK;
}

static stg_status check_cache(const struct stg_kv_form *form, const struct stg_rope_geometry *g,
                              stg_error *reterr) {
  if (form == NULL ||
      (g->kv_heads == form->kv_heads && g->dim == form->dim && g->dtype == form->dtype)) {
    return STG_OK;
  }
  return stg_error_set(
      reterr, STG_E_INVALID, "kv_heads %u, dim %u, dtype %s; the cache has %u, %u, %s", g->kv_heads,
      g->dim, stg_dtype_name(g->dtype), form->kv_heads, form->dim, stg_dtype_name(form->dtype));
}

static struct stg_rope_geometry geometry_of(const stg_rope_desc *desc,
                                            const struct stg_kv_form *form) {
  const uint32_t dim = desc->dim != 0 || form == NULL ? desc->dim : form->dim;
  const stg_trig trig = desc->trig != STG_TRIG_DEFAULT     ? desc->trig
                        : desc->round == STG_ROUND_EACH_OP ? STG_TRIG_DTYPE
                                                           : STG_TRIG_F32;
  return (struct stg_rope_geometry){
      .heads = desc->heads,
      .kv_heads = desc->kv_heads != 0 || form == NULL ? desc->kv_heads : form->kv_heads,
      .dim = dim,
      .rot = desc->rot != 0 ? desc->rot : dim,
      .dtype = desc->dtype != STG_DTYPE_NONE || form == NULL ? desc->dtype : form->dtype,
      .layout = (enum stg_rope_layout)desc->layout,
      .pairs = (enum stg_rope_pairs)desc->pairs,
      .round = (enum stg_rope_round)desc->round,
      .trig = (enum stg_rope_trig)(trig - STG_TRIG_F32),
      .xpos = (enum stg_rope_xpos)desc->xpos,
      .order = (enum stg_heads_order)desc->order,
  };
}

stg_status stg_rope_describe(const stg_rope_desc *desc, const struct stg_kv_form *form,
                             struct stg_rope_geometry *ret_geometry, stg_error *reterr) {
  stg_status status = check_words(desc, reterr);
  if (status == STG_OK) {
    status = check_angles(desc, reterr);
  }
  if (status == STG_OK) {
    status = check_table(desc, form, reterr);
  }
  const struct stg_rope_geometry geometry = geometry_of(desc, form);
  if (status == STG_OK) {
    status = check_cache(form, &geometry, reterr);
  }
  if (status == STG_OK) {
    status = check_frequencies(desc, geometry.rot, reterr);
  }
  if (status == STG_OK) {
    *ret_geometry = geometry;
  }
  return status;
}

struct stg_rope_works stg_rope_works_of(const stg_rope_desc *desc, const struct stg_kv_form *form,
                                        const struct stg_rope_geometry *geometry) {
  return (struct stg_rope_works){
      .forward =
          {
              .geometry = *geometry,
              .sink = form == NULL       ? STG_ROPE_SINK_OUT
                      : form->block != 0 ? STG_ROPE_SINK_PAGED
                                         : STG_ROPE_SINK_DENSE,
              .table = desc->table != NULL,
          },
      .backward = {.geometry = *geometry, .table = desc->table != NULL, .backward = true},
      .transpose = {.work = STG_ROPE_TRANSPOSE,
                    .geometry = {.dim = geometry->dim, .dtype = geometry->dtype}},
  };
}
