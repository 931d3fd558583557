/*
 * cpu/turn.h: what the heads of one row are turned by, and the turning of one head.
 *
 * The bits are those of any machine, GPUs included: sincos and exp are the prelude's own text, and
 * products and sums are rounded where codegen/rope.h says, nowhere contracted.
 */
#ifndef STG_ENGINE_CPU_TURN_H
#define STG_ENGINE_CPU_TURN_H

#include <stddef.h>

#include "codegen/rope.h"
#include "codegen/rope_freq.h"

/* Whole lanes, so that no loop over pairs has a tail. */
#define STG_CPU_MAX_PAIRS (STG_ROPE_MAX_DIM / 2)

/* Of the first and of the second elements of the pairs. */
struct stg_cpu_pairs {
  float first[STG_CPU_MAX_PAIRS], second[STG_CPU_MAX_PAIRS];
};

struct stg_cpu_turn {
  const struct stg_rope_geometry *geometry;
  size_t padded; /* pairs in whole lanes; zeros past them */
  float cosine[STG_CPU_MAX_PAIRS], sine[STG_CPU_MAX_PAIRS];
  struct stg_cpu_pairs scale[2]; /* with xPos: of q and, inverse, of k */
};

/** Set up for the row at `position`; `centre`: where the scale of xPos is 1. */
void stg_cpu_turn_init(const struct stg_rope_geometry *geometry,
                       const struct stg_rope_angles *angles, int64_t position, int64_t centre,
                       struct stg_cpu_turn *ret_turn);

/** Turn a head of `part`, Q or K, in place: `dim` elements of the geometry's type, aligned to it.
 */
void stg_cpu_turn_head(const struct stg_cpu_turn *turn, enum stg_rope_part part, void *head);

/** The same for a gradient: the transpose of what stg_cpu_turn_head does to a head. */
void stg_cpu_turn_head_back(const struct stg_cpu_turn *turn, enum stg_rope_part part, void *head);

#endif
