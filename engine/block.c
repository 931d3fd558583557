/*
 * block.c: a layer of rope, attention and steering as one graph: what goes together, and the plan
 * of a step. There are two plans: one without the advance of lengths, and one that ends with it,
 * for the last layer.
 */
#include "engine/block.h"

#include <string.h>

#include "engine/steer.h"
#include "engine/steer_launch.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static stg_status check_steer(const stg_block_desc *desc, stg_error *reterr) {
  if (desc->steer == NULL) {
    return STG_OK;
  }
  if (desc->attend == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "steer: it acts on the output of an attend, which is NULL");
  }
  const struct stg_steer_decl *decl = &desc->steer->decl;
  const struct stg_decode_geometry *g = &desc->attend->geometry;
  const int64_t width = (int64_t)g->heads * (int64_t)g->dim;
  if (decl->hidden_size != width || decl->dtype != g->dtype) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "steer: hidden_size %lld of %s; the attend gives %lld of %s",
                         (long long)decl->hidden_size, stg_dtype_name(decl->dtype),
                         (long long)width, stg_dtype_name(g->dtype));
  }
  if (decl->pair || decl->probes > 0 || g->order != STG_HEADS_ROWS_FIRST) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "steer: state %s, %u probes; a block steers hidden states alone, without "
                         "probes, of an attend in STG_ORDER_ROWS_FIRST",
                         decl->pair ? "hidden+residual" : "hidden", decl->probes);
  }
  return STG_OK;
}

static stg_status check_desc(const struct stg_engine *engine, const stg_block_desc *desc,
                             stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_create: desc is NULL, or struct_size is not %zu", sizeof *desc);
  }
  const stg_kv *of_rope = desc->rope != NULL ? desc->rope->kv : NULL;
  const stg_kv *of_attend = desc->attend != NULL ? desc->attend->kv : NULL;
  if (of_rope == NULL && of_attend == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "rope, attend: neither has a cache; a block has one of them at least");
  }
  if ((desc->rope != NULL && of_rope != of_attend && desc->attend != NULL) ||
      (desc->rope != NULL && of_rope == NULL) || (desc->attend != NULL && of_attend == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "rope, attend: they do not have one cache");
  }
  const stg_kv *kv = of_rope != NULL ? of_rope : of_attend;
  if (kv->object.engine != engine || (desc->steer != NULL && desc->steer->engine != engine)) {
    return stg_error_set(reterr, STG_E_INVALID, "rope, attend, steer: one is of another engine");
  }
  return check_steer(desc, reterr);
}

static void use_parts(const stg_block *block) {
  stg_attn_object_use(block->rope != NULL ? &block->rope->object : NULL);
  stg_attn_object_use(block->attend != NULL ? &block->attend->object : NULL);
  if (block->steer != NULL) {
    atomic_fetch_add(&block->steer->blocks, 1);
  }
}

static void let_go_of_parts(const stg_block *block) {
  stg_attn_object_let_go(block->rope != NULL ? &block->rope->object : NULL);
  stg_attn_object_let_go(block->attend != NULL ? &block->attend->object : NULL);
  if (block->steer != NULL) {
    atomic_fetch_sub(&block->steer->blocks, 1);
  }
}

