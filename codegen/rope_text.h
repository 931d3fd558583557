/*
 * rope_text.h: the kernels of the rope family as text: what a launch does -> CUDA source + rule.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here. What kernels are
 * given is in rope_args.h.
 */
#ifndef STG_CODEGEN_ROPE_TEXT_H
#define STG_CODEGEN_ROPE_TEXT_H

#include <stddef.h>

#include "codegen/launch_rule.h"
#include "codegen/rope.h"
#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"

#define STG_ROPE_MAX_HEADS 1024U

/* Where K and V go. */
enum stg_rope_sink {
  STG_ROPE_SINK_OUT, /* to tensors, as q */
  STG_ROPE_SINK_DENSE,
  STG_ROPE_SINK_PAGED,
};

struct stg_rope_kernel {
  enum stg_rope_work work;
  /* of a transpose: dim and dtype; of an advance: nothing */
  struct stg_rope_geometry geometry;
  /* of a rotation */
  enum stg_rope_sink sink;
  bool table;    /* angles are read from a table */
  bool backward; /* gradients; the sink is out */
};

/** The entry point of a work. Borrowed. */
const char *stg_rope_kernel_name(enum stg_rope_work work);
/** Bytes of its one argument. */
size_t stg_rope_args_bytes(enum stg_rope_work work);

/** Append the source (without the prelude) and fill the launch rule. STG_E_INVALID: a member of the
 * geometry, with its value. */
STG_NODISCARD stg_status stg_rope_generate(const struct stg_rope_kernel *kernel,
                                           struct stg_strbuf *ret_source,
                                           struct stg_launch_rule *ret_rule, stg_error *reterr);

/** Append the hand-written device helpers that go before the generated text. */
void stg_rope_prelude(enum stg_rope_work work, struct stg_strbuf *out);

#endif
