/*
 * rope.c: a rope: what it is declared as, its table of frequencies, its kernels.
 */
#include <math.h>
#include <string.h>

#include "engine/attn.h"
#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

#define DEFAULT_BASE 10000.0
#define DEFAULT_XPOS_BASE 512.0F

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

static stg_status check_table(const stg_rope_desc *desc, stg_error *reterr) {
  const int64_t positions = desc->table_positions;
  if (desc->table == NULL ? positions != 0 : positions < 1 || positions > STG_MAX_POSITION + 1) {
    return stg_error_set(reterr, STG_E_INVALID, "table_positions: %lld with a table at %p",
                         (long long)positions, (const void *)desc->table);
  }
  if (desc->table != NULL && desc->kv != NULL && positions < desc->kv->form.capacity) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "table_positions: %lld are fewer than the %lld of the cache",
                         (long long)positions, (long long)desc->kv->form.capacity);
  }
  return STG_OK;
}

static stg_status check_cache(const struct stg_engine *engine, const stg_rope_desc *desc,
                              const struct stg_rope_geometry *g, stg_error *reterr) {
  const stg_kv *kv = desc->kv;
  if (kv == NULL) {
    return STG_OK;
  }
  if (kv->object.engine != engine) {
    return stg_error_set(reterr, STG_E_INVALID, "kv: the cache is of another engine");
  }
  if (g->kv_heads != kv->form.kv_heads || g->dim != kv->form.dim || g->dtype != kv->form.dtype) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "kv_heads %u, dim %u, dtype %s; the cache has %u, %u, %s", g->kv_heads,
                         g->dim, stg_dtype_name(g->dtype), kv->form.kv_heads, kv->form.dim,
                         stg_dtype_name(kv->form.dtype));
  }
  return STG_OK;
}

static struct stg_rope_geometry geometry_of(const stg_rope_desc *desc) {
  const struct stg_kv_form *form = desc->kv != NULL ? &desc->kv->form : NULL;
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

static stg_status open_kernels(stg_rope *rope, const struct stg_rope_kernel *kernel,
                               struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_rope_decl decl;
  stg_status status = stg_rope_decl_init(kernel, &decl, reterr);
  return status == STG_OK ? stg_kernels_open(rope->object.engine, &decl.base, ret_set, reterr)
                          : status;
}

static stg_status open_declared(stg_rope *rope, const stg_rope_desc *desc, stg_error *reterr) {
  const struct stg_rope_geometry *g = &rope->geometry;
  const struct stg_rope_kernel forward = {
      .geometry = *g,
      .sink = desc->kv == NULL            ? STG_ROPE_SINK_OUT
              : desc->kv->form.block != 0 ? STG_ROPE_SINK_PAGED
                                          : STG_ROPE_SINK_DENSE,
      .table = desc->table != NULL,
  };
  const struct stg_rope_kernel backward = {
      .geometry = *g, .table = desc->table != NULL, .backward = true};
  const struct stg_rope_kernel transpose = {.work = STG_ROPE_TRANSPOSE,
                                            .geometry = {.dim = g->dim, .dtype = g->dtype}};
  stg_status status = open_kernels(rope, &forward, &rope->forward, reterr);
  if (status == STG_OK && desc->backward) {
    status = open_kernels(rope, &backward, &rope->backward, reterr);
  }
  if (status == STG_OK && desc->transpose) {
    status = open_kernels(rope, &transpose, &rope->transpose, reterr);
  }
  return status;
}

/* Where the parts of the tables begin, in floats. */
struct tables {
  size_t log_scale, table, count;
};

/* Not more floats than 2^40: dim and positions are bounded. */
static struct tables measure(const stg_rope *rope, const stg_rope_desc *desc) {
  const size_t half = rope->geometry.rot / 2;
  return (struct tables){.log_scale = half,
                         .table = 2 * half,
                         .count = 2 * half * (1 + (size_t)desc->table_positions)};
}

static void write_tables(const stg_rope *rope, const stg_rope_desc *desc,
                         const struct tables *tables, float *to) {
  const struct stg_rope_freq freq = {
      .base = desc->base != 0 ? desc->base : DEFAULT_BASE,
      .scaling = (enum stg_rope_scaling)desc->scaling,
      .factor = desc->factor,
      .low_freq = desc->low_freq,
      .high_freq = desc->high_freq,
      .original = desc->original,
  };
  stg_rope_inv_freq(&freq, rope->geometry.rot, to);
  stg_rope_log_scale(rope->geometry.rot, to + tables->log_scale);
  if (desc->table != NULL) {
    memcpy(to + tables->table, desc->table, (tables->count - tables->table) * sizeof *to);
  }
}

static stg_status make_tables(stg_rope *rope, const stg_rope_desc *desc, stg_error *reterr) {
  struct stg_engine *engine = rope->object.engine;
  const struct tables tables = measure(rope, desc);
  const size_t bytes = tables.count * sizeof(float);
  float *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "the tables of a rope", bytes);
  }
  write_tables(rope, desc, &tables, host);
  stg_status status = stg_mem_alloc(engine, bytes, &rope->tables, reterr);
  if (status == STG_OK) {
    status = stg_mem_upload(engine, rope->tables, host, bytes, reterr);
  }
  stg_free(host);
  if (status != STG_OK) {
    return status;
  }
  const float *at = rope->tables;
  rope->angles = (struct stg_rope_angles){
      .inv_freq = at,
      .log_scale = at + tables.log_scale,
      .xpos_base = desc->xpos_base != 0 ? desc->xpos_base : DEFAULT_XPOS_BASE,
      .table = desc->table != NULL ? at + tables.table : NULL,
      .table_positions = desc->table_positions,
  };
  if (stg_engine_is_cuda(engine)) {
    rope->held = (struct stg_held_bytes){.kv = bytes};
  }
  return STG_OK;
}

