/*
 * attention.h: the attention side of one decode or prefill step: a KV cache of fixed size, the
 * rotation that appends to it, the attention that reads it, and a layer of both as one launch.
 *
 * Life: create a cache, the rows of a step, a rope, an attend, and a block of them. Once per
 * scheduling step say which sequence and position each row is (stg_rows_step_set), and let the
 * block resolve its plan (stg_block_step); per layer apply the block. What changes from step to
 * step, lengths above all, is on the device: nothing is compiled or captured again as sequences
 * grow.
 *
 * Shapes: R rows of a step, Hq query heads, Hk KV heads (Hk divides Hq), D the head dimension
 * (even, at most 256), S the capacity of a sequence. Addresses are of the device on cuda, of the
 * host on the CPU. Strides are in elements; 0 means packed.
 *
 * Every call may return STG_E_FORKED, and on cuda STG_E_CUDA, STG_E_DEVICE_LOST and, where it
 * allocates, STG_E_NO_MEMORY. A refused call writes nothing, and a capture stays valid.
 */
#ifndef STEERGRAPH_ATTENTION_H
#define STEERGRAPH_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>
#include <steergraph/engine.h>
#include <steergraph/steer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stg_kv stg_kv;         /* lengths, K and V of all layers; any thread */
typedef struct stg_rows stg_rows;     /* one thread at a time and one stream, as stg_frame */
typedef struct stg_rope stg_rope;     /* any thread */
typedef struct stg_attend stg_attend; /* any thread */
typedef struct stg_block stg_block;   /* one thread at a time and one stream, as stg_frame */

/* How single heads stand: [rows, heads, D] or [heads, rows, D]. */
typedef enum stg_order { STG_ORDER_ROWS_FIRST = 0, STG_ORDER_HEADS_FIRST = 1 } stg_order;

/* ------------------------------------------------------------------ the cache */

/* What a cache is made of. Zero means default. */
typedef struct stg_kv_desc {
  size_t struct_size; /* sizeof(stg_kv_desc) */
  uint32_t layers;    /* default 1 */
  uint32_t batch;     /* sequences, >= 1 */
  uint32_t kv_heads, dim;
  int64_t capacity; /* positions of a sequence, 1 to 2^31 - 2 */
  stg_dtype dtype;  /* of K and V */
  /* 0: dense. Otherwise paged: positions of a block, a power of two from 8 to 1024, and how many
   * blocks a layer has. */
  uint32_t block, n_blocks;
  /*
   * dtype [layers, batch, kv_heads, capacity, dim], or paged [layers, n_blocks, kv_heads, block,
   * dim]; borrowed until the cache is destroyed. NULL, both: the cache's own, not cleared. Neither
   * is ever read past the positions that were written.
   */
  void *k, *v;
  int32_t *len; /* [batch], borrowed likewise; NULL: the cache's own, zeros */
  /* [batch, ceil(capacity / block)], borrowed likewise: which block has the positions from
   * i * block on; negative: none. NULL: the cache's own, all -1. */
  int32_t *block_table;
} stg_kv_desc;

/** Bytes on the engine's side that stg_kv_create will take. STG_E_INVALID names the field. */
STG_API STG_NODISCARD stg_status stg_kv_bytes(const stg_engine *engine, const stg_kv_desc *desc,
                                              size_t *ret_bytes, stg_error *reterr);
/**
 * Allocate what is not borrowed, and see to the kernel of stg_kv_advance as stg_options.compile
 * says; in background mode it is waited for. Synchronises the engine's own stream.
 * @return STG_E_INVALID names the field and the value; STG_E_NOT_WARM, STG_E_COMPILE,
 * STG_E_NO_DEVICE as stg_steer_create.
 */
STG_API STG_NODISCARD stg_status stg_kv_create(stg_engine *engine, const stg_kv_desc *desc,
                                               stg_kv **ret_kv, stg_error *reterr);