stg_status stg_block_create(stg_engine *engine, const stg_block_desc *desc, stg_block **ret_block,
                            stg_error *reterr) {
  if (engine == NULL || ret_block == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_block_create: engine or ret_block is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = check_desc(engine, desc, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_block *block = stg_calloc(1, sizeof *block);
  if (block == NULL) {
    return stg_error_memory(reterr, "a block", sizeof *block);
  }
  *block = (stg_block){
      .engine = engine,
      .rope = desc->rope,
      .attend = desc->attend,
      .steer = desc->steer,
      .advance = desc->advance,
      .kv = desc->rope != NULL ? desc->rope->kv : desc->attend->kv,
  };
  use_parts(block);
  *ret_block = block;
  return STG_OK;
}

static void release_plans(stg_block *block) {
  for (size_t i = 0; i < STG_BLOCK_PLANS; i++) {
    stg_exec_release(block->engine->plans, block->execs[i]);
    stg_plan_release(block->engine->plans, block->plans[i]);
    block->execs[i] = NULL;
    block->plans[i] = NULL;
  }
}

void stg_block_destroy(stg_block *block) {
  if (block == NULL || stg_engine_check_process(block->engine, NULL) != STG_OK) {
    return; /* in a child nothing is touched */
  }
  release_plans(block);
  let_go_of_parts(block);
  stg_free(block);
}

/* ---- a step ---- */

static struct stg_plan_parts parts_of(const stg_block *block, bool advance) {
  struct stg_plan_parts parts = {.count = 0};
  if (block->rope != NULL) {
    parts.sets[parts.count++] = block->rope->forward;
  }
  if (block->attend != NULL) {
    parts.sets[parts.count++] = block->attend->kernels;
  }
  if (block->steer != NULL) {
    parts.sets[parts.count++] = block->steer->kernels;
  }
  if (advance) {
    parts.sets[parts.count++] = block->kv->advance;
  }
  return parts;
}

static stg_status check_step(const stg_block *block, const stg_rows *rows, const stg_frame *frame,
                             stg_error *reterr) {
  if (rows == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_block_step: rows is NULL");
  }
  stg_status status = stg_rows_check(rows, block->kv, 0, "stg_block_step", reterr);
  if (status != STG_OK) {
    return status;
  }
  if ((frame != NULL) != (block->steer != NULL) ||
      (frame != NULL && frame->steer != block->steer)) {
    return stg_error_set(
        reterr, STG_E_INVALID, "stg_block_step: frame: %p; the block %s", (const void *)frame,
        block->steer != NULL ? "steers, and takes one of its table" : "does not steer");
  }
  if (frame != NULL && (!frame->stepped || frame->rows != rows->rows)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_step: the frame was stepped with %lld rows, rows have %lld",
                         frame->stepped ? (long long)frame->rows : -1LL, (long long)rows->rows);
  }
  return STG_OK;
}

static stg_status check_stream(const stg_block *block, stg_stream stream, stg_error *reterr) {
  bool capturing = false;
  if (!stg_engine_is_cuda(block->engine)) {
    return STG_OK;
  }
  stg_status status = stg_stream_is_capturing(block->engine->device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status = stg_error_set(reterr, STG_E_CAPTURING,
                           "stg_block_step: the stream is capturing; step before the capture "
                           "begins");
  }
  return status;
}

/* Which of the steer kernels a shape takes; of a block without steering there is one. */
static unsigned variant_of(const stg_block *block, const struct stg_graph_shape *shape) {
  return block->steer != NULL && shape->seq > 1 ? STG_TILE_PREFILL : STG_TILE_DECODE;
}

static const struct stg_kernel *serving(const stg_block *block, unsigned variant) {
  if (block->steer != NULL) {
    return stg_kernels_serving(block->steer->kernels, variant);
  }
  return stg_attn_kernel(block->rope != NULL ? block->rope->forward : block->attend->kernels);
}

/* Whether plan `i`, 1 with the advance, is ever launched. */
static bool is_needed(const stg_block *block, size_t i) {
  return i == 1 ? block->advance : !block->advance || block->kv->form.layers > 1;
}

/* The plans of a step, with a user more each, in place of those of the step before. */
static stg_status take_plans(stg_block *block, const struct stg_graph_shape *shape,
                             unsigned variant, stg_error *reterr) {
  struct stg_plan_table *table = block->engine->plans;
  struct stg_plan *plans[STG_BLOCK_PLANS] = {NULL};
  stg_status status = STG_OK;
  for (size_t i = 0; i < STG_BLOCK_PLANS && status == STG_OK; i++) {
    const struct stg_plan_parts parts = parts_of(block, i == 1);
    if (is_needed(block, i)) {
      status = stg_plan_acquire(table, &parts, shape, variant, &plans[i], reterr);
    }
  }
  for (size_t i = 0; i < STG_BLOCK_PLANS; i++) {
    const bool again = plans[i] != NULL && plans[i] == block->plans[i];
    if (status != STG_OK || again) {
      stg_plan_release(table, plans[i]); /* the block is a user already, or has no need */
    } else {
      stg_exec_release(table, block->execs[i]);
      stg_plan_release(table, block->plans[i]);
      block->execs[i] = NULL;
      block->plans[i] = plans[i];
    }
  }
  return status;
}

static void take_execs(stg_block *block, stg_stream stream) {
  struct stg_plan_table *table = block->engine->plans;
  for (size_t i = 0; i < STG_BLOCK_PLANS; i++) {
    struct stg_plan *plan = block->plans[i];
    if (plan != NULL && (block->execs[i] == NULL || block->execs[i]->stream != stream)) {
      struct stg_exec *exec = stg_exec_acquire(table, plan, block->kernel, stream);
      stg_exec_release(table, block->execs[i]);
      block->execs[i] = exec;
    }
    if (block->execs[i] != NULL) {
      stg_recipes_note(block->engine->recipes, plan, block->kernel);
    }
    if (plan != NULL) {
      stg_plan_count_step(table, plan);
    }
  }
}

/* What applies and captures must find ready. */
static stg_status make_ready(const stg_block *block, stg_rows *rows, stg_error *reterr) {
  if (block->rope != NULL) {
    stg_attn_object_refill(&block->rope->object);
  }
  if (block->attend != NULL) {
    stg_attn_object_refill(&block->attend->object);
    return stg_rows_reserve(rows, block->attend, reterr);
  }
  return STG_OK;
}

stg_status stg_block_step(stg_block *block, stg_rows *rows, stg_frame *frame, stg_stream stream,
                          stg_error *reterr) {
  if (block == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_block_step: block is NULL");
  }
  stg_status status = stg_engine_check_process(block->engine, reterr);
  if (status == STG_OK) {
    status = check_step(block, rows, frame, reterr);
  }
  if (status == STG_OK) {
    status = check_stream(block, stream, reterr);
  }
  if (status == STG_OK) {
    status = make_ready(block, rows, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const unsigned variant = variant_of(block, &rows->shape);
  status = take_plans(block, &rows->shape, variant, reterr);
  if (status == STG_OK) {
    block->kernel = serving(block, variant);
    block->rows = rows;
    block->frame = frame;
    take_execs(block, stream);
  }
  return status;
}

stg_status stg_block_plan(const stg_block *block, stg_plan_info *ret_info, stg_error *reterr) {
  if (block == NULL || ret_info == NULL || ret_info->struct_size != sizeof *ret_info) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_plan: block is NULL, or struct_size is not %zu",
                         sizeof *ret_info);
  }
  stg_status status = stg_engine_check_process(block->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_plan *plan = block->plans[0] != NULL ? block->plans[0] : block->plans[1];
  if (plan == NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "stg_block_plan: the block has had no step");
  }
  *ret_info = stg_plan_info_of(block->engine, plan, block->kernel);
  ret_info->shared_bytes =
      stg_engine_is_cuda(block->engine)
          ? block->kernel->loaded.info.shared_bytes + block->kernel->rule.stage_bytes
          : 0;
  return STG_OK;
}
