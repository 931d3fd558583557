/*
 * steer_decl.h: a checked declaration of a steer table, and the kernels that follow from it.
 *
 * Pure: no device and no allocation beyond the declaration's own arena.
 */
#ifndef STG_ENGINE_STEER_DECL_H
#define STG_ENGINE_STEER_DECL_H

#include <steergraph/steer.h>

#include "codegen/steer.h"
#include "engine/family.h"
#include "engine/signature.h"

struct stg_op_table;

/* The variants: the two tiles of the steer kernel. */
enum stg_tile { STG_TILE_DECODE, STG_TILE_PREFILL };
#define STG_TILE_COUNT 2

/* stg_steer_desc with defaults filled in, names resolved and lists copied. */
struct stg_steer_decl {
  struct stg_decl base;
  int64_t hidden_size;
  uint32_t layers;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;
  stg_epilogue epilogue;
  float epsilon;
  bool windows, counters;
  uint32_t probes; /* columns */
  uint32_t max_rows, max_slots, max_vectors, max_chain;
  const struct stg_op **ops; /* sorted by stg_op_compare */
  size_t n_ops;
  const struct stg_op **named; /* the same with repeats: two names may share one body */
  size_t n_named;
  bool tier0; /* exactly the ops of a table without a list */
  struct stg_buckets row_buckets, batch_buckets;
  struct stg_arena arena;
};

/** Check and copy. STG_E_INVALID names the field, the value and what is allowed. */
STG_NODISCARD stg_status stg_steer_decl_init(const stg_steer_desc *desc, struct stg_op_table *ops,
                                             struct stg_steer_decl *ret_decl, stg_error *reterr);
void stg_steer_decl_finish(struct stg_steer_decl *decl);
/** The same with all of it in an arena of the caller's: nothing is to be finished. */
STG_NODISCARD stg_status stg_steer_decl_init_in(const stg_steer_desc *desc,
                                                struct stg_op_table *ops, struct stg_arena *arena,
                                                struct stg_steer_decl *ret_decl, stg_error *reterr);
/** Whether a table without a list of ops has this one: a built-in, with an output only where the
 * table has so many `probes`. The general tier has the same. */
bool stg_steer_is_default_op(const struct stg_op *op, uint32_t probes);

/** Append the signature of the kernel of `tile`; `arch` may be NULL, and is left out then. */
void stg_steer_kernel_print(const struct stg_steer_decl *decl, enum stg_tile tile, const char *arch,
                            struct stg_strbuf *out);
/** Generate the kernel of `tile` for `arch`. `nvrtc_options` may be NULL; borrowed. */
STG_NODISCARD stg_status stg_steer_kernel_init(const struct stg_steer_decl *decl,
                                               enum stg_tile tile, const char *arch,
                                               const char *nvrtc_options,
                                               struct stg_kernel_text *ret_text, stg_error *reterr);

/** The shape of a batch, rounded up to buckets, and the tile that serves it. */
STG_NODISCARD stg_status stg_steer_shape(const struct stg_steer_decl *decl, int64_t rows,
                                         uint32_t requests, uint32_t longest,
                                         struct stg_graph_shape *ret_shape, enum stg_tile *ret_tile,
                                         stg_error *reterr);
/** Under capture the tile follows the row bucket alone, so that replays of any mixture use one
 * kernel. */
enum stg_tile stg_steer_capture_tile(int64_t row_bucket);

/* Largest sizes of what a record may hold, by declaration. */
struct stg_steer_limits {
  uint32_t chain_vectors; /* vectors of one chain */
  uint32_t head_words;    /* ahead of a record's chains in device memory */
  uint32_t chain_words;   /* room of one chain there */
  size_t record_bytes;    /* of a slot: the head, and a chain per layer */
  uint32_t records;       /* that the pool has room for */
  size_t pool_bytes;
  size_t counts_bytes; /* of all slots and layers; 0 without counters */
  size_t bank_row_bytes;
};
/** Words ahead of the chains of a record in device memory: 0 where the kernel reads no head. */
uint32_t stg_steer_head_words(const struct stg_steer_decl *decl);
STG_NODISCARD stg_status stg_steer_limits(const struct stg_steer_decl *decl,
                                          struct stg_steer_limits *ret, stg_error *reterr);

#endif