/**
 * Free the cache. What was launched with it must have ended. NULL is fine.
 * @return STG_E_BUSY, with what still uses it: rows, ropes, attends. The cache is as it was.
 */
STG_API STG_NODISCARD stg_status stg_kv_destroy(stg_kv *kv, stg_error *reterr);

/* Where everything is, for as long as the cache lives. Layer l of sequence s and head h has
 * position p at l * layer_stride + s * seq_stride + h * head_stride + p * dim; paged, of block b,
 * at l * layer_stride + b * seq_stride + h * head_stride + (p mod block) * dim. */
typedef struct stg_kv_tensors {
  size_t struct_size; /* in: sizeof(stg_kv_tensors) */
  void *k, *v;
  int32_t *len;
  int32_t *block_table; /* NULL: dense */
  int64_t blocks;       /* of a sequence: entries of a row of the table; 0: dense */
  int64_t layer_stride, seq_stride, head_stride;
} stg_kv_tensors;
/** Fills nothing when struct_size is not that of this version. */
STG_API void stg_kv_get_tensors(const stg_kv *kv, stg_kv_tensors *tensors);

/**
 * Set the lengths of sequences, in the order of the stream: 0 for a new request, less than it was
 * to take rows back.
 * @param seqs, lens host arrays [count], read during the call.
 * @return STG_E_INVALID for a sequence or a length outside of the cache, or a sequence twice, with
 * the place and the value; STG_E_CAPTURING. Does not synchronise, unless four such calls are ahead
 * of the device.
 */
STG_API STG_NODISCARD stg_status stg_kv_set_len(stg_kv *kv, const uint32_t *seqs,
                                                const int32_t *lens, size_t count,
                                                stg_stream stream, stg_error *reterr);
/**
 * Set entries `first` to `first + count` of a sequence's row of the block table, in the order of
 * the stream; -1 takes a block away.
 * @param blocks host array [count], read during the call.
 * @return STG_E_NOT_DECLARED for a dense cache; else as stg_kv_set_len.
 */
STG_API STG_NODISCARD stg_status stg_kv_set_blocks(stg_kv *kv, uint32_t seq, int64_t first,
                                                   const int32_t *blocks, size_t count,
                                                   stg_stream stream, stg_error *reterr);
/**
 * At the end of a step, behind its last layer: add to the length of each sequence the rows that it
 * had in the step and that had room. One launch; one node in a capture.
 * @return STG_E_INVALID for rows of another cache, or before their first step; STG_E_NOT_WARM in a
 * capture, as stg_steer_apply. Does not synchronise.
 */
STG_API STG_NODISCARD stg_status stg_kv_advance(stg_kv *kv, stg_rows *rows, stg_stream stream,
                                                stg_error *reterr);

/* Rows that were not appended since the last report. Each layer counts its own. */
typedef struct stg_kv_report {
  size_t struct_size; /* sizeof(stg_kv_report) */
  uint64_t full_rows; /* without room at their position: at capacity, or paged without a block */
  int64_t full_row;   /* the lowest such row of a step, and its sequence; -1: none */
  int32_t full_seq;
  uint64_t bad_rows; /* of a sequence that there is not, or at no position */
  int64_t bad_row;   /* likewise; -1: none */
  int32_t bad_seq;
} stg_kv_report;
/**
 * What became of appends since the last such call; then it begins anew.
 * @param ret_report may be NULL; filled also where the status is one of the two below.
 * @return STG_E_KV_FULL when a row had no room, STG_E_BAD_SLOT when a map on the device held a
 * sequence outside of the cache or a position that cannot be, each with the lowest row;
 * STG_E_CAPTURING. Any thread. Synchronises `stream`.
 */
STG_API STG_NODISCARD stg_status stg_kv_status(stg_kv *kv, stg_stream stream,
                                               stg_kv_report *ret_report, stg_error *reterr);

