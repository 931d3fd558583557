/*
 * region.h: a host's own work: its plan, which is a text and a shape without kernels of ours, and
 * its takes: what was recorded for a stream, with the pointers that it was recorded with.
 *
 * region.c runs regions; region_plan.c has their plans, in the table of all plans; region_record.c
 * records takes, region_take.c ends them; region_adopt.c has what hosts captured themselves.
 */
#ifndef STG_ENGINE_REGION_H
#define STG_ENGINE_REGION_H

#include <pthread.h>
#include <stdatomic.h>

#include <steergraph/region.h>

#include "engine/plan_exec.h"
#include "runtime/device.h"

/* Of an engine. The lock is a leaf. */
struct stg_regions {
  pthread_mutex_t lock;
  struct stg_region_take *retired; /* whose last launch may still be in flight */
  struct stg_region_take *dropped; /* of hosts, over, whose tokens nobody has asked for */
  atomic_uint_fast64_t recorded, replays, failures, bytes;
};
/* Of a plan: whether recording failed, so that runs enqueue the work themselves. */
struct stg_region_body {
  pthread_mutex_t lock;
  bool failed;
  bool said; /* the log has it */
  stg_status status;
  char why[sizeof((stg_region_facts *)0)->why];
};
/** NULL is fine. */
void stg_region_body_free(struct stg_region_body *body);

/* What a plan is looked up by: the host's text, which is borrowed, and padded sizes. */
struct stg_region_name {
  const char *text;
  struct stg_graph_shape shape;
};

/* region_plan.c */

/** STG_E_INVALID unless it can name a region; `function` begins the message. */
STG_NODISCARD stg_status stg_region_name_check(const char *function,
                                               const struct stg_region_name *name,
                                               stg_error *reterr);
/** Its plan, with one more user, made on its first use; stg_plan_release. Any thread. */
STG_NODISCARD stg_status stg_region_plan_acquire(struct stg_plan_table *table,
                                                 const struct stg_region_name *name,
                                                 struct stg_plan **ret_plan, stg_error *reterr);
/** The same of what is there, or NULL. */
struct stg_plan *stg_region_plan_find(struct stg_plan_table *table,
                                      const struct stg_region_name *name);
/** Destroy the plans of a host's text, NULL: of any. STG_E_BUSY where one is in use, and all stay.
 */
STG_NODISCARD stg_status stg_region_plans_forget(struct stg_plan_table *table, const char *text,
                                                 stg_error *reterr);

/* region_record.c; all of it under the exec's lock, but for stg_region_enqueue. */

/**
 * Record a call's work into an exec that has no graph. On failure it has none still.
 * @return as stg_record, and STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_region_take_make(struct stg_engine *engine, struct stg_exec *exec,
                                              const stg_region_call *call, stg_error *reterr);
/** STG_E_INVALID unless the pointers of a call are those that were recorded, as far as they may not
 * move. `*ret_again`: one moved that asks for a new record. */
STG_NODISCARD stg_status stg_region_take_check(const struct stg_exec *exec,
                                               const stg_region_call *call, bool *ret_again,
                                               stg_error *reterr);
/** Record again, for such a call. On failure the exec has no graph any more. */
STG_NODISCARD stg_status stg_region_take_again(struct stg_engine *engine, struct stg_exec *exec,
                                               const stg_region_call *call, stg_error *reterr);
/** Copy in, launch, copy out. */
STG_NODISCARD stg_status stg_region_take_launch(struct stg_engine *engine, struct stg_exec *exec,
                                                const stg_region_call *call, stg_error *reterr);
/** A call's work on a stream of the host's, on the call's own pointers. */
STG_NODISCARD stg_status stg_region_enqueue(struct stg_engine *engine, const stg_region_call *call,
                                            stg_stream stream, stg_error *reterr);

/* region_take.c */

void stg_regions_init(struct stg_regions *regions);
/** End all that is retired, and wait for it. Tokens that nobody asked for go. */
void stg_regions_finish(struct stg_engine *engine);
/** End a take, at once or when its last launch is known to have passed. NULL is fine. */
void stg_region_take_retire(struct stg_engine *engine, struct stg_region_take *take);
/** Under the exec's lock: leave nothing of it but its place. */
void stg_region_take_drop(struct stg_engine *engine, struct stg_exec *exec);
/** End what is retired and over; with `wait`, all. */
void stg_region_takes_collect(struct stg_engine *engine, bool wait);
/** Move tokens of what was adopted and is over out of the list; returns how many. */
size_t stg_region_tokens_take(struct stg_regions *regions, uint64_t *tokens, size_t capacity);

#endif
