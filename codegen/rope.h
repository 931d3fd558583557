/*
 * rope.h: the rope family's geometry: where a packed QKV row has what, which elements a rotation
 * pairs, and where it rounds.
 *
 * What a kernel's text depends on is here. Frequencies, positions, strides and the cache are
 * arguments of a launch (rope_freq.h, kv.h). Shared by the text, the CPU backend and the oracle.
 */
#ifndef STG_CODEGEN_ROPE_H
#define STG_CODEGEN_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#define STG_ROPE_MAX_DIM 256U

/* What a kernel of the family does. */
enum stg_rope_work {
  STG_ROPE_ROTATE,    /* split, rotate, append; backward as well */
  STG_ROPE_TRANSPOSE, /* [rows, heads, dim] to [heads, rows, dim] and back */
  STG_ROPE_ADVANCE,   /* lengths of a cache at the end of a step */
};

/*
 * A packed row has (heads + 2*kv_heads) * dim elements, which stand as
 *
 *   concat        [heads, dim] [kv_heads, dim] [kv_heads, dim]
 *   interleaved   [3, heads, dim]; kv_heads must equal heads, which makes its bytes concat's
 *   grouped       [kv_heads, heads/kv_heads + 2, dim]: each KV head behind the heads that read it
 *   head_fastest  [dim, heads] [dim, kv_heads] [dim, kv_heads]
 */
enum stg_rope_layout {
  STG_ROPE_LAYOUT_CONCAT,
  STG_ROPE_LAYOUT_INTERLEAVED,
  STG_ROPE_LAYOUT_GROUPED,
  STG_ROPE_LAYOUT_HEAD_FASTEST,
};

/* Pair i of a head is (i, i + rot/2) or (2i, 2i + 1). Elements from `rot` on pass unchanged. */
enum stg_rope_pairs {
  STG_ROPE_PAIRS_HALF,
  STG_ROPE_PAIRS_INTERLEAVED,
};

/*
 * y0 = x0*cos*s0 - x1*sin*s0, y1 = x1*cos*s1 + x0*sin*s1, from left to right, s the scale of xPos.
 * Rounded to the tensors' type: y alone, or every product and the sum, which is what eager does.
 */
enum stg_rope_round {
  STG_ROPE_ROUND_FINAL,
  STG_ROPE_ROUND_EACH_OP,
};

/* What cosine, sine and scale are rounded to before they are used. */
enum stg_rope_trig {
  STG_ROPE_TRIG_F32,
  STG_ROPE_TRIG_DTYPE,        /* the tensors' type */
  STG_ROPE_TRIG_SWAPPED_BF16, /* bf16, the sine where the cosine belongs and the other way round */
};

/* Which scale an element of xPos has: element j that of frequency j mod rot/2, or its pair's. */
enum stg_rope_xpos {
  STG_ROPE_XPOS_NONE,
  STG_ROPE_XPOS_HALVES,
  STG_ROPE_XPOS_PAIRS,
};

/* How tensors of single heads stand: [rows, heads, dim] or [heads, rows, dim]. */
enum stg_heads_order {
  STG_HEADS_ROWS_FIRST,
  STG_HEADS_HEADS_FIRST,
};

/** Where a row's head begins; `stride` is from a row to the next, or from a head to the next. */
static inline int64_t stg_heads_offset(enum stg_heads_order order, int64_t stride, int64_t row,
                                       int64_t head, int64_t dim) {
  return order == STG_HEADS_ROWS_FIRST ? row * stride + head * dim : head * stride + row * dim;
}

struct stg_rope_geometry {
  uint32_t heads, kv_heads; /* kv_heads divides heads */
  uint32_t dim;             /* even, at most STG_ROPE_MAX_DIM */
  uint32_t rot;             /* even, 2 to dim */
  stg_dtype dtype;
  enum stg_rope_layout layout;
  enum stg_rope_pairs pairs;
  enum stg_rope_round round;
  enum stg_rope_trig trig;
  enum stg_rope_xpos xpos;
  enum stg_heads_order order; /* of q, and of k and v where they go to tensors */
};

/* The three things that a packed row has. */
enum stg_rope_part { STG_ROPE_Q, STG_ROPE_K, STG_ROPE_V };
#define STG_ROPE_PARTS 3

static inline uint32_t stg_rope_part_heads(const struct stg_rope_geometry *g,
                                           enum stg_rope_part part) {
  return part == STG_ROPE_Q ? g->heads : g->kv_heads;
}

/** Elements of a packed row. */
static inline int64_t stg_rope_row_elems(const struct stg_rope_geometry *g) {
  return ((int64_t)g->heads + 2 * (int64_t)g->kv_heads) * (int64_t)g->dim;
}

/* Element d of a head is element `first + d * step` of the packed row. */
struct stg_rope_head {
  int64_t first, step;
};

/** Where head `head` of `part` stands in a packed row. */
static inline struct stg_rope_head stg_rope_find_head(const struct stg_rope_geometry *g,
                                                      enum stg_rope_part part, uint32_t head) {
  const int64_t dim = g->dim;
  const int64_t heads_before = part == STG_ROPE_Q   ? 0
                               : part == STG_ROPE_K ? (int64_t)g->heads
                                                    : (int64_t)g->heads + g->kv_heads;
  const int64_t group = g->heads / g->kv_heads;
  switch (g->layout) {
  case STG_ROPE_LAYOUT_GROUPED:
    if (part == STG_ROPE_Q) {
      return (struct stg_rope_head){(head / group * (group + 2) + head % group) * dim, 1};
    }
    return (struct stg_rope_head){(head * (group + 2) + group + (part == STG_ROPE_V ? 1 : 0)) * dim,
                                  1};
  case STG_ROPE_LAYOUT_HEAD_FASTEST:
    return (struct stg_rope_head){heads_before * dim + head, stg_rope_part_heads(g, part)};
  case STG_ROPE_LAYOUT_CONCAT:
  case STG_ROPE_LAYOUT_INTERLEAVED:
    break;
  }
  return (struct stg_rope_head){(heads_before + head) * dim, 1};
}

#endif