/* ------------------------------------------------------------------ the rows of a step */

typedef struct stg_rows_desc {
  size_t struct_size; /* sizeof(stg_rows_desc) */
  stg_kv *kv;         /* whose sequences the rows are of; NULL: of tensors, each row with `pos` */
  uint32_t batch;     /* sequences without a cache; 0 with one */
  uint32_t max_rows;  /* of a step; default 2048 */
} stg_rows_desc;
/** Room for the rows of steps at fixed device addresses. STG_E_INVALID. Synchronises the engine's
 * own stream. */
STG_API STG_NODISCARD stg_status stg_rows_create(stg_engine *engine, const stg_rows_desc *desc,
                                                 stg_rows **ret_rows, stg_error *reterr);
/**
 * Waits for the stream of the last step, which must still exist and may not be capturing. NULL is
 * fine.
 * @return STG_E_BUSY while a graph is alive that a host captured with the rows (CUDA says late that
 * one is gone: the call waits a tenth of a second for it). The rows are as they were.
 */
STG_API STG_NODISCARD stg_status stg_rows_destroy(stg_rows *rows, stg_error *reterr);

/* One scheduling step: which sequence and position each row is. */
typedef struct stg_rows_step {
  size_t struct_size; /* sizeof(stg_rows_step) */
  int64_t rows;       /* 0..max_rows */
  const int32_t *seq; /* [rows]; negative: padding, never loaded and never stored */
  /* [rows] int32, or int64 with pos_is_64: where in its sequence a row is, 0 to 2^31 - 2. NULL: the
   * decode form: a row is at the length of its sequence, which has no other row. */
  const void *pos;
  bool pos_is_64;
  bool on_device; /* seq and pos are device addresses, read on the stream and not looked at */
  /* Of the batch, for its shape; 0: counted from host arrays; on the device one request, of all
   * rows, or in the decode form as many requests as rows. */
  uint32_t requests, longest;
} stg_rows_step;
/**
 * Fill the rows; later launches and replays with them take these.
 * @return STG_E_INVALID for a sequence that comes twice in the decode form, a position that cannot
 * be, and the decode form without a cache; STG_E_BAD_SLOT for a sequence outside of the batch, each
 * with the row and the value, in host arrays; STG_E_CAPACITY for more rows than max_rows;
 * STG_E_CAPTURING. The rows are as they were, but after a failed CUDA call they need a new step.
 * Does not synchronise, unless four steps are ahead of the device.
 */
STG_API STG_NODISCARD stg_status stg_rows_step_set(stg_rows *rows, const stg_rows_step *step,
                                                   stg_stream stream, stg_error *reterr);

/* ------------------------------------------------------------------ split, rotate, append */

/* What a packed row of (Hq + 2*Hk) * D elements is. */
typedef enum stg_qkv_layout {
  STG_QKV_CONCAT = 0,      /* [Hq, D] [Hk, D] [Hk, D] */
  STG_QKV_INTERLEAVED = 1, /* [3, H, D]; Hq == Hk */
  STG_QKV_GROUPED = 2,     /* [Hk, Hq/Hk + 2, D]: query heads, then their K and V */
  STG_QKV_HEAD_FASTEST = 3 /* [D, Hq] [D, Hk] [D, Hk] */
} stg_qkv_layout;

/* Pair i of a head is (i, i + rot/2) or (2i, 2i + 1). */
typedef enum stg_pairs { STG_PAIRS_HALF = 0, STG_PAIRS_INTERLEAVED = 1 } stg_pairs;

/* Where results are rounded: once, or after each operation, as an eager framework does. */
typedef enum stg_rounding { STG_ROUND_FINAL = 0, STG_ROUND_EACH_OP = 1 } stg_rounding;

/* What cosine and sine are rounded to before they are used; SWAPPED_BF16 also has the one in the
 * other's place. */
