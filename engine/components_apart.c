/*
 * components_apart.c: see components_apart.h. It takes no time that rows have a part in: calls are
 * checked each time.
 */
#include "engine/components_apart.h"

#include <stdbool.h>

#include "runtime/base/error.h"

/* Runs of bytes, `step` apart; 0: there is one. */
struct runs {
  uintptr_t at;
  uint64_t extent, width, step;
};

static struct runs runs_of(const struct stg_components_memory *memory) {
  const uint64_t rows = memory->data != NULL ? (uint64_t)memory->rows : 0;
  struct runs runs = {.at = (uintptr_t)memory->data, .width = memory->row_bytes};
  runs.extent = rows > 0 ? (rows - 1) * memory->step_bytes + memory->row_bytes : 0;
  if (rows > 1 && memory->step_bytes > memory->row_bytes) {
    runs.step = memory->step_bytes;
  } else {
    runs.width = runs.extent;
  }
  return runs;
}

static uint64_t common_step(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* By the places that both have in a step that is common to them. Columns of one buffer never share
 * one; rows that do and are apart all the same are refused with the others. */
static bool meets(struct runs a, struct runs b) {
  if (b.at < a.at) {
    const struct runs first = b;
    b = a;
    a = first;
  }
  const uint64_t apart = b.at - a.at;
  if (a.extent == 0 || b.extent == 0 || apart >= a.extent) {
    return false;
  }
  const uint64_t step = common_step(a.step, b.step);
  if (step == 0) {
    return true;
  }
  const uint64_t place = apart % step;
  return place < a.width || place + b.width > step;
}

stg_status stg_components_check_apart(const struct stg_components_memory *written,
                                      const struct stg_components_memory *others, size_t n_others,
                                      stg_error *reterr) {
  const struct runs own = runs_of(written);
  for (size_t i = 0; i < n_others; i++) {
    if (meets(own, runs_of(&others[i]))) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "%s: at %p, it overlaps %s at %p; give it memory of its own",
                           written->name, written->data, others[i].name, others[i].data);
    }
  }
  return STG_OK;
}
