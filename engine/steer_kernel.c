/*
 * steer_kernel.c: from a declaration to the request that a cache or a compiler understands.
 */
#include "engine/steer_decl.h"
#include "engine/steer_signature.h"

static struct stg_steer_geometry geometry_of(const struct stg_steer_decl *decl,
                                             enum stg_tile tile) {
  return (struct stg_steer_geometry){
      .hidden_size = decl->hidden_size,
      .dtype = decl->dtype,
      .bank_dtype = decl->bank_dtype,
      .pair = decl->pair,
      .epilogue = decl->epilogue != STG_EPILOGUE_NONE,
      .windows = decl->windows,
      .probes = decl->probes > 0,
      .counters = decl->counters,
      .turns = tile == STG_TILE_PREFILL ? stg_steer_prefill_turns(decl->hidden_size) : 1,
      .ops = decl->ops,
      .n_ops = decl->n_ops,
  };
}

void stg_steer_kernel_print(const struct stg_steer_decl *decl, enum stg_tile tile, const char *arch,
                            struct stg_strbuf *out) {
  const struct stg_steer_signature signature = {
      .ops = decl->ops,
      .n_ops = decl->n_ops,
      .hidden_size = decl->hidden_size,
      .dtype = decl->dtype,
      .bank_dtype = decl->bank_dtype,
      .pair = decl->pair,
      .prefill = tile == STG_TILE_PREFILL,
      .epilogue = decl->epilogue,
      .windows = decl->windows,
      .probes = decl->probes > 0,
      .counters = decl->counters,
      .arch = arch,
  };
  stg_steer_signature_print(&signature, out);
}

stg_status stg_steer_kernel_init(const struct stg_steer_decl *decl, enum stg_tile tile,
                                 const char *arch, const char *nvrtc_options,
                                 struct stg_kernel_text *ret_text, stg_error *reterr) {
  struct stg_kernel_text text = {0};
  stg_status status = STG_OK;
  stg_steer_kernel_print(decl, tile, arch, &text.signature);
  if (!stg_arch_is_cpu(arch)) {
    const struct stg_steer_geometry geometry = geometry_of(decl, tile);
    status = stg_steer_generate(&geometry, &text.source, &text.rule, reterr);
    stg_steer_prelude(&text.prelude);
  }
  *ret_text = text;
  if (status == STG_OK) {
    status = stg_kernel_text_complete(ret_text, STG_STEER_KERNEL_NAME, arch, nvrtc_options, reterr);
  }
  if (status != STG_OK) {
    stg_kernel_text_finish(ret_text);
  }
  return status;
}
