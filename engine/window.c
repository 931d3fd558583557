/*
 * window.c: see window.h.
 */
#include "engine/window.h"

/* No row is at it: a window that ends there has no end. */
#define NO_END INT32_MAX

struct stg_window_rule stg_window_everywhere(void) {
  return (struct stg_window_rule){
      .phases = STG_RECORD_PROMPT | STG_RECORD_GENERATION, .from = 0, .to = NO_END};
}

bool stg_window_is_everywhere(const struct stg_window_rule *rule) {
  const struct stg_window_rule all = stg_window_everywhere();
  return rule->phases == all.phases && rule->from == all.from && rule->to == all.to;
}

static stg_status take_bound(const char *name, int64_t given, int32_t *ret, stg_error *reterr) {
  if (given < INT32_MIN || given > INT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID, "window: %s is %lld, beyond 32 bits", name,
                         (long long)given);
  }
  *ret = (int32_t)given;
  return STG_OK;
}

static stg_status take_phase(stg_phase phase, uint32_t *ret, stg_error *reterr) {
  switch (phase) {
  case STG_PHASE_BOTH:
    return STG_OK;
  case STG_PHASE_PROMPT:
    *ret = STG_RECORD_PROMPT;
    return STG_OK;
  case STG_PHASE_GENERATION:
    *ret = STG_RECORD_GENERATION;
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "window: phase %d is none of both (0), prompt (1), generation (2)",
                       (int)phase);
}

stg_status stg_window_resolve(const struct stg_steer_decl *decl, const stg_window *window,
                              struct stg_window_rule *ret_rule, stg_error *reterr) {
  struct stg_window_rule rule = stg_window_everywhere();
  if (window == NULL) {
    *ret_rule = rule;
    return STG_OK;
  }
  if (window->struct_size != sizeof *window) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_window: struct_size is %zu, this library's is %zu",
                         window->struct_size, sizeof *window);
  }
  if (!decl->windows) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "window: the table declares none; set windows when it is created");
  }
  stg_status status = take_phase(window->phase, &rule.phases, reterr);
  if (status == STG_OK && window->has_from) {
    status = take_bound("from", window->from, &rule.from, reterr);
  }
  if (status == STG_OK && window->has_to) {
    status = take_bound("to", window->to, &rule.to, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  if (rule.to == 0 && rule.from < 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "window: [%d, 0) holds no position; leave out to, and use phase prompt "
                         "for the prompt alone",
                         rule.from);
  }
  if ((rule.from < 0) == (rule.to < 0) && rule.from >= rule.to) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "window: [%d, %d) holds no position; from must be below to", rule.from,
                         rule.to);
  }
  *ret_rule = rule;
  return STG_OK;
}

/* A bound as a position. */
static int64_t resolved(int32_t bound, int32_t prompt_len) {
  return bound < 0 ? (int64_t)bound + prompt_len : bound;
}

bool stg_window_holds(const struct stg_window_rule *rule, int32_t position, int32_t prompt_len) {
  const uint32_t phase = position < prompt_len ? STG_RECORD_PROMPT : STG_RECORD_GENERATION;
  return (rule->phases & phase) != 0 && position >= resolved(rule->from, prompt_len) &&
         position < resolved(rule->to, prompt_len);
}

stg_status stg_window_check_step(const struct stg_steer_decl *decl, const stg_step *step,
                                 stg_error *reterr) {
  const bool given = step->positions != NULL || step->prompt_lens != NULL;
  if (!decl->windows && given) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_step: positions or prompt_lens are given, but the table "
                         "declares no windows");
  }
  if (decl->windows && step->rows > 0 && (step->positions == NULL || step->prompt_lens == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_step: %s is NULL for %lld rows, and the table declares windows",
                         step->positions == NULL ? "positions" : "prompt_lens",
                         (long long)step->rows);
  }
  if (!given || step->on_device) {
    return STG_OK;
  }
  for (int64_t r = 0; r < step->rows; r++) {
    if (step->row_map[r] < 0) {
      continue; /* what is not steered may have any */
    }
    if (step->positions[r] < 0 || step->positions[r] == NO_END) {
      return stg_error_set(reterr, STG_E_INVALID, "positions[%lld]: %d is not in 0..%d",
                           (long long)r, step->positions[r], NO_END - 1);
    }
    if (step->prompt_lens[r] < 0) {
      return stg_error_set(reterr, STG_E_INVALID, "prompt_lens[%lld]: %d is below 0", (long long)r,
                           step->prompt_lens[r]);
    }
  }
  return STG_OK;
}
