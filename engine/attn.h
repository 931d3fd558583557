/*
 * attn.h: the attention side's host as its own files see it.
 *
 *   attn_object.c  what a cache, rows, a rope and an attend have in common: who uses them
 *   attn_shape.c   buckets;  kv_desc.c  what a cache was declared as, checked
 *   kv.c           the cache: create, destroy;  kv_update.c  lengths and blocks;  kv_status.c  what
 *                  was refused, and the advance
 *   rows.c         the rows of a step: create, destroy;  rows_step.c  one step
 *   rope_family.c, rope_signature.c, decode_family.c, decode_signature.c   kernels
 *   rope.c         a rope: create, destroy;  rope_desc.c  what it is declared as;  rope_check.c its
 *                  tensors;  rope_apply.c, heads.c  launches;  attn_launch.c  how one goes out
 *   attend.c, attend_check.c, attend_apply.c   the same of an attend;  workspace.c  partial sums
 *   block.c        a layer of both as one graph: create, step;  block_apply.c  one layer
 *
 * Objects name others downwards alone: a block its rope and attend, these and rows their cache. Who
 * is named cannot be destroyed. Addresses of tensors are the device's on cuda and the host's on the
 * CPU; both are kept as pointers, and dereferenced on the CPU alone.
 *
 * Locking: a cache's `lock` guards its staging buffers and its words; it is a leaf but for calls of
 * the device. Rope and attend do not change. Rows and blocks belong to one thread.
 */
#ifndef STG_ENGINE_ATTN_H
#define STG_ENGINE_ATTN_H

#include <pthread.h>
#include <stdatomic.h>

#include <steergraph/attention.h>

#include "codegen/decode_kernel.h"
#include "codegen/rope_args.h"
#include "codegen/rope_freq.h"
#include "engine/attn_object.h"
#include "engine/attn_shape.h"
#include "engine/decode_decl.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/rope_decl.h"
#include "engine/staging.h"

/* A cache as declared. */
struct stg_kv_form {
  uint32_t layers, batch, kv_heads, dim;
  int64_t capacity;
  stg_dtype dtype;
  uint32_t block, block_shift, n_blocks;                     /* 0: dense */
  int64_t table_row;                                         /* entries of a sequence; 0: dense */
  int64_t pos_stride, head_stride, seq_stride, layer_stride; /* elements */
  size_t tensor_bytes;                                       /* of K, and of V */
};

struct stg_kv {
  struct stg_attn_object object;
  struct stg_kv_form form;
  void *k, *v;
  int32_t *len, *block_table;
  void *own[4];               /* of these four, what is the cache's own */
  struct stg_kv_words *words; /* on the engine's side */
  struct stg_kernel_set *advance;
  pthread_mutex_t lock;
  struct stg_staging staging; /* cuda: of lengths and blocks */
  void *pinned_words;         /* cuda: what words are read into */
  atomic_uint changes; /* copies into len and block_table so far: a launch behind one waits */
  struct stg_held_bytes held;
};

/* Partial sums of attention: of all attends that go with some rows, one after the other. */
struct stg_workspace {
  struct stg_workspace *next; /* smaller ones, which a host's graph may use */
  uint64_t partials, counters;
  size_t partial_bytes, counter_bytes;
};

/* Kernels of a step that are told apart, of those that go out without a block. */
#define STG_ROWS_MAX_COUNTED 8

struct stg_rows {
  struct stg_attn_object object;
  stg_kv *kv; /* NULL: rows of tensors */
  uint32_t batch, max_rows;
  int64_t capacity; /* the bucket of max_rows */
  /* of the last step */
  int64_t rows;
  struct stg_graph_shape shape;
  bool stepped, fresh;   /* fresh: nothing was launched since */
  unsigned seen_changes; /* of the cache, at the last launch */
  bool has_pos, pos_is_64;
  const struct stg_kernel_set
      *counted[STG_ROWS_MAX_COUNTED]; /* in the traffic; never looked into */
  unsigned n_counted;
  stg_stream stream;
  uint32_t *counts; /* [batch] scratch: rows of each sequence */
  /* CPU */
  int32_t *seq;
  int64_t *pos;
  /* cuda: the map of codegen/kv_args.h */
  uint64_t map;
  struct stg_staging staging;
  struct stg_workspace *workspace; /* the largest first; NULL: none was asked for */
  struct stg_held_bytes held;
};

