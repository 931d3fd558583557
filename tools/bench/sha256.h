/*
 * bench/sha256.h: SHA-256 of libcrypto, found at run time: what systems that intern by digest pay.
 */
#ifndef STG_TOOLS_BENCH_SHA256_H
#define STG_TOOLS_BENCH_SHA256_H

#include <stddef.h>

#include "runtime/base/error.h"

#define STG_SHA256_BYTES 32

struct stg_sha256; /* one thread at a time */

/**
 * Load libcrypto.so.3 and fetch its SHA-256 once, so that a digest costs the hashing and little
 * else. STG_E_NOT_FOUND where there is no such library, with the loader's words.
 */
STG_NODISCARD stg_status stg_sha256_create(struct stg_sha256 **ret_sha, stg_error *reterr);
/** NULL is fine. */
void stg_sha256_destroy(struct stg_sha256 *sha);

/** The digest of `size` bytes. */
STG_NODISCARD stg_status stg_sha256_of(struct stg_sha256 *sha, const void *data, size_t size,
                                       unsigned char ret_digest[STG_SHA256_BYTES],
                                       stg_error *reterr);

#endif