static void release(stg_rope *rope) {
  struct stg_engine *engine = rope->object.engine;
  stg_usage_let_go(&engine->usage, &rope->held);
  stg_kernels_close(rope->forward);
  stg_kernels_close(rope->backward);
  stg_kernels_close(rope->transpose);
  stg_mem_free(engine, rope->tables);
  stg_attn_object_finish(&rope->object);
  stg_free(rope);
}

static stg_status check_desc(struct stg_engine *engine, const stg_rope_desc *desc,
                             struct stg_rope_geometry *ret_geometry, stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rope_create: desc is NULL, or struct_size is not %zu", sizeof *desc);
  }
  stg_status status = check_words(desc, reterr);
  if (status == STG_OK) {
    status = check_angles(desc, reterr);
  }
  if (status == STG_OK) {
    status = check_table(desc, reterr);
  }
  const struct stg_rope_geometry geometry = geometry_of(desc);
  if (status == STG_OK) {
    status = check_cache(engine, desc, &geometry, reterr);
  }
  *ret_geometry = geometry;
  return status;
}

stg_status stg_rope_create(stg_engine *engine, const stg_rope_desc *desc, stg_rope **ret_rope,
                           stg_error *reterr) {
  if (engine == NULL || ret_rope == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_rope_create: engine or ret_rope is NULL");
  }
  struct stg_rope_geometry geometry;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = check_desc(engine, desc, &geometry, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_rope *rope = stg_calloc(1, sizeof *rope);
  if (rope == NULL) {
    return stg_error_memory(reterr, "a rope", sizeof *rope);
  }
  stg_attn_object_init(&rope->object, engine, STG_OBJECT_ROPE, "rope");
  rope->geometry = geometry;
  status = open_declared(rope, desc, reterr);
  if (status == STG_OK) {
    status = make_tables(rope, desc, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_pins_refill(&rope->object.pins, reterr);
  }
  stg_usage_hold(&engine->usage, &rope->held);
  if (status != STG_OK) {
    release(rope);
    return status;
  }
  rope->kv = desc->kv;
  stg_attn_object_use(rope->kv != NULL ? &rope->kv->object : NULL);
  *ret_rope = rope;
  return STG_OK;
}

stg_status stg_rope_destroy(stg_rope *rope, stg_error *reterr) {
  if (rope == NULL || stg_engine_check_process(rope->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&rope->object, "stg_rope_destroy", reterr);
  if (status == STG_OK) {
    stg_kv *kv = rope->kv;
    release(rope);
    stg_attn_object_let_go(kv != NULL ? &kv->object : NULL);
  }
  return status;
}