struct stg_rope {
  struct stg_attn_object object;
  struct stg_rope_geometry geometry;
  stg_kv *kv;
  struct stg_kernel_set *forward, *backward, *transpose; /* NULL: not declared */
  void *tables;                                          /* on the engine's side */
  struct stg_rope_angles angles;                         /* its addresses are in there */
  struct stg_held_bytes held;
};

struct stg_attend {
  struct stg_attn_object object;
  struct stg_decode_geometry geometry;
  stg_kv *kv;
  uint32_t batch; /* sequences */
  int64_t capacity;
  int64_t window;
  float scale;
  struct stg_kernel_set *kernels;
};

/** A cache's form. STG_E_INVALID names the field and the value. */
STG_NODISCARD stg_status stg_kv_form_init(const stg_kv_desc *desc, struct stg_kv_form *ret,
                                          stg_error *reterr);
/**
 * What a rope, or an attend, is declared as. `desc->kv` is not looked at: `form` is that of the
 * cache, and NULL without one. `aligned`: K and V of the cache stand at 16 bytes. STG_E_INVALID
 * names the field and the value.
 */
STG_NODISCARD stg_status stg_rope_describe(const stg_rope_desc *desc,
                                           const struct stg_kv_form *form,
                                           struct stg_rope_geometry *ret_geometry,
                                           stg_error *reterr);
STG_NODISCARD stg_status stg_attend_describe(const stg_attend_desc *desc,
                                             const struct stg_kv_form *form, bool aligned,
                                             struct stg_decode_geometry *ret_geometry,
                                             stg_error *reterr);

/** What a rope's frequencies are made of, with defaults. */
struct stg_rope_freq stg_rope_freq_of(const stg_rope_desc *desc);

/* What a rope's kernels do: the first always, the others where they are declared. */
struct stg_rope_works {
  struct stg_rope_kernel forward, backward, transpose;
};
struct stg_rope_works stg_rope_works_of(const stg_rope_desc *desc, const struct stg_kv_form *form,
                                        const struct stg_rope_geometry *geometry);

/** A layer as the CPU and launches take it. */
struct stg_kv_view stg_kv_view_of(const stg_kv *kv, uint32_t layer);
struct stg_kv_args stg_kv_args_of(const struct stg_kv_view *view);

/** STG_E_INVALID unless the rows were stepped, and are of `kv` or, without one, of `batch`
 * sequences. `what` begins the message. */
STG_NODISCARD stg_status stg_rows_check(const stg_rows *rows, const stg_kv *kv, uint32_t batch,
                                        const char *what, stg_error *reterr);
/** As the CPU takes them. */
struct stg_step_rows stg_rows_host(const stg_rows *rows);
/** As a launch over `count` rows takes them. */
struct stg_rows_args stg_rows_args_of(const stg_rows *rows, int64_t count);
/** What an attend needs beside the cache for these rows. */
struct stg_decode_space stg_rows_space(const stg_rows *rows, const stg_attend *attend);
/** A workspace of the rows that has as much; NULL: there is none yet. */
const struct stg_workspace *stg_rows_workspace(const stg_rows *rows, const stg_attend *attend);
/** See to it that there is one. Allocates, and waits for the engine's own stream. */
STG_NODISCARD stg_status stg_rows_reserve(stg_rows *rows, const stg_attend *attend,
                                          stg_error *reterr);
void stg_workspaces_free(struct stg_engine *engine, struct stg_workspace *workspace);

/* A launch on the caller's stream. */
struct stg_attn_launch {
  stg_stream stream;
  bool capturing;
  bool early;       /* as stg_plan_launch has it */
  unsigned changes; /* of the cache, before it */
  int64_t rows;     /* of the grid: the bucket's in a capture */
};

