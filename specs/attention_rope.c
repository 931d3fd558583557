/*
 * attention_rope.c: the members "rope", what turns queries and keys, and "attend", what weighs
 * keys.
 *
 * Knows which parameters go together, not what they compute.
 */
#include <inttypes.h>
#include <math.h>

#include "specs/attention_reader.h"

static stg_status read_layout(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const words[] = {"concat", "interleaved", "grouped", "head_fastest", NULL};
  const struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  unsigned layout = STG_SPEC_LAYOUT_CONCAT;
  stg_status status = stg_spec_read_word(&reader->spec, at, "layout", words, &layout);
  if (status == STG_OK && layout == STG_SPEC_LAYOUT_INTERLEAVED && w->kv_heads != w->heads &&
      stg_json_find(at, "layout", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'interleaved' is [3, heads, dim], with as many KV heads as heads; "
                            "geometry has %u and %u, so use 'concat' or 'grouped'",
                            w->heads, w->kv_heads);
  }
  reader->workload->rope.layout = (enum stg_spec_layout)layout;
  return status;
}

static stg_status read_rot(struct stg_attention_reader *reader, const struct stg_json *at) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  int64_t rot = w->dim;
  stg_status status = stg_spec_read_optional_int(&reader->spec, at, "rot", 2, w->dim, &rot);
  if (status == STG_OK && rot % 2 != 0 && stg_json_find(at, "rot", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " is odd; a rotation takes elements in pairs", rot);
  }
  w->rope.rot = (uint32_t)rot;
  return status;
}

/* A number above 0 that must be there. */
static stg_status read_factor(struct stg_attention_reader *reader, const struct stg_json *at,
                              const char *key, double *ret) {
  struct stg_json member;
  stg_status status = stg_json_get(at, key, &member, reader->spec.err);
  return status == STG_OK ? stg_spec_read_positive(&reader->spec, at, key, ret) : status;
}

static stg_status read_llama3(struct stg_attention_reader *reader, const struct stg_json *at) {
  struct stg_spec_rope *rope = &reader->workload->rope;
  struct stg_json member;
  stg_status status = read_factor(reader, at, "low", &rope->low);
  if (status == STG_OK) {
    status = read_factor(reader, at, "high", &rope->high);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "original", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, INT32_MAX, &rope->original, reader->spec.err);
  }
  if (status == STG_OK && rope->low >= rope->high) {
    status =
        stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                       "low %g is not below high %g; models use 1 and 4", rope->low, rope->high);
  }
  return status;
}

static stg_status read_scaling(struct stg_attention_reader *reader, const struct stg_json *rope) {
  static const char *const words[] = {"linear", "llama3", NULL};
  static const char *const linear[] = {"kind", "factor", NULL};
  static const char *const llama3[] = {"kind", "factor", "low", "high", "original", NULL};
  struct stg_json at;
  struct stg_json member;
  unsigned kind = 0;
  if (!stg_json_find(rope, "scaling", &at)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(&at, "kind", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, &at, "kind", words, &kind);
  }
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, kind == 0 ? linear : llama3, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_factor(reader, &at, "factor", &reader->workload->rope.factor);
  }
  reader->workload->rope.scaling = kind == 0 ? STG_SPEC_SCALING_LINEAR : STG_SPEC_SCALING_LLAMA3;
  return status == STG_OK && kind == 1 ? read_llama3(reader, &at) : status;
}

static stg_status read_xpos(struct stg_attention_reader *reader, const struct stg_json *rope) {
  static const char *const keys[] = {"order", "base", NULL};
  static const char *const words[] = {"halves", "pairs", NULL};
  struct stg_json at;
  struct stg_json member;
  unsigned order = 0;
  reader->workload->rope.xpos_base = 512;
  if (!stg_json_find(rope, "xpos", &at)) {
    return STG_OK;
  }
  stg_status status = stg_json_check_keys(&at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(&at, "order", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, &at, "order", words, &order);
  }
  reader->workload->rope.xpos = order == 0 ? STG_SPEC_XPOS_HALVES : STG_SPEC_XPOS_PAIRS;
  return status == STG_OK
             ? stg_spec_read_positive(&reader->spec, &at, "base", &reader->workload->rope.xpos_base)
             : status;
}

