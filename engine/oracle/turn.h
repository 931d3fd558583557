/*
 * oracle/turn.h: one head of the rope family in float64, and how far float32 may be from it.
 */
#ifndef STG_ENGINE_ORACLE_TURN_H
#define STG_ENGINE_ORACLE_TURN_H

#include "engine/oracle/rope.h"

#define STG_ORACLE_MAX_PAIRS (STG_ROPE_MAX_DIM / 2)

struct stg_oracle_turn {
  const struct stg_rope_geometry *geometry;
  double cosine[STG_ORACLE_MAX_PAIRS], sine[STG_ORACLE_MAX_PAIRS];
  double angle_error[STG_ORACLE_MAX_PAIRS]; /* in units of 2^-23 */
  double log_scale[STG_ORACLE_MAX_PAIRS]; /* power * log(scale) of the frequency; 0 without xPos */
};

void stg_oracle_turn_init(const struct stg_rope_geometry *geometry,
                          const struct stg_oracle_angles *angles, int64_t position, int64_t centre,
                          struct stg_oracle_turn *ret_turn);

/** The first `rot` elements of a head of Q or K; `back`: of a gradient. */
void stg_oracle_turn_head(const struct stg_oracle_turn *turn, enum stg_rope_part part, bool back,
                          const double *head, struct stg_oracle_reference *ret);

/** Whether the eager sequence leaves one result alone, which stg_oracle_turn_eager gives. */
bool stg_oracle_turn_is_exact(const struct stg_rope_geometry *geometry,
                              const struct stg_oracle_angles *angles);
void stg_oracle_turn_eager(const struct stg_oracle_turn *turn, bool back, const double *head,
                           float *ret_head);

#endif
