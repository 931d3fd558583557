/*
 * declared_attn.c: declarations of the attention side that the command makes: the kernels that a
 * rope, an attend, a block and their cache ask for, without making any of them.
 */
#include "engine/attn.h"
#include "engine/declared.h"

/* A declaration in the making, in an arena. */
struct making {
  struct stg_declared declared;
  struct stg_arena *arena;
};

static void add(struct making *making, const struct stg_decl *decl, bool is_apart) {
  struct stg_declared *declared = &making->declared;
  declared->apart |= is_apart ? 1U << declared->n_parts : 0;
  declared->parts[declared->n_parts++] = decl;
}

static stg_status add_rope_kernel(struct making *making, const struct stg_rope_kernel *kernel,
                                  bool is_apart, stg_error *reterr) {
  struct stg_rope_decl *decl = stg_arena_alloc(making->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(making->arena, reterr);
  }
  stg_status status = stg_rope_decl_init(kernel, decl, reterr);
  if (status == STG_OK) {
    add(making, &decl->base, is_apart);
  }
  return status;
}

static stg_status add_advance(struct making *making, bool is_apart, stg_error *reterr) {
  const struct stg_rope_kernel kernel = {.work = STG_ROPE_ADVANCE};
  return add_rope_kernel(making, &kernel, is_apart, reterr);
}

static stg_status add_rope(struct making *making, const stg_rope_desc *desc,
                           const struct stg_kv_form *form, stg_error *reterr) {
  struct stg_rope_geometry geometry;
  stg_status status = stg_rope_describe(desc, form, &geometry, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_rope_works works = stg_rope_works_of(desc, form, &geometry);
  status = add_rope_kernel(making, &works.forward, desc->backward, reterr);
  if (status == STG_OK && desc->backward) {
    status = add_rope_kernel(making, &works.backward, false, reterr);
  }
  if (status == STG_OK && desc->transpose) {
    status = add_rope_kernel(making, &works.transpose, true, reterr);
  }
  return status;
}

static stg_status add_attend(struct making *making, const stg_attend_desc *desc,
                             const struct stg_kv_form *form, stg_error *reterr) {
  struct stg_decode_geometry geometry;
  stg_status status = stg_attend_describe(desc, form, true, &geometry, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_decode_decl *decl = stg_arena_alloc(making->arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(making->arena, reterr);
  }
  status = stg_decode_decl_init(&geometry, decl, reterr);
  if (status == STG_OK) {
    add(making, &decl->base, false);
  }
  return status;
}

static stg_status add_steer(struct making *making, stg_engine *engine, const stg_steer_desc *desc,
                            stg_error *reterr) {
  const struct stg_declared *steer = NULL;
  stg_status status = stg_declare_steer(engine, desc, making->arena, &steer, reterr);
  if (status == STG_OK) {
    add(making, steer->parts[0], false);
  }
  return status;
}

static stg_status take(const struct making *making, const struct stg_declared **ret_declared,
                       stg_error *reterr) {
  struct stg_declared *declared = stg_arena_alloc(making->arena, 1, sizeof *declared);
  if (declared == NULL) {
    return stg_arena_status(making->arena, reterr);
  }
  *declared = making->declared;
  *ret_declared = declared;
  return STG_OK;
}

/* Parts over a cache, which has a kernel of its own, or over tensors. */
static stg_status declare(stg_engine *engine, const struct stg_declared_block *block,
                          struct stg_arena *arena, const struct stg_declared **ret_declared,
                          stg_error *reterr) {
  struct making making = {.arena = arena};
  struct stg_kv_form form;
  const struct stg_kv_form *of_cache = block->kv != NULL ? &form : NULL;
  stg_status status = block->kv != NULL ? stg_kv_form_init(block->kv, &form, reterr) : STG_OK;
  if (status == STG_OK && block->rope != NULL) {
    status = add_rope(&making, block->rope, of_cache, reterr);
  }
  if (status == STG_OK && block->attend != NULL) {
    status = add_attend(&making, block->attend, of_cache, reterr);
  }
  if (status == STG_OK && block->steer != NULL) {
    status = add_steer(&making, engine, block->steer, reterr);
  }
  if (status == STG_OK && block->kv != NULL) {
    status = add_advance(&making, !block->advance, reterr);
  }
  return status == STG_OK ? take(&making, ret_declared, reterr) : status;
}

stg_status stg_declare_rope(const stg_rope_desc *desc, const stg_kv_desc *kv,
                            struct stg_arena *arena, const struct stg_declared **ret_declared,
                            stg_error *reterr) {
  const struct stg_declared_block block = {.kv = kv, .rope = desc};
  return declare(NULL, &block, arena, ret_declared, reterr);
}

stg_status stg_declare_attend(const stg_attend_desc *desc, const stg_kv_desc *kv,
                              struct stg_arena *arena, const struct stg_declared **ret_declared,
                              stg_error *reterr) {
  const struct stg_declared_block block = {.kv = kv, .attend = desc};
  return declare(NULL, &block, arena, ret_declared, reterr);
}

stg_status stg_declare_block(stg_engine *engine, const struct stg_declared_block *block,
                             struct stg_arena *arena, const struct stg_declared **ret_declared,
                             stg_error *reterr) {
  return declare(engine, block, arena, ret_declared, reterr);
}

uint32_t stg_declared_chunk(const stg_attend_desc *desc, const stg_kv_desc *kv) {
  struct stg_kv_form form;
  struct stg_decode_geometry geometry;
  if ((kv != NULL && stg_kv_form_init(kv, &form, NULL) != STG_OK) ||
      stg_attend_describe(desc, kv != NULL ? &form : NULL, true, &geometry, NULL) != STG_OK) {
    return 0;
  }
  return geometry.chunk;
}