typedef enum stg_trig {
  STG_TRIG_DEFAULT = 0, /* f32; the tensors' type with STG_ROUND_EACH_OP */
  STG_TRIG_F32 = 1,
  STG_TRIG_DTYPE = 2,
  STG_TRIG_SWAPPED_BF16 = 3
} stg_trig;

typedef enum stg_freq_scaling {
  STG_SCALING_NONE = 0,
  STG_SCALING_LINEAR = 1,
  STG_SCALING_LLAMA3 = 2
} stg_freq_scaling;

/* The scale of xPos: element j has that of frequency j mod rot/2, or each pair that of its own. */
typedef enum stg_xpos { STG_XPOS_NONE = 0, STG_XPOS_HALVES = 1, STG_XPOS_PAIRS = 2 } stg_xpos;

typedef struct stg_rope_desc {
  size_t struct_size;            /* sizeof(stg_rope_desc) */
  uint32_t heads, kv_heads, dim; /* Hq, Hk, D; with a cache kv_heads and dim may be 0: its own */
  uint32_t rot;                  /* first elements of a head that are rotated, even; 0: dim */
  stg_dtype dtype;               /* of all tensors; with a cache may be STG_DTYPE_NONE: its own */
  stg_qkv_layout layout;
  stg_pairs pairs;
  stg_rounding round;
  stg_trig trig;
  /* Default 10000: frequency i of rot/2 is base^(-2i/rot). None may be above 1, as scaled. */
  double base;
  stg_freq_scaling scaling;
  double factor;              /* of linear and llama3, > 0 */
  double low_freq, high_freq; /* of llama3, 0 < low_freq < high_freq */
  int64_t original;           /* of llama3: positions of the training */
  stg_xpos xpos;
  float xpos_base; /* of xPos; default 512 */
  /* Host float32 [table_positions, 2, rot/2], cosines before sines, copied: read in place of
   * computed angles. At least as many positions as a cache has. NULL: none. */
  const float *table;
  int64_t table_positions;
  stg_order order; /* of q, and of k and v where they go to tensors */
  stg_kv *kv;      /* where K and V are appended; NULL: they go to tensors */
  bool backward;   /* declares stg_rope_backward */
  bool transpose;  /* declares stg_heads_transpose */
} stg_rope_desc;

/**
 * Make the table of frequencies, and see to the declared kernels as stg_kv_create.
 * @return STG_E_INVALID names the field and the value; else as stg_kv_create.
 */
STG_API STG_NODISCARD stg_status stg_rope_create(stg_engine *engine, const stg_rope_desc *desc,
                                                 stg_rope **ret_rope, stg_error *reterr);
/** What was launched with it must have ended. NULL is fine.
 * @return STG_E_BUSY while a block uses it, or a graph that a host captured with it. */
STG_API STG_NODISCARD stg_status stg_rope_destroy(stg_rope *rope, stg_error *reterr);

/* q, k and v stand in the rope's order; strides are from a row to the next, or from a head to the
 * next with STG_ORDER_HEADS_FIRST: there give them in a capture, for as many rows as replays have.
 */
typedef struct stg_rope_tensors {
  size_t struct_size; /* sizeof(stg_rope_tensors) */
  uint32_t layer;     /* of the cache; 0 without one */
  void *qkv;          /* dtype [R, qkv_stride]; written by stg_rope_backward alone */
  int64_t qkv_stride;
  void *q;     /* dtype [R, Hq, D] or [Hq, R, D] */
  void *k, *v; /* the same with Hk; NULL with a cache. v NULL without one: V stays in the packed
                  rows, where it is neither read nor written, and v_stride does not count */
  int64_t q_stride, k_stride, v_stride;
  /* Without stg_rows: [rows] positions of one sequence, as stg_rows_step.pos. Not looked at: a row
   * at no position, or past a table, gives zeros. */
  const void *pos;
  bool pos_is_64;
  int64_t rows;
} stg_rope_tensors;
/**
 * Split packed rows, rotate Q and K by their positions, and put K and V into the cache or out; a V
 * that stays in the packed rows costs nothing. A row without room is not appended, and raises what
 * stg_kv_status reports; padding leaves everything as it is. One launch; one node in a capture.
 * @param rows stepped before; NULL without a cache alone: then tensors->pos says where rows are.
 * @return STG_E_INVALID for rows of another cache, before their first step, and for a layer, stride
 * or pointer that cannot be, with the value; STG_E_NOT_WARM in a capture, as stg_steer_apply. Does
 * not synchronise.
 */
