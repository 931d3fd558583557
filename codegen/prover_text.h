/*
 * prover_text.h: the kernel of the proof search as text: limits and a net -> CUDA source + rule.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here. What the kernel is
 * given is in prover_args.h; which base it is, how many queries, how many steps, and how a child is
 * picked are arguments.
 */
#ifndef STG_CODEGEN_PROVER_TEXT_H
#define STG_CODEGEN_PROVER_TEXT_H

#include "codegen/launch_rule.h"
#include "codegen/prover.h"
#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"

#define STG_PROVER_KERNEL_NAME "stg_prover"

/* How products are made; what a product loses at most. */
enum stg_prover_arithmetic {
  STG_PROVER_F32,    /* in float32, fused with their sums */
  STG_PROVER_TF32X3, /* as three of TF32: 2^-21 */
  STG_PROVER_TF32    /* 2^-11 */
};

struct stg_prover_kernel {
  struct stg_prove_limits limits; /* all but `depth` */
  struct stg_prove_net net;       /* all but `epsilon` */
  enum stg_prover_arithmetic arithmetic;
};

/** "f32", "tf32x3" or "tf32". Borrowed. */
const char *stg_prover_arithmetic_name(enum stg_prover_arithmetic arithmetic);

/**
 * Whether there is such a kernel. Widths are even, and that of an atom is no larger than that of
 * hidden layers: others are not held against the reference.
 * @return STG_E_INVALID: a limit or an arithmetic, with its value; STG_E_UNSUPPORTED: a size of the
 *         net.
 */
STG_NODISCARD stg_status stg_prover_check_kernel(const struct stg_prover_kernel *kernel,
                                                 stg_error *reterr);

/**
 * Append the source (without the prelude) and fill the launch rule, whose rows are queries; how
 * many blocks there are is not its, but stg_prover_blocks' to say.
 * @return what stg_prover_check_kernel says.
 */
STG_NODISCARD stg_status stg_prover_generate(const struct stg_prover_kernel *kernel,
                                             struct stg_strbuf *ret_source,
                                             struct stg_launch_rule *ret_rule, stg_error *reterr);

/** Append the hand-written device helpers that go before the generated text. */
void stg_prover_prelude(struct stg_strbuf *out);

#endif
