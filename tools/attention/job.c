/*
 * attention/job.c: see job.h. From the words of a workload to those of the library.
 */
#include "tools/attention/job.h"

#include <inttypes.h>

#include "runtime/base/dtype.h"
#include "tools/notes.h"

/* The words of a workload are the library's. */
_Static_assert((int)STG_SPEC_LAYOUT_HEAD_FASTEST == (int)STG_QKV_HEAD_FASTEST &&
                   (int)STG_SPEC_LAYOUT_GROUPED == (int)STG_QKV_GROUPED,
               "layouts");
_Static_assert((int)STG_SPEC_PAIRS_INTERLEAVED == (int)STG_PAIRS_INTERLEAVED, "pairs");
_Static_assert((int)STG_SPEC_ROUND_EACH_OP == (int)STG_ROUND_EACH_OP, "roundings");
_Static_assert((int)STG_SPEC_TRIG_F32 + 1 == (int)STG_TRIG_F32 &&
                   (int)STG_SPEC_TRIG_SWAPPED_BF16 + 1 == (int)STG_TRIG_SWAPPED_BF16,
               "trigs, behind the default");
_Static_assert((int)STG_SPEC_SCALING_LLAMA3 == (int)STG_SCALING_LLAMA3, "scalings");
_Static_assert((int)STG_SPEC_XPOS_PAIRS == (int)STG_XPOS_PAIRS, "scales");
_Static_assert((int)STG_SPEC_ORDER_HEADS == (int)STG_ORDER_HEADS_FIRST, "orders");

static const float unread_table;

static stg_kv_desc describe_kv(const struct stg_attention_workload *w) {
  const struct stg_spec_cache *cache = &w->cache;
  return (stg_kv_desc){
      .struct_size = sizeof(stg_kv_desc),
      .layers = w->layers,
      .batch = cache->batch,
      .kv_heads = w->kv_heads,
      .dim = w->dim,
      .capacity = cache->capacity,
      .dtype = w->dtype,
      .block = cache->block,
      .n_blocks = cache->n_blocks,
  };
}

/* A step's q goes from the one to the other. */
static stg_order order_of_q(const struct stg_attention_workload *w) {
  return (stg_order)(w->kind == STG_SPEC_STEP ? w->attend.order : w->rope.order);
}

static stg_rope_desc describe_rope(const struct stg_attention_workload *w) {
  const struct stg_spec_rope *rope = &w->rope;
  return (stg_rope_desc){
      .struct_size = sizeof(stg_rope_desc),
      .heads = w->heads,
      .kv_heads = w->kv_heads,
      .dim = w->dim,
      .rot = rope->rot,
      .dtype = w->dtype,
      .layout = (stg_qkv_layout)rope->layout,
      .pairs = (stg_pairs)rope->pairs,
      .round = (stg_rounding)rope->round,
      .trig = (stg_trig)(rope->trig + 1),
      .base = rope->base,
      .scaling = (stg_freq_scaling)rope->scaling,
      .factor = rope->factor,
      .low_freq = rope->low,
      .high_freq = rope->high,
      .original = rope->original,
      .xpos = (stg_xpos)rope->xpos,
      .xpos_base = (float)rope->xpos_base,
      .table = rope->has_table ? &unread_table : NULL,
      .table_positions = rope->has_table ? rope->table.shape[0] : 0,
      .order = order_of_q(w),
      .backward = rope->backward,
  };
}

static stg_attend_desc describe_attend(const struct stg_attention_workload *w) {
  const struct stg_spec_cache *cache = &w->cache;
  stg_attend_desc desc = {
      .struct_size = sizeof desc,
      .heads = w->heads,
      .scale = w->attend.scale,
      .window = w->attend.window,
      .key_mask = cache->key_mask != NULL,
      .order = (stg_order)w->attend.order,
  };
  if (cache->tokens) {
    desc.batch = cache->batch;
    desc.kv_heads = w->kv_heads;
    desc.dim = w->dim;
    desc.tokens = cache->capacity;
    desc.dtype = w->dtype;
  }
  return desc;
}

