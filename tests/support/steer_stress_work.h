/*
 * steer_stress_work.h: what a thread of the stress has beside its counts, shared by the files of
 * it: the slots (steer_stress_slots.c), the rows (steer_stress_rows.c), and the rounds.
 */
#ifndef STG_TESTS_SUPPORT_STEER_STRESS_WORK_H
#define STG_TESTS_SUPPORT_STEER_STRESS_WORK_H

#include "tests/support/steer_stress.h"

#define STRESS_STREAMS 2

struct stress_declaration {
  unsigned kinds;  /* of ops, a mask */
  stg_dtype dtype; /* rows of f32 are known by hand, others are the oracle's */
};
extern const struct stress_declaration stress_declarations[STRESS_TABLES];

/* A table as a thread has it: its frame, its slots, and what it put there. */
struct stress_place {
  stg_steer *steer;
  stg_frame *frame;
  const struct stress_declaration *declared;
  uint32_t first_slot;
  struct stress_chain shown[STRESS_OWN_SLOTS][STRESS_LAYERS];
};

struct stress_work {
  struct stress_worker *worker;
  stg_engine *engine;
  uint64_t random;
  struct stress_place shared[STRESS_SHARED];
  stg_stream streams[STRESS_STREAMS]; /* NULL on the CPU */
  void *on_hidden, *on_out;           /* of the engine's memory */
  int32_t row_map[STRESS_ROWS];
};

static inline bool stress_is_exact(const struct stress_place *place) {
  return place->declared->dtype == STG_F32;
}

/** Whether `status` is good; the first that is not is kept in words. */
bool stress_good(struct stress_work *work, const char *what, stg_status status,
                 const stg_error *error);

/** Set, change or clear some of the thread's slots. */
bool stress_change_slots(struct stress_work *work, struct stress_place *place);

/** A step and an apply of random rows, and whether they came out right. */
bool stress_run_rows(struct stress_work *work, struct stress_place *place);
/** One row by a one-shot call, on a table of exact chains. */
bool stress_run_once(struct stress_work *work, const struct stress_place *place);

/** Intern the vectors of a chain, and make its calls; `held` grows by what is to be released. */
struct stress_held {
  stg_vector vectors[STRESS_LAYERS * STRESS_MAX_OPS * STRESS_CALL_VECTORS];
  size_t count;
};
bool stress_make_calls(struct stress_work *work, const struct stress_place *place,
                       const struct stress_chain *chain, stg_op_call *ret_calls,
                       struct stress_held *held);
bool stress_release(struct stress_work *work, const struct stress_held *held);

#endif