STG_API STG_NODISCARD stg_status stg_rope_apply(stg_rope *rope, stg_rows *rows,
                                                const stg_rope_tensors *tensors, stg_stream stream,
                                                stg_error *reterr);
/**
 * The way back: gradients of q, k and v in, that of the packed rows out. Padding stays as it is,
 * and without a v the V of each row.
 * @return STG_E_NOT_DECLARED; else as stg_rope_apply.
 */
STG_API STG_NODISCARD stg_status stg_rope_backward(stg_rope *rope, stg_rows *rows,
                                                   const stg_rope_tensors *tensors,
                                                   stg_stream stream, stg_error *reterr);

typedef struct stg_heads_tensors {
  size_t struct_size;   /* sizeof(stg_heads_tensors) */
  stg_order from_order; /* `to` has the other */
  uint32_t heads;       /* of the rope's dim and dtype */
  int64_t rows;
  const void *from;
  void *to; /* apart from `from` */
  int64_t from_stride, to_stride;
} stg_heads_tensors;
/** Heads from one order to the other. STG_E_NOT_DECLARED; else as stg_rope_apply. */
STG_API STG_NODISCARD stg_status stg_heads_transpose(stg_rope *rope,
                                                     const stg_heads_tensors *tensors,
                                                     stg_stream stream, stg_error *reterr);

/* ------------------------------------------------------------------ attention */

typedef struct stg_attend_desc {
  size_t struct_size; /* sizeof(stg_attend_desc) */
  uint32_t heads;     /* Hq */
  float scale;        /* of q.k; 0: 1/sqrt(D) */
  int64_t window;     /* positions that a row reads, its own with them; 0: all */
  bool key_mask;      /* every apply brings a mask of keys */
  stg_order order;    /* of q and out */
  stg_kv *kv;         /* NULL: K and V are tensors, of these extents */
  uint32_t batch, kv_heads, dim;
  int64_t tokens; /* positions of a sequence */
  stg_dtype dtype;
} stg_attend_desc;

/** As stg_rope_create. */
STG_API STG_NODISCARD stg_status stg_attend_create(stg_engine *engine, const stg_attend_desc *desc,
                                                   stg_attend **ret_attend, stg_error *reterr);
/** As stg_rope_destroy. */
STG_API STG_NODISCARD stg_status stg_attend_destroy(stg_attend *attend, stg_error *reterr);

typedef struct stg_attend_tensors {
  size_t struct_size; /* sizeof(stg_attend_tensors) */
  uint32_t layer;     /* of the cache; 0 without one */
  const void *q;      /* dtype [R, Hq, D] or [Hq, R, D]; strides as stg_rope_tensors.q */
  void *out;          /* the same, apart from all others */
  int64_t q_stride, out_stride;
  /* Without a cache: dtype, sequence s, head h and position p at s*seq_stride + h*head_stride +
   * p*pos_stride, packed [batch, Hk, tokens, D] where all three are 0. */
  const void *k, *v;
  int64_t seq_stride, head_stride, pos_stride;
  const int32_t *len; /* [batch], without a cache; rows from this position on give zeros; NULL:
                         none do */
  /* uint8 [batch, mask_stride], required iff declared: keys that are 0 are not read; packed: S or
   * `tokens`. */
  const uint8_t *key_mask;
  int64_t mask_stride;
} stg_attend_tensors;
/**
 * Attend: a row at position p reads positions max(0, p - window + 1) to p of its sequence, which
 * the cache has by now, and no other: whatever else lies there does not count. Rows that read
 * nothing, and rows without room, give zeros; padding leaves out as it is. A row's bits depend on
 * its sequence, its position and the declared work alone, not on other rows. One launch; one node
 * in a capture. The first apply of an attend with `rows` may allocate, and is STG_E_NOT_WARM in a
 * capture then.
 * @param rows stepped before: of the same cache, or of as many sequences.
 * @return as stg_rope_apply.
 */
