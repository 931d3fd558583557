/*
 * attend.c: an attend: what it is declared as, and its kernel.
 */
#include <math.h>

#include "engine/attn.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static stg_status check_sizes(const stg_attend_desc *desc, const struct stg_kv_form *form,
                              stg_error *reterr) {
  const bool has_extents = desc->batch != 0 || desc->kv_heads != 0 || desc->dim != 0 ||
                           desc->tokens != 0 || desc->dtype != STG_DTYPE_NONE;
  if (form != NULL && has_extents) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "batch %u, kv_heads %u, dim %u, tokens %lld, dtype %d: with a cache they "
                         "are its own; leave them 0",
                         desc->batch, desc->kv_heads, desc->dim, (long long)desc->tokens,
                         (int)desc->dtype);
  }
  if (form == NULL && (desc->batch < 1 || desc->batch > INT32_MAX || desc->tokens < 1 ||
                       desc->tokens > STG_MAX_POSITION + 1)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "batch: %u, tokens: %lld; both are from 1 to 2^31 - 1", desc->batch,
                         (long long)desc->tokens);
  }
  return STG_OK;
}

static stg_status check_work(const stg_attend_desc *desc, stg_error *reterr) {
  if (!isfinite(desc->scale)) {
    return stg_error_set(reterr, STG_E_INVALID, "scale: %g is not finite", (double)desc->scale);
  }
  if (desc->window < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "window: %lld is below 0", (long long)desc->window);
  }
  if ((unsigned)desc->order > STG_ORDER_HEADS_FIRST) {
    return stg_error_set(reterr, STG_E_INVALID, "order: %u is not in 0..%u", (unsigned)desc->order,
                         STG_ORDER_HEADS_FIRST);
  }
  return STG_OK;
}

/* Whether K and V may stand anywhere. All strides of a cache are of whole heads; heads that are not
 * of 16 bytes in whole are never asked for so. */
static bool is_loose(const struct stg_decode_geometry *g, bool aligned) {
  return g->dim * stg_dtype_bytes(g->dtype) % 16 == 0 && !aligned;
}

/* A window of all positions is none. */
static int64_t window_of(const stg_attend_desc *desc, const struct stg_kv_form *form) {
  return desc->window < (form != NULL ? form->capacity : desc->tokens) ? desc->window : 0;
}

stg_status stg_attend_describe(const stg_attend_desc *desc, const struct stg_kv_form *form,
                               bool aligned, struct stg_decode_geometry *ret_geometry,
                               stg_error *reterr) {
  stg_status status = check_sizes(desc, form, reterr);
  if (status == STG_OK) {
    status = check_work(desc, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_decode_geometry geometry = {
      .heads = desc->heads,
      .kv_heads = form != NULL ? form->kv_heads : desc->kv_heads,
      .dim = form != NULL ? form->dim : desc->dim,
      .dtype = form != NULL ? form->dtype : desc->dtype,
      .order = (enum stg_heads_order)desc->order,
      .paged = form != NULL && form->block != 0,
      .windowed = window_of(desc, form) > 0,
      .masked = desc->key_mask,
  };
  geometry.loose = is_loose(&geometry, form != NULL && aligned);
  geometry.chunk = stg_decode_chunk(&geometry, form != NULL ? form->capacity : desc->tokens);
  *ret_geometry = geometry;
  return STG_OK;
}

/* Fill in everything but what is allocated. */
static stg_status describe(stg_attend *attend, const stg_attend_desc *desc, stg_error *reterr) {
  const stg_kv *kv = desc->kv;
  const struct stg_kv_form *form = kv != NULL ? &kv->form : NULL;
  const bool aligned = kv != NULL && (uintptr_t)kv->k % 16 == 0 && (uintptr_t)kv->v % 16 == 0;
  stg_status status = stg_attend_describe(desc, form, aligned, &attend->geometry, reterr);
  if (status == STG_OK) {
    attend->batch = form != NULL ? form->batch : desc->batch;
    attend->capacity = form != NULL ? form->capacity : desc->tokens;
    attend->window = window_of(desc, form);
    attend->scale =
        desc->scale != 0 ? desc->scale : (float)(1 / sqrt((double)attend->geometry.dim));
  }
  return status;
}

static void release(stg_attend *attend) {
  stg_kernels_close(attend->kernels);
  stg_attn_object_finish(&attend->object);
  stg_free(attend);
}

static stg_status open_kernel(stg_attend *attend, stg_error *reterr) {
  struct stg_decode_decl decl;
  stg_status status = stg_decode_decl_init(&attend->geometry, &decl, reterr);
  return status == STG_OK
             ? stg_kernels_open(attend->object.engine, &decl.base, &attend->kernels, reterr)
             : status;
}

stg_status stg_attend_create(stg_engine *engine, const stg_attend_desc *desc,
                             stg_attend **ret_attend, stg_error *reterr) {
  if (engine == NULL || ret_attend == NULL || desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_attend_create: engine, desc or ret_attend is NULL, or struct_size is "
                         "not %zu",
                         sizeof *desc);
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK && desc->kv != NULL && desc->kv->object.engine != engine) {
    status = stg_error_set(reterr, STG_E_INVALID, "kv: the cache is of another engine");
  }
  if (status != STG_OK) {
    return status;
  }
  stg_attend *attend = stg_calloc(1, sizeof *attend);
  if (attend == NULL) {
    return stg_error_memory(reterr, "an attend", sizeof *attend);
  }
  stg_attn_object_init(&attend->object, engine, STG_OBJECT_ATTEND, "attend");
  status = describe(attend, desc, reterr);
  if (status == STG_OK) {
    status = open_kernel(attend, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_pins_refill(&attend->object.pins, reterr);
  }
  if (status != STG_OK) {
    release(attend);
    return status;
  }
  attend->kv = desc->kv;
  stg_attn_object_use(attend->kv != NULL ? &attend->kv->object : NULL);
  *ret_attend = attend;
  return STG_OK;
}

stg_status stg_attend_destroy(stg_attend *attend, stg_error *reterr) {
  if (attend == NULL || stg_engine_check_process(attend->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&attend->object, "stg_attend_destroy", reterr);
  if (status == STG_OK) {
    stg_kv *kv = attend->kv;
    release(attend);
    stg_attn_object_let_go(kv != NULL ? &kv->object : NULL);
  }
  return status;
}