/** How a launch over rows goes out on a stream of a cuda engine; `rows` may be NULL, then there are
 * `count`. */
STG_NODISCARD stg_status stg_attn_launch_init(struct stg_engine *engine, const stg_rows *rows,
                                              int64_t count, stg_stream stream,
                                              struct stg_attn_launch *ret, stg_error *reterr);
/** Something with the rows, which may be NULL, has gone out: what comes next need not wait. */
void stg_attn_launched(const struct stg_attn_launch *launch, stg_rows *rows);
/**
 * Count a kernel that went out by itself in the engine's traffic: with its first launch of a step,
 * which the rows' shape is of; without rows each launch is a step, of `count` rows of one sequence.
 * Any backend.
 */
void stg_attn_count(struct stg_engine *engine, stg_rows *rows, int64_t count,
                    const struct stg_kernel_set *set);
/** Kernels one after the other, plainly or into a capture: a node each. */
STG_NODISCARD stg_status stg_attn_launch_line(struct stg_engine *engine,
                                              const struct stg_attn_launch *launch,
                                              const struct stg_node_launch *nodes, size_t count,
                                              stg_error *reterr);
/** One of them. */
STG_NODISCARD stg_status stg_attn_launch_one(struct stg_engine *engine,
                                             const struct stg_attn_launch *launch,
                                             const struct stg_node_launch *node, stg_error *reterr);
/** The kernel of a set that has one. */
static inline const struct stg_kernel *stg_attn_kernel(const struct stg_kernel_set *set) {
  return &set->kernels[STG_TIER_DECLARED][0];
}

/** An address as arguments of kernels have it. */
static inline uint64_t stg_attn_address(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

/** What a host's graph uses of a launch, pinned; without a capture, pins made ready for the next.
 * `rows` may be NULL. */
STG_NODISCARD stg_status stg_rope_hold(stg_rope *rope, stg_rows *rows,
                                       const struct stg_attn_launch *launch, stg_error *reterr);
STG_NODISCARD stg_status stg_attend_hold(stg_attend *attend, stg_rows *rows,
                                         const struct stg_attn_launch *launch, stg_error *reterr);

/* Nodes: fill the arguments, say how large the grid is. `args` is kept by the node. */
struct stg_node_launch stg_rope_node(const stg_rope *rope, const stg_rows *rows,
                                     const stg_rope_tensors *tensors, uint32_t layer, bool backward,
                                     int64_t count, struct stg_rope_args *args);
struct stg_node_launch stg_attend_node(const stg_attend *attend, const stg_rows *rows,
                                       const stg_attend_tensors *tensors, uint32_t layer,
                                       int64_t count, struct stg_decode_args *args);
struct stg_node_launch stg_advance_node(const stg_kv *kv, const stg_rows *rows, int64_t count,
                                        struct stg_advance_args *args);

/** STG_E_INVALID with the value. Fills in packed strides. `layer` counts with a cache. */
STG_NODISCARD stg_status stg_rope_check(const stg_rope *rope, const stg_rows *rows,
                                        const stg_rope_tensors *tensors, uint32_t layer,
                                        bool backward, stg_rope_tensors *ret, stg_error *reterr);
STG_NODISCARD stg_status stg_attend_check(const stg_attend *attend, const stg_rows *rows,
                                          const stg_attend_tensors *tensors, uint32_t layer,
                                          stg_attend_tensors *ret, stg_error *reterr);

/* On the CPU, of tensors that were checked. */
STG_NODISCARD stg_status stg_rope_run_cpu(const stg_rope *rope, const stg_rows *rows,
                                          const stg_rope_tensors *tensors, uint32_t layer,
                                          stg_error *reterr);
STG_NODISCARD stg_status stg_attend_run_cpu(const stg_attend *attend, const stg_rows *rows,
                                            const stg_attend_tensors *tensors, uint32_t layer,
                                            stg_error *reterr);
void stg_advance_run_cpu(const stg_kv *kv, const stg_rows *rows);

#endif
