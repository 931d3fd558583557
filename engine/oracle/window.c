/*
 * oracle/window.c: whether a row is to be steered at all, from the words of the public header.
 */
#include "engine/oracle/window.h"

static int64_t from_start(int64_t bound, int64_t prompt_len) {
  const int64_t position = bound < 0 ? prompt_len + bound : bound;
  return position < 0 ? 0 : position;
}

bool stg_oracle_in_window(const stg_window *window, int64_t position, int64_t prompt_len) {
  if (window == NULL) {
    return true;
  }
  const bool is_prompt = position < prompt_len;
  if (window->phase == STG_PHASE_PROMPT && !is_prompt) {
    return false;
  }
  if (window->phase == STG_PHASE_GENERATION && is_prompt) {
    return false;
  }
  if (window->has_from && position < from_start(window->from, prompt_len)) {
    return false;
  }
  return !window->has_to || position < from_start(window->to, prompt_len);
}
