/*
 * oracle/window.h: where in a sequence a slot acts, for who tells the oracle which rows are
 * steered.
 */
#ifndef STG_ENGINE_ORACLE_WINDOW_H
#define STG_ENGINE_ORACLE_WINDOW_H

#include <steergraph/steer.h>

/** Whether the window (NULL: everywhere) has the row at `position` of a sequence with `prompt_len`
 * rows of prompt. */
bool stg_oracle_in_window(const stg_window *window, int64_t position, int64_t prompt_len);

#endif
