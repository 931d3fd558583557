/*
 * steer_kernel.c: from a declaration to the request that a cache or a compiler understands.
 */
#include "engine/steer_decl.h"

#include <string.h>

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

static void print_signature(const struct stg_steer_decl *decl, enum stg_tile tile, const char *arch,
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

/* Source, prelude and request of a kernel for a device. */
static stg_status fill_request(const struct stg_steer_decl *decl, enum stg_tile tile,
                               const char *arch, const char *nvrtc_options,
                               struct stg_steer_kernel *kernel, stg_error *reterr) {
  const struct stg_steer_geometry geometry = geometry_of(decl, tile);
  stg_status status = stg_steer_generate(&geometry, &kernel->source, &kernel->rule, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_steer_prelude(&kernel->prelude);
  status = stg_strbuf_status(&kernel->prelude, reterr);
  if (status != STG_OK) {
    return status;
  }
  kernel->options[0] = nvrtc_options;
  kernel->request = (struct stg_kernel_request){
      .signature = stg_strbuf_text(&kernel->signature),
      .name = STG_STEER_KERNEL_NAME,
      .prelude = stg_strbuf_text(&kernel->prelude),
      .source = stg_strbuf_text(&kernel->source),
      .arch = arch,
      .options = kernel->options,
      .n_options = nvrtc_options != NULL ? 1 : 0,
      .threads = kernel->rule.threads,
      .rows_per_block = kernel->rule.rows_per_block,
      .stage_bytes = stg_launch_stage_bytes(&kernel->rule, false),
      .wide_stage_bytes = stg_launch_stage_bytes(&kernel->rule, true),
  };
  return stg_kernel_request_key(&kernel->request, &kernel->key, reterr);
}

stg_status stg_steer_kernel_init(const struct stg_steer_decl *decl, enum stg_tile tile,
                                 const char *arch, const char *nvrtc_options,
                                 struct stg_steer_kernel *ret_kernel, stg_error *reterr) {
  *ret_kernel = (struct stg_steer_kernel){0};
  print_signature(decl, tile, arch, &ret_kernel->signature);
  stg_status status = stg_strbuf_status(&ret_kernel->signature, reterr);
  if (status == STG_OK && strcmp(arch, "cpu") == 0) {
    ret_kernel->request.signature = stg_strbuf_text(&ret_kernel->signature);
    ret_kernel->key = stg_key_of(ret_kernel->signature.data, ret_kernel->signature.len);
  } else if (status == STG_OK) {
    status = fill_request(decl, tile, arch, nvrtc_options, ret_kernel, reterr);
  }
  if (status != STG_OK) {
    stg_steer_kernel_finish(ret_kernel);
  }
  return status;
}

void stg_steer_kernel_finish(struct stg_steer_kernel *kernel) {
  stg_strbuf_finish(&kernel->signature);
  stg_strbuf_finish(&kernel->source);
  stg_strbuf_finish(&kernel->prelude);
}
