/*
 * kernel.h: what is asked of a compiler and a cache: one kernel's text, options and architecture.
 */
#ifndef STG_RUNTIME_KERNEL_H
#define STG_RUNTIME_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/key.h"

#define STG_MATERIAL_FORMAT "2" /* of the key material: a change makes every old entry a miss */
#define STG_ARCH_CHARS 16       /* "sm_90a" and a NUL */
#define STG_COMPILER_CHARS 24   /* "nvrtc-13.0.88" and a NUL */

/* Everything borrowed for the call. */
struct stg_kernel_request {
  const char *signature; /* canonical kernel text, with its architecture */
  const char *name;      /* the extern "C" kernel */
  const char *prelude;
  const char *source;         /* generated text, without the prelude */
  const char *arch;           /* "sm_90" */
  const char *const *options; /* for NVRTC, in order, without the architecture */
  size_t n_options;
  uint32_t threads;        /* launch rule, kept in the entry for the inspector */
  uint32_t rows_per_block; /* that a block works on at a time; likewise */
  /* dynamic shared memory of a launch without a chain: of many blocks, and of no more blocks than
   * there are multiprocessors; likewise */
  uint32_t stage_bytes, wide_stage_bytes;
  const struct stg_key *key; /* its request key, where that is known. NULL: worked out each time */
  atomic_bool *cancel;       /* set by another thread: STG_E_CANCELLED soon. NULL: nobody does.
                                No part of the key */
};

/* Names of the material's fields, in order; "option" once per option. */
#define STG_FIELD_FORMAT "format"
#define STG_FIELD_SIGNATURE "signature"
#define STG_FIELD_KERNEL "kernel"
#define STG_FIELD_PRELUDE "prelude"
#define STG_FIELD_SOURCE "source"
#define STG_FIELD_OPTION "option"
#define STG_FIELD_ARCH "arch"

/* Options of every compile, before the request's own: a part of every key like them. */
#define STG_FIXED_OPTION_COUNT 3
extern const char *const stg_fixed_options[STG_FIXED_OPTION_COUNT];

/**
 * Append the request's key material: format version, signature, kernel name, prelude, source,
 * options, architecture. The launch rule is a function of these and is left out.
 */
void stg_kernel_material(const struct stg_kernel_request *request, struct stg_strbuf *ret_material);
/**
 * Whether bytes are the request's key material, compared where they are. Equal keys are not enough:
 * a collision must not give another kernel.
 */
bool stg_kernel_is_material(const struct stg_kernel_request *request, const void *material,
                            size_t size);
/** The request key: `key` of it, else XXH3-128 of the material. STG_E_NO_MEMORY only. */
STG_NODISCARD stg_status stg_kernel_request_key(const struct stg_kernel_request *request,
                                                struct stg_key *ret_key, stg_error *reterr);

/** Whether text can name a compiler in a file name: letters, digits, '.', '-', '_', '+'. */
bool stg_compiler_is_plain(const char *compiler);

/* A compiled kernel. `cubin` is owned (stg_free). */
struct stg_kernel_image {
  void *cubin;
  size_t cubin_size;
  char compiler[STG_COMPILER_CHARS];
  double compile_ms;
};
void stg_kernel_image_finish(struct stg_kernel_image *image);

#endif
