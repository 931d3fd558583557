/*
 * window.h: where in a sequence a slot acts: phase and positions, checked, and asked row by row on
 * the CPU. The kernel asks the same of the same numbers (prelude/record.cuh).
 */
#ifndef STG_ENGINE_WINDOW_H
#define STG_ENGINE_WINDOW_H

#include <steergraph/steer.h>

#include "engine/steer_decl.h"

/* A window as a record's head has it. */
struct stg_window_rule {
  uint32_t phases;  /* STG_RECORD_PROMPT, STG_RECORD_GENERATION */
  int32_t from, to; /* [from, to), negative: from the end of the prompt */
};

/** The rule of a slot that acts everywhere. */
struct stg_window_rule stg_window_everywhere(void);
bool stg_window_is_everywhere(const struct stg_window_rule *rule);

/**
 * Check a slot's window (NULL: everywhere) against what the table declares. STG_E_NOT_DECLARED for
 * a window in a table without, STG_E_INVALID with the field and the value.
 */
STG_NODISCARD stg_status stg_window_resolve(const struct stg_steer_decl *decl,
                                            const stg_window *window,
                                            struct stg_window_rule *ret_rule, stg_error *reterr);

/** Whether a row acts that is at `position` of a sequence whose prompt has `prompt_len` rows. */
bool stg_window_holds(const struct stg_window_rule *rule, int32_t position, int32_t prompt_len);

/**
 * Check that a step brings positions exactly where the table declares windows, and on the host that
 * they are positions.
 */
STG_NODISCARD stg_status stg_window_check_step(const struct stg_steer_decl *decl,
                                               const stg_step *step, stg_error *reterr);

#endif
