/*
 * declared.c: declarations that the command makes, and their kernels by number: those of the first
 * part by variant, then those of the next.
 */
#include "engine/declared.h"

#include "engine/engine.h"
#include "engine/steer_decl.h"

stg_status stg_declare_steer(stg_engine *engine, const stg_steer_desc *desc,
                             struct stg_arena *arena, const struct stg_declared **ret_declared,
                             stg_error *reterr) {
  struct stg_steer_decl *decl = stg_arena_alloc(arena, 1, sizeof *decl);
  struct stg_declared *declared = stg_arena_alloc(arena, 1, sizeof *declared);
  if (decl == NULL || declared == NULL) {
    return stg_arena_status(arena, reterr);
  }
  stg_status status = stg_steer_decl_init_in(desc, engine->ops, arena, decl, reterr);
  if (status == STG_OK) {
    *declared = (struct stg_declared){.parts = {&decl->base}, .n_parts = 1};
    *ret_declared = declared;
  }
  return status;
}

size_t stg_declared_kernels(const struct stg_declared *declared) {
  size_t count = 0;
  for (unsigned i = 0; i < declared->n_parts; i++) {
    count += declared->parts[i]->family->n_variants;
  }
  return count;
}

/* The part that kernel `*index` is of; what is left in it is the variant. NULL: there is none. */
static const struct stg_decl *part_of(const struct stg_declared *declared, size_t *index) {
  for (unsigned i = 0; i < declared->n_parts; i++) {
    const struct stg_decl *part = declared->parts[i];
    if (*index < part->family->n_variants) {
      return part;
    }
    *index -= part->family->n_variants;
  }
  return NULL;
}

static stg_status fail_index(const struct stg_declared *declared, size_t index, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NOT_FOUND, "kernel %zu: the declaration has %zu", index,
                       stg_declared_kernels(declared));
}

stg_status stg_declared_made(stg_engine *engine, const struct stg_declared *declared, size_t index,
                             struct stg_made_kernel *ret, stg_error *reterr) {
  size_t variant = index;
  struct stg_kernel_set *set = NULL;
  const struct stg_decl *part = part_of(declared, &variant);
  if (part == NULL) {
    return fail_index(declared, index, reterr);
  }
  stg_status status = stg_kernels_share(engine, part, &set, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_kernel *kernel = stg_kernels_of_variant(set, (unsigned)variant);
  *ret = kernel != NULL
             ? (struct stg_made_kernel){.source = kernel->source, .compile_ms = kernel->compile_ms}
             : (struct stg_made_kernel){.source = NULL};
  stg_kernels_close(set);
  return STG_OK;
}

const char *stg_declared_family(const struct stg_declared *declared, size_t index) {
  const struct stg_decl *part = part_of(declared, &index);
  return part != NULL ? part->family->name : NULL;
}

const char *stg_declared_variant(const struct stg_declared *declared, size_t index) {
  const struct stg_decl *part = part_of(declared, &index);
  if (part == NULL) {
    return NULL;
  }
  const char *const *among = declared->n_parts > 1 ? part->family->among : NULL;
  return among != NULL ? among[index] : part->family->variants[index];
}

stg_status stg_declared_kernel_text(const struct stg_engine *engine,
                                    const struct stg_declared *declared, size_t index,
                                    const char *arch, struct stg_kernel_text *ret_text,
                                    stg_error *reterr) {
  size_t variant = index;
  const struct stg_decl *part = part_of(declared, &variant);
  if (part == NULL) {
    return fail_index(declared, index, reterr);
  }
  return part->family->kernel_text(part, (unsigned)variant, arch, engine->nvrtc_options, ret_text,
                                   reterr);
}
