/*
 * kernel.c: the key material of a kernel request, and its key.
 *
 * Everything that can change the compiled bytes and is known without a compiler goes in, and
 * nothing else: no path, host, user or time, so that a copied cache hits. Must not know files.
 */
#include "runtime/kernel.h"

#include <string.h>

#include "runtime/base/alloc.h"

const char *const stg_fixed_options[STG_FIXED_OPTION_COUNT] = {
    "--std=c++17", "--fmad=false", /* a contracted a*b+c has other bits */
    "--modify-stack-limit=false",  /* a library leaves its process's limits alone */
};

void stg_kernel_material(const struct stg_kernel_request *request,
                         struct stg_strbuf *ret_material) {
  stg_material_text(ret_material, STG_FIELD_FORMAT, STG_MATERIAL_FORMAT);
  stg_material_text(ret_material, STG_FIELD_SIGNATURE, request->signature);
  stg_material_text(ret_material, STG_FIELD_KERNEL, request->name);
  stg_material_text(ret_material, STG_FIELD_PRELUDE, request->prelude);
  stg_material_text(ret_material, STG_FIELD_SOURCE, request->source);
  for (size_t i = 0; i < STG_FIXED_OPTION_COUNT; i++) {
    stg_material_text(ret_material, STG_FIELD_OPTION, stg_fixed_options[i]);
  }
  for (size_t i = 0; i < request->n_options; i++) {
    stg_material_text(ret_material, STG_FIELD_OPTION, request->options[i]);
  }
  stg_material_text(ret_material, STG_FIELD_ARCH, request->arch);
}

stg_status stg_kernel_request_key(const struct stg_kernel_request *request, struct stg_key *ret_key,
                                  stg_error *reterr) {
  struct stg_strbuf material = {0};
  stg_kernel_material(request, &material);
  stg_status status = stg_strbuf_status(&material, reterr);
  if (status == STG_OK) {
    *ret_key = stg_key_of(material.data, material.len);
  }
  stg_strbuf_finish(&material);
  return status;
}

bool stg_compiler_is_plain(const char *compiler) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+";
  size_t len = strlen(compiler);
  return len > 0 && strspn(compiler, plain) == len;
}

void stg_kernel_image_finish(struct stg_kernel_image *image) {
  stg_free(image->cubin);
  *image = (struct stg_kernel_image){0};
}
