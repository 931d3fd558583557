/*
 * decode.h: the decode family's geometry: attention of new rows over a cache of fixed size.
 *
 * A row at position p reads positions max(0, p - window + 1) to p of its sequence, in chunks that
 * begin at multiples of `chunk`. Each chunk has its own maximum, sum of weights and weighted sum
 * of V; they are merged in the order of the positions. So a result depends on the row, its
 * sequence, p and the chunk alone: not on who computes which chunk, nor on other rows.
 * Shared by the text, the CPU backend and the oracle.
 */
#ifndef STG_CODEGEN_DECODE_H
#define STG_CODEGEN_DECODE_H

#include "codegen/rope.h"

struct stg_decode_geometry {
  uint32_t heads, kv_heads; /* kv_heads divides heads; head h reads KV head h / (heads/kv_heads) */
  uint32_t dim;             /* even, at most STG_ROPE_MAX_DIM */
  stg_dtype dtype;          /* of q, out and the cache */
  uint32_t chunk;           /* positions, a power of two */
  enum stg_heads_order order; /* of q and out */
  /* what a kernel is made for; the CPU and the oracle are told by each call */
  bool paged;    /* the cache has a block table */
  bool windowed; /* a row reads no more than the positions of a window */
  bool masked;   /* a mask says which positions may be read */
  bool loose;    /* K and V may stand at any element; else they and their strides by 16 bytes,
                    where a head's elements are whole pieces of 16 bytes */
};

#endif
