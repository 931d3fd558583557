/*
 * components_text.h: the kernels of the components family as text: what a launch does -> CUDA
 * source
 * + rule.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here. What kernels are
 * given is in components_args.h.
 */
#ifndef STG_CODEGEN_COMPONENTS_TEXT_H
#define STG_CODEGEN_COMPONENTS_TEXT_H

#include <stddef.h>

#include "codegen/components.h"
#include "codegen/launch_rule.h"
#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"

/* Sizes that one launch takes. */
#define STG_COMPONENTS_MAX_WIDTH 512U
#define STG_COMPONENTS_MAX_COMPONENTS 1048576U

/* What a launch computes. */
enum stg_components_work {
  STG_COMPONENTS_APPLY,   /* y; or turned dx, and dd */
  STG_COMPONENTS_WEIGHTS, /* parts of the weights' gradients, and dm of rows */
  STG_COMPONENTS_SUM,     /* gradients of the weights, from their parts */
};

/* Another choice than the family's, of an apply of its `tile`; zeros: the same. No bit depends on
 * it. With `rows`, 16 or 32, of 16-bit types alone: a warp has so many rows of the result in whole,
 * and of their intermediate `columns` at once, in registers. With `chunk` the ring has that, and so
 * many stages. */
struct stg_components_choice {
  uint32_t rows, columns;
  uint32_t chunk, stages;
};

struct stg_components_kernel {
  enum stg_components_work work;
  struct stg_components_geometry geometry;
  uint32_t sm; /* of the architecture, as 90: how much shared memory there is */
  /* of an apply */
  bool turned;
  uint32_t tile; /* rows of a block at most: 32, 64 or 128. No bit depends on it. */
  struct stg_components_choice choice;
};

/** The tile that suits calls of up to so many rows. */
uint32_t stg_components_tile_of(int64_t max_rows);

/** Blocks of weights: those of each span of rows. */
int64_t stg_components_weights_blocks(const struct stg_components_kernel *kernel, int64_t rows);

/** Blocks of a sum. `shared_dm`: as stg_components_parts_of has it. Fewer than 2^31, where parts
 * fit memory. */
int64_t stg_components_sum_blocks(const struct stg_components_geometry *geometry, int64_t rows,
                                  int64_t share, bool shared_dm);

/** The entry point of a work. Borrowed. */
const char *stg_components_kernel_name(enum stg_components_work work);
/** Bytes of its one argument. */
size_t stg_components_args_bytes(enum stg_components_work work);

/** Append the source (without the prelude) and fill the launch rule: an apply has a block for
 * each rows_per_block rows, weights those of stg_components_weights_blocks, a sum those of
 * stg_components_sum_blocks. STG_E_INVALID: a member, with its value.
 * STG_E_UNSUPPORTED: float32 for which the architecture has no room, or a choice that is not to be
 * had. */
STG_NODISCARD stg_status stg_components_generate(const struct stg_components_kernel *kernel,
                                                 struct stg_strbuf *ret_source,
                                                 struct stg_launch_rule *ret_rule,
                                                 stg_error *reterr);

/** Whether the kernel's float32 have room in the shared memory of its architecture, and what it
 * chooses has; those of 16 bits always do. For kernels that are right otherwise. */
bool stg_components_has_room(const struct stg_components_kernel *kernel);

/** Append the hand-written device helpers that go before the generated text. */
void stg_components_prelude(enum stg_components_work work, struct stg_strbuf *out);

#endif
