/*
 * steer.h: the steer kernel as text: (set of ops, geometry) -> CUDA source + launch rule.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here.
 */
#ifndef STG_CODEGEN_STEER_H
#define STG_CODEGEN_STEER_H

#include <steergraph/dtype.h>

#include "codegen/launch_rule.h"
#include "codegen/op.h"

/* One variant of the kernel. `ops` are sorted by stg_op_compare and without repeats. */
struct stg_steer_geometry {
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;      /* state = hidden + residual */
  bool epilogue;  /* add_rmsnorm, of a pair */
  bool windows;   /* a record may act on some positions alone */
  bool probes;    /* ops may give scalars out */
  bool counters;  /* of each slot at each layer */
  uint32_t turns; /* in which a thread goes through a row: 1 is the decode tile */
  const struct stg_op *const *ops;
  size_t n_ops;
};

#define STG_STEER_KERNEL_NAME "stg_steer"
#define STG_STEER_MAX_HIDDEN ((int64_t)1 << 20)

/*
 * In the kernel's stage stand an epilogue's weight and the first vectors of a chain, as many as the
 * arguments say; behind the stage a chain of chain_words.
 */

/** Threads that share a row: a function of hidden_size alone, which is what makes bits invariant.
 */
uint32_t stg_steer_threads(int64_t hidden_size);

/** Turns of a prefill tile: a power of two; 1 where a row does not fit the registers of fewer
 * threads. */
uint32_t stg_steer_prefill_turns(int64_t hidden_size);

/** Elements of a bank vector in device memory: hidden_size rounded up to whole 8-element chunks. */
int64_t stg_steer_padded(int64_t hidden_size);

/*
 * A chain in device memory, in 32-bit words; what the prelude reads and the engine writes.
 * header[4]: n_ops | n_vectors << 8 | wants_norm << 16; mask of vectors whose dot is read; word of
 * the first op | word of the Gram matrix << 16; words in all. Then the bank rows of the vectors
 * (padded to 4 words); the ops, each {code, first vector, 0, 0, parameters[8]}; gram[n*n].
 */
#define STG_RECORD_HEADER_WORDS 4
#define STG_RECORD_OP_WORDS 12
#define STG_RECORD_PARAM_WORD 4

/* The kernel's one argument: struct stg_steer_args of the prelude, field by field. */
struct stg_steer_args {
  uint64_t hidden, out, residual, row_map, table, records, bank, report, weight;
  int64_t row_stride;
  int32_t rows;
  uint32_t slots, layer, chain_words, flags;
  float epsilon;
  uint32_t stage_words, staged_vectors;
  uint64_t probes;
  int64_t probe_stride;
  uint64_t counts;
  uint32_t layers;
};

/* What is counted of a slot at a layer, in device memory [slots, layers]. */
struct stg_steer_counts {
  uint64_t touched, changed;
  float most;
  uint32_t unused;
};
/*
 * A row map in device memory: this header, then int32 [rows]. Word 0: what the entries are; word 1:
 * how many there are, which may be fewer than the launch's `rows`. With windows word 2 is where the
 * rows' positions begin, in words from the header's first, and word 3 how far behind its position
 * a row's prompt_len stands: 1 where both are pairs, otherwise the length of two lists.
 */
#define STG_MAP_HEADER_WORDS 4
#define STG_MAP_OF_RECORDS 0
#define STG_MAP_OF_SLOTS 1
/*
 * A record holds a chain per layer, each in equal room; word 0 of a chain is 0 where there is none.
 * With windows or counters a head stands before them: the phases that it acts on, [from, to) as
 * int32, negative from the end of the prompt, and the slot whose counters it goes to.
 */
#define STG_RECORD_HEAD_WORDS 4
#define STG_RECORD_NO_SLOT UINT32_MAX /* it is not counted */
#define STG_RECORD_PROMPT 1u
#define STG_RECORD_GENERATION 2u
#define STG_STEER_IN_PLACE 1u
#define STG_STEER_ALIGNED 2u /* every row and the weight by 16 bytes, and whole chunks in a row */

/** Append the source (without the prelude) and fill the launch rule. */
STG_NODISCARD stg_status stg_steer_generate(const struct stg_steer_geometry *geometry,
                                            struct stg_strbuf *ret_source,
                                            struct stg_launch_rule *ret_rule, stg_error *reterr);

/** Append the hand-written device helpers that go before the generated text. */
void stg_steer_prelude(struct stg_strbuf *out);

#endif