/* A table has the angles that base and scaling would give. */
static stg_status read_table(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const instead[] = {"base", "scaling"};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json table;
  struct stg_json member;
  int64_t positions = 0;
  if (!stg_json_find(at, "table", &table)) {
    return STG_OK;
  }
  for (size_t i = 0; i < sizeof instead / sizeof instead[0]; i++) {
    if (stg_json_find(at, instead[i], &member)) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "a table has the angles already; leave it out");
    }
  }
  stg_status status = stg_json_get(&table, "positions", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, STG_ATTENTION_MAX_CAPACITY, &positions, reader->spec.err);
  }
  if (status == STG_OK && w->cache.exists && positions < w->cache.capacity) {
    status =
        stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                       "%" PRId64 ", but cache.capacity is %" PRId64, positions, w->cache.capacity);
  }
  if (status != STG_OK) {
    return status;
  }
  w->rope.has_table = true;
  w->rope.table = (struct stg_spec_array){
      .shape = {positions, 2, w->rope.rot / 2}, .n_dims = 3, .stream = STG_ATTENTION_STREAM_TABLE};
  return stg_spec_read_array(&reader->spec, &table, true, &w->rope.table);
}

/* Where eager rounds products it rounds cosines and sines as well. */
static stg_status read_rounding(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const rounds[] = {"final", "each_op", NULL};
  static const char *const trigs[] = {"f32", "dtype", "swapped_bf16", NULL};
  unsigned round = STG_SPEC_ROUND_FINAL;
  stg_status status = stg_spec_read_word(&reader->spec, at, "round", rounds, &round);
  unsigned trig = round == STG_SPEC_ROUND_EACH_OP ? STG_SPEC_TRIG_DTYPE : STG_SPEC_TRIG_F32;
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, at, "trig", trigs, &trig);
  }
  reader->workload->rope.round = (enum stg_spec_round)round;
  reader->workload->rope.trig = (enum stg_spec_trig)trig;
  return status;
}

static stg_status read_pairs(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const words[] = {"half", "interleaved", NULL};
  unsigned pairs = STG_SPEC_PAIRS_HALF;
  stg_status status = stg_spec_read_word(&reader->spec, at, "pairs", words, &pairs);
  reader->workload->rope.pairs = (enum stg_spec_pairs)pairs;
  return status;
}

static stg_status read_direction(struct stg_attention_reader *reader, const struct stg_json *at) {
  static const char *const words[] = {"forward", "backward", NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  unsigned backward = 0;
  stg_status status = stg_spec_read_word(&reader->spec, at, "direction", words, &backward);
  if (status == STG_OK && backward && w->cache.exists && stg_json_find(at, "direction", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'backward' gives the gradient of the packed rows; leave 'cache' out");
  }
  w->rope.backward = backward;
  w->rope.to_cache = w->cache.exists;
  return status;
}

static stg_status read_base(struct stg_attention_reader *reader, const struct stg_json *at) {
  reader->workload->rope.base = 10000;
  return stg_spec_read_positive(&reader->spec, at, "base", &reader->workload->rope.base);
}

/* "order": how heads stand. */
static stg_status read_order(const struct stg_attention_reader *reader,
                             const struct stg_json *object, enum stg_spec_order *ret) {
  static const char *const words[] = {"rows", "heads", NULL};
  unsigned order = STG_SPEC_ORDER_ROWS;
  stg_status status = stg_spec_read_word(&reader->spec, object, "order", words, &order);
  *ret = (enum stg_spec_order)order;
  return status;
}

static stg_status read_rope_order(struct stg_attention_reader *reader, const struct stg_json *at) {
  return read_order(reader, at, &reader->workload->rope.order);
}

stg_status stg_attention_read_rope(struct stg_attention_reader *reader,
                                   const struct stg_json *root) {
  static const char *const all[] = {"layout", "rot",  "pairs", "base",  "scaling",   "xpos",
                                    "round",  "trig", "table", "order", "direction", NULL};
  static const char *const of_step[] = {"layout", "rot",   "pairs", "base",  "scaling",
                                        "xpos",   "round", "trig",  "table", NULL};
  typedef stg_status (*read_part)(struct stg_attention_reader *, const struct stg_json *);
  static const read_part parts[] = {read_layout,     read_rot,      read_pairs, read_base,
                                    read_scaling,    read_xpos,     read_table, read_rounding,
                                    read_rope_order, read_direction};
  struct stg_json at;
  stg_status status = stg_json_get(root, "rope", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, reader->workload->kind == STG_SPEC_STEP ? of_step : all,
                                 reader->spec.err);
  }
  for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STG_OK; i++) {
    status = parts[i](reader, &at);
  }
  return status;
}

stg_status stg_attention_read_attend(struct stg_attention_reader *reader,
                                     const struct stg_json *root) {
  static const char *const keys[] = {"scale", "window", "order", NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json at;
  double scale = 1.0 / sqrt((double)w->dim);
  stg_status status = stg_json_get(root, "attend", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_positive(&reader->spec, &at, "scale", &scale);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, &at, "window", 1, STG_ATTENTION_MAX_CAPACITY,
                                        &w->attend.window);
  }
  w->attend.scale = (float)scale;
  return status == STG_OK ? read_order(reader, &at, &w->attend.order) : status;
}