STG_API STG_NODISCARD stg_status stg_attend_apply(stg_attend *attend, stg_rows *rows,
                                                  const stg_attend_tensors *tensors,
                                                  stg_stream stream, stg_error *reterr);

/* ------------------------------------------------------------------ the step as one graph */

/* What a layer's launch has, in this order: rope, attend, steer, advance. Any part may be absent,
 * but not both of the first two. */
typedef struct stg_block_desc {
  size_t struct_size; /* sizeof(stg_block_desc) */
  stg_rope *rope;     /* with a cache */
  stg_attend *attend; /* with the same */
  /* Acts on the rows of attend's out as hidden states of Hq * D elements: needs an attend of that
   * type in STG_ORDER_ROWS_FIRST, and state hidden without probes. */
  stg_steer *steer;
  bool advance; /* the launch of the cache's last layer ends with stg_kv_advance */
} stg_block_desc;
/** STG_E_INVALID for parts that do not go together, with both values; STG_E_NO_MEMORY. */
STG_API STG_NODISCARD stg_status stg_block_create(stg_engine *engine, const stg_block_desc *desc,
                                                  stg_block **ret_block, stg_error *reterr);
/** Waits for nothing: what was launched must have ended. NULL is fine. */
STG_API void stg_block_destroy(stg_block *block);
/**
 * Resolve the plan for the rows that were set last, and have its graph at hand; also allocates what
 * applies need. As often as stg_rows_step_set, after it.
 * @param frame of the block's steer table, stepped with as many rows; NULL without one.
 * @return STG_E_INVALID, STG_E_CAPACITY, STG_E_CAPTURING. Rows and frame are borrowed until the
 * next step.
 */
STG_API STG_NODISCARD stg_status stg_block_step(stg_block *block, stg_rows *rows, stg_frame *frame,
                                                stg_stream stream, stg_error *reterr);

typedef struct stg_block_tensors {
  size_t struct_size;           /* sizeof(stg_block_tensors) */
  uint32_t layer;               /* of the cache; those of the structs below are not read */
  const stg_rope_tensors *rope; /* NULL without the part */
  const stg_attend_tensors *attend;
  uint32_t steer_layer; /* of the steer table */
} stg_block_tensors;
/**
 * One layer: one launch of a graph, in which the parts follow each other; in a host's capture their
 * nodes. Where there can be no graph the same kernels go out one by one, with the same bits.
 * @return as stg_rope_apply, stg_attend_apply and stg_steer_apply. Nothing was launched then, but
 * after a failed CUDA call.
 */
STG_API STG_NODISCARD stg_status stg_block_apply(stg_block *block, const stg_block_tensors *tensors,
                                                 stg_stream stream, stg_error *reterr);
/**
 * The plan that serves since the last step. The kernel's members are the steer part's, or without
 * one the first part's; the signature is of all: "rope v1 | ... + decode v1 | ... | sm_90 |
 * batch<=32 seq<=1 rows<=32". Text is borrowed until the next step.
 * @return STG_E_NOT_FOUND before the first step.
 */
STG_API STG_NODISCARD stg_status stg_block_plan(const stg_block *block, stg_plan_info *ret_info,
                                                stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
