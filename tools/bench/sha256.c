/*
 * bench/sha256.c: see bench/sha256.h.
 */
#include "tools/bench/sha256.h"

#include <dlfcn.h>
#include <string.h>

#include "runtime/base/alloc.h"

#define LIBRARY "libcrypto.so.3"

struct stg_sha256 {
  void *library;
  void *digest;  /* EVP_MD */
  void *context; /* EVP_MD_CTX */
  void *(*md_fetch)(void *library_context, const char *algorithm, const char *properties);
  void (*md_free)(void *digest);
  void *(*ctx_new)(void);
  void (*ctx_free)(void *context);
  int (*init)(void *context, const void *digest, void *engine);
  int (*update)(void *context, const void *data, size_t size);
  int (*final)(void *context, unsigned char *ret_digest, unsigned *ret_size);
};

/* A function pointer cannot be cast from what dlsym returns, but has its size. */
static stg_status find(const struct stg_sha256 *sha, const char *name, void *ret_function,
                       stg_error *reterr) {
  void *symbol = dlsym(sha->library, name);
  if (symbol == NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "%s has no %s; OpenSSL 3 has", LIBRARY, name);
  }
  memcpy(ret_function, &symbol, sizeof symbol);
  return STG_OK;
}

static stg_status find_all(struct stg_sha256 *sha, stg_error *reterr) {
  const struct {
    const char *name;
    void *function;
  } wanted[] = {
      {"EVP_MD_fetch", &sha->md_fetch},    {"EVP_MD_free", &sha->md_free},
      {"EVP_MD_CTX_new", &sha->ctx_new},   {"EVP_MD_CTX_free", &sha->ctx_free},
      {"EVP_DigestInit_ex", &sha->init},   {"EVP_DigestUpdate", &sha->update},
      {"EVP_DigestFinal_ex", &sha->final},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof wanted / sizeof wanted[0]; i++) {
    status = find(sha, wanted[i].name, wanted[i].function, reterr);
  }
  return status;
}

stg_status stg_sha256_create(struct stg_sha256 **ret_sha, stg_error *reterr) {
  struct stg_sha256 *sha = stg_calloc(1, sizeof *sha);
  if (sha == NULL) {
    return stg_error_memory(reterr, "SHA-256", sizeof *sha);
  }
  sha->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  stg_status status = STG_OK;
  if (sha->library == NULL) {
    const char *reason = dlerror();
    status = stg_error_set(reterr, STG_E_NOT_FOUND, "%s", reason != NULL ? reason : LIBRARY);
  }
  if (status == STG_OK) {
    status = find_all(sha, reterr);
  }
  if (status == STG_OK) {
    sha->digest = sha->md_fetch(NULL, "SHA256", NULL);
    sha->context = sha->ctx_new();
    if (sha->digest == NULL || sha->context == NULL) {
      status = stg_error_set(reterr, STG_E_NOT_FOUND, "%s offers no SHA256", LIBRARY);
    }
  }
  if (status != STG_OK) {
    stg_sha256_destroy(sha);
    return status;
  }
  *ret_sha = sha;
  return STG_OK;
}

void stg_sha256_destroy(struct stg_sha256 *sha) {
  if (sha == NULL) {
    return;
  }
  if (sha->context != NULL) {
    sha->ctx_free(sha->context);
  }
  if (sha->digest != NULL) {
    sha->md_free(sha->digest);
  }
  if (sha->library != NULL) {
    dlclose(sha->library);
  }
  stg_free(sha);
}

stg_status stg_sha256_of(struct stg_sha256 *sha, const void *data, size_t size,
                         unsigned char ret_digest[STG_SHA256_BYTES], stg_error *reterr) {
  if (sha->init(sha->context, sha->digest, NULL) != 1 ||
      sha->update(sha->context, data, size) != 1 ||
      sha->final(sha->context, ret_digest, NULL) != 1) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "%s: SHA-256 of %zu bytes failed", LIBRARY,
                         size);
  }
  return STG_OK;
}
