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

/* Take one field of the material; false ends the walk. */
typedef bool (*take_fn)(void *user, const char *name, const char *value);

/* Every field in its order. False where `take` ended it. */
static bool walk_fields(const struct stg_kernel_request *request, take_fn take, void *user) {
  const struct {
    const char *name, *value;
  } texts[] = {
      {STG_FIELD_FORMAT, STG_MATERIAL_FORMAT}, {STG_FIELD_SIGNATURE, request->signature},
      {STG_FIELD_KERNEL, request->name},       {STG_FIELD_PRELUDE, request->prelude},
      {STG_FIELD_SOURCE, request->source},
  };
  bool going = true;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0] && going; i++) {
    going = take(user, texts[i].name, texts[i].value);
  }
  for (size_t i = 0; i < STG_FIXED_OPTION_COUNT && going; i++) {
    going = take(user, STG_FIELD_OPTION, stg_fixed_options[i]);
  }
  for (size_t i = 0; i < request->n_options && going; i++) {
    going = take(user, STG_FIELD_OPTION, request->options[i]);
  }
  return going && take(user, STG_FIELD_ARCH, request->arch);
}

static bool append_field(void *user, const char *name, const char *value) {
  stg_material_text(user, name, value);
  return true;
}

void stg_kernel_material(const struct stg_kernel_request *request,
                         struct stg_strbuf *ret_material) {
  (void)walk_fields(request, append_field, ret_material);
}

/* Bytes that are compared with fields, and how many of them are done. */
struct compared {
  const void *bytes;
  size_t size, done;
};

static bool compare_field(void *user, const char *name, const char *value) {
  struct compared *compared = user;
  struct stg_material_view field;
  return stg_material_next(compared->bytes, compared->size, &compared->done, &field) &&
         strcmp(field.name, name) == 0 && field.len == strlen(value) &&
         memcmp(field.value, value, field.len) == 0;
}

bool stg_kernel_is_material(const struct stg_kernel_request *request, const void *material,
                            size_t size) {
  struct compared compared = {.bytes = material, .size = size};
  return walk_fields(request, compare_field, &compared) && compared.done == size;
}

stg_status stg_kernel_request_key(const struct stg_kernel_request *request, struct stg_key *ret_key,
                                  stg_error *reterr) {
  if (request->key != NULL) {
    *ret_key = *request->key;
    return STG_OK;
  }
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
