/*
 * kernel_text.c: see kernel_text.h.
 */
#include "engine/kernel_text.h"

#include <string.h>

bool stg_arch_is_cpu(const char *arch) {
  return strcmp(arch, STG_ARCH_CPU) == 0;
}

static stg_status check_written(const struct stg_kernel_text *text, stg_error *reterr) {
  stg_status status = stg_strbuf_status(&text->signature, reterr);
  if (status == STG_OK) {
    status = stg_strbuf_status(&text->source, reterr);
  }
  return status == STG_OK ? stg_strbuf_status(&text->prelude, reterr) : status;
}

stg_status stg_kernel_text_complete(struct stg_kernel_text *text, const char *name,
                                    const char *arch, const char *nvrtc_options,
                                    stg_error *reterr) {
  stg_status status = check_written(text, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_arch_is_cpu(arch)) {
    text->request.signature = stg_strbuf_text(&text->signature);
    text->key = stg_key_of(text->signature.data, text->signature.len);
    return STG_OK;
  }
  text->options[0] = nvrtc_options;
  text->request = (struct stg_kernel_request){
      .signature = stg_strbuf_text(&text->signature),
      .name = name,
      .prelude = stg_strbuf_text(&text->prelude),
      .source = stg_strbuf_text(&text->source),
      .arch = arch,
      .options = text->options,
      .n_options = nvrtc_options != NULL ? 1 : 0,
      .threads = text->rule.threads,
      .rows_per_block = text->rule.rows_per_block,
      .stage_bytes = text->rule.stage_bytes,
      .wide_stage_bytes = text->rule.wide_stage_bytes,
  };
  return stg_kernel_request_key(&text->request, &text->key, reterr);
}

void stg_kernel_text_finish(struct stg_kernel_text *text) {
  stg_strbuf_finish(&text->signature);
  stg_strbuf_finish(&text->source);
  stg_strbuf_finish(&text->prelude);
}
