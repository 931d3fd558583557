/*
 * spec_family.h: the families that a workload may be of, and reading one of any of them.
 *
 * What a family's workload has is its reader's alone (workload.h, attention_workload.h,
 * prover_workload.h, components_workload.h).
 */
#ifndef STG_SPECS_SPEC_FAMILY_H
#define STG_SPECS_SPEC_FAMILY_H

#include <stdbool.h>

/* In the order of the table in spec_family.c. */
enum stg_spec_kind {
  STG_SPEC_STEER,
  STG_SPEC_ROPE,       /* split packed QKV rows, rotate, append */
  STG_SPEC_DECODE,     /* attention of new rows over a cache */
  STG_SPEC_STEP,       /* both, and steering, as one graph */
  STG_SPEC_PROVER,     /* queries of a knowledge base, each among corruptions */
  STG_SPEC_COMPONENTS, /* masked low-rank components of rows, and the way back */
  STG_SPEC_KINDS
};

/** The word of a family in "family". */
const char *stg_spec_kind_name(enum stg_spec_kind kind);
bool stg_spec_kind_find(const char *name, enum stg_spec_kind *ret_kind);

#endif