/* Steering acts on the heads of the attention's rows; what is declared of its table is as in a
 * workload of steering. */
static stg_status prepare_steer(struct stg_attention_job *job, bool declare_used,
                                stg_error *reterr) {
  if (!job->workload.steered) {
    return STG_OK;
  }
  job->steer.workload = job->workload.steer;
  job->steer.engine = job->engine;
  return stg_job_prepare(&job->steer, declare_used, reterr);
}

stg_status stg_attention_job_open(struct stg_attention_workload *workload,
                                  const struct stg_job_options *options,
                                  struct stg_attention_job *ret_job, stg_error *reterr) {
  struct stg_attention_job job = {.workload = *workload};
  const struct stg_attention_workload *w = &job.workload;
  job.has_kv = w->cache.exists && !w->cache.tokens;
  job.has_rope = w->kind != STG_SPEC_DECODE;
  job.has_attend = w->kind != STG_SPEC_ROPE;
  job.kv = describe_kv(w);
  job.rope = describe_rope(w);
  job.attend = describe_attend(w);
  stg_status status = stg_job_open_engine(options, &job.engine, reterr);
  if (status == STG_OK) {
    status = prepare_steer(&job, options->declare_used, reterr);
  }
  if (status != STG_OK) {
    stg_attention_job_close(&job);
    return status;
  }
  *ret_job = job;
  return STG_OK;
}

void stg_attention_job_close(struct stg_attention_job *job) {
  stg_job_close_engine(job->engine);
  stg_arena_finish(&job->steer.arena);
  stg_attention_finish(&job->workload);
}

stg_status stg_attention_job_declare(const struct stg_attention_job *job, struct stg_arena *arena,
                                     const struct stg_declared **ret_declared, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const stg_kv_desc *kv = job->has_kv ? &job->kv : NULL;
  if (w->kind == STG_SPEC_ROPE) {
    return stg_declare_rope(&job->rope, kv, arena, ret_declared, reterr);
  }
  if (w->kind == STG_SPEC_DECODE) {
    return stg_declare_attend(&job->attend, kv, arena, ret_declared, reterr);
  }
  const struct stg_declared_block block = {
      .kv = kv,
      .rope = &job->rope,
      .attend = &job->attend,
      .steer = w->steered ? &job->steer.desc : NULL,
      .advance = w->advance,
  };
  return stg_declare_block(job->engine, &block, arena, ret_declared, reterr);
}

struct stg_batch_sizes stg_attention_job_sizes(const struct stg_attention_job *job) {
  const struct stg_attention_workload *w = &job->workload;
  return (struct stg_batch_sizes){w->rows, w->sequences, (uint32_t)w->longest};
}

const char *stg_attention_job_note(const struct stg_attention_job *job, size_t index) {
  const struct stg_attention_workload *w = &job->workload;
  if (w->row_buckets != NULL || w->batch_buckets != NULL) {
    if (index == 0) {
      return "buckets: this version pads steps of this family to the default series";
    }
    index--;
  }
  return w->steered ? stg_notes_at(&job->steer.workload, index) : NULL;
}

void stg_attention_job_print(const struct stg_attention_job *job, struct stg_strbuf *out) {
  const struct stg_attention_workload *w = &job->workload;
  const struct stg_spec_cache *cache = &w->cache;
  stg_strbuf_printf(out,
                    "%s, %" PRId64 " rows of %" PRIu32 " sequences, %" PRIu32 "/%" PRIu32
                    " heads x %" PRIu32 ", %s",
                    stg_spec_kind_name(w->kind), w->rows, w->sequences, w->heads, w->kv_heads,
                    w->dim, stg_dtype_name(w->dtype));
  if (cache->tokens) {
    stg_strbuf_printf(out, "; windows of %" PRId64 " tokens", cache->capacity);
  } else if (cache->exists) {
    stg_strbuf_printf(out, "; a cache of %" PRIu32 " x %" PRId64, cache->batch, cache->capacity);
  }
  if (cache->block > 0) {
    stg_strbuf_printf(out, " in blocks of %" PRIu32, cache->block);
  }
}
