/*
 * workload_window.c: the members "phase" and "window" of a slot: where in a sequence it acts.
 *
 * A slot that acts everywhere has no window, however that is written. Knows nothing of batches.
 */
#include <inttypes.h>
#include <string.h>

#include "specs/workload_reader.h"

static stg_status read_phase(struct stg_workload_reader *reader, const struct stg_json *slot,
                             struct stg_spec_window *window) {
  struct stg_json member;
  const char *text = NULL;
  if (!stg_json_find(slot, "phase", &member)) {
    return STG_OK;
  }
  stg_status status = stg_json_string(&member, &text, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  if (strcmp(text, "prompt") == 0) {
    window->phase = STG_SPEC_PHASE_PROMPT;
  } else if (strcmp(text, "generation") == 0) {
    window->phase = STG_SPEC_PHASE_GENERATION;
  } else if (strcmp(text, "both") != 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "'%.40s' is not a phase; use 'prompt', 'generation' or 'both'", text);
  }
  return STG_OK;
}

static stg_status read_bound(struct stg_workload_reader *reader, const struct stg_json *at,
                             bool *ret_given, int64_t *ret_bound) {
  if (stg_json_is_null(at)) {
    return STG_OK;
  }
  *ret_given = true;
  return stg_json_int(at, INT32_MIN, INT32_MAX, ret_bound, reader->spec.err);
}

static stg_status read_bounds(struct stg_workload_reader *reader, const struct stg_json *slot,
                              struct stg_spec_window *window) {
  struct stg_json list;
  struct stg_json item;
  if (!stg_json_find(slot, "window", &list)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_array(&list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(&list);
  if (n != 2) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                          "%zu bounds; a window is [from, to], each a position or null", n);
  }
  stg_json_first(&list, &item);
  status = read_bound(reader, &item, &window->has_from, &window->from);
  if (status == STG_OK) {
    stg_json_next(&item);
    status = read_bound(reader, &item, &window->has_to, &window->to);
  }
  if (status == STG_OK && window->has_to && window->to == 0 && window->from < 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                          "[%" PRId64 ", 0) holds no position; write null for 0, and phase "
                          "'prompt' for the prompt alone",
                          window->from);
  }
  const bool one_sign = (window->from < 0) == (window->to < 0);
  if (status == STG_OK && window->has_to && one_sign && window->from >= window->to) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                            "[%" PRId64 ", %" PRId64 ") holds no position; from must be below to",
                            window->from, window->to);
  }
  return status;
}

stg_status stg_spec_read_window(struct stg_workload_reader *reader, const struct stg_json *slot,
                                const struct stg_spec_window **ret_window) {
  struct stg_spec_window window = {.phase = STG_SPEC_PHASE_BOTH};
  stg_status status = read_phase(reader, slot, &window);
  if (status == STG_OK) {
    status = read_bounds(reader, slot, &window);
  }
  if (status != STG_OK ||
      (window.phase == STG_SPEC_PHASE_BOTH && window.from == 0 && !window.has_to)) {
    return status;
  }
  *ret_window = stg_arena_memdup(&reader->workload->arena, &window, sizeof window);
  return stg_arena_status(&reader->workload->arena, reader->spec.err);
}
