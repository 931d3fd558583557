/*
 * entry.h: the bytes of one cache entry (.sgc): encode, decode, verify. Works on memory alone.
 *
 * Layout, little-endian:
 *   magic "STGCACHE" (8) | u32 format version | u32 flags | key (16, high then low, big-endian
 * bytes) | u64 material size | u64 metadata size | u64 source size | u64 cubin size | material |
 * metadata JSON | source (prelude + generated) | cubin | XXH3-128 footer (16) over everything
 * before it
 *
 * Another format begins with the same magic and its own version, and ends with the same footer: so
 * one that was written is told from one that was damaged. Its key material has another format too,
 * or two versions would take turns to write one file.
 */
#ifndef STG_RUNTIME_ENTRY_H
#define STG_RUNTIME_ENTRY_H

#include "runtime/base/arena.h"
#include "runtime/cubin.h"
#include "runtime/kernel.h"

#define STG_ENTRY_FORMAT 2 /* raise STG_MATERIAL_FORMAT with it */
#define STG_ENTRY_MAX_BYTES ((uint64_t)256 << 20)

/* What the metadata of an entry says; text borrowed from the entry's arena. `cubin` is read from
 * the ELF itself. */
struct stg_entry_meta {
  const char *signature;
  const char *family;   /* its first word */
  const char *kernel;   /* name */
  const char *arch;     /* "sm_90a" */
  const char *compiler; /* "nvrtc-13.0.88" */
  const char *creator;  /* version of steergraph */
  double compile_ms;
  int64_t created_unix; /* seconds */
  uint32_t threads;
  uint32_t rows_per_block;   /* that a block works on at a time */
  uint32_t stage_bytes;      /* dynamic shared memory of a launch of many blocks, without a chain */
  uint32_t wide_stage_bytes; /* of no more blocks than there are multiprocessors */
  struct stg_cubin_info cubin;
};

/* A decoded entry. Views into `bytes`, which the caller keeps alive; meta text in `arena`. */
struct stg_entry {
  struct stg_key key;
  const char *material;
  size_t material_size;
  const char *metadata; /* JSON, not NUL-terminated */
  size_t metadata_size;
  const char *source;
  size_t source_size;
  const void *cubin;
  size_t cubin_size;
  struct stg_entry_meta meta;
  struct stg_arena *arena;
};

/**
 * Append the entry's bytes, stamped with the time of day. Reads the cubin's ELF for the metadata;
 * STG_E_CORRUPT when it is no cubin of the request.
 */
STG_NODISCARD stg_status stg_entry_encode(const struct stg_kernel_request *request,
                                          const struct stg_kernel_image *image,
                                          struct stg_strbuf *ret_bytes, stg_error *reterr);
/**
 * Check everything: magic, version, sizes, footer, key against material, material against metadata
 * and source, ELF architecture against `arch`. STG_E_CORRUPT says what is wrong; STG_E_UNSUPPORTED
 * for another format version with a right footer. `*ret_entry` borrows `bytes` and `arena`.
 */
STG_NODISCARD stg_status stg_entry_decode(const void *bytes, size_t size, struct stg_arena *arena,
                                          struct stg_entry *ret_entry, stg_error *reterr);

#endif
