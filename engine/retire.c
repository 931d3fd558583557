/*
 * retire.c: frames that a host destroyed before the graphs that it captured with them.
 *
 * A replay reads the frame's row map and the records and vectors that this names. So the frame
 * stays with its table, with its snapshot, until the graphs are gone. Nobody says when that is: new
 * and destroyed frames look, and so does a change of slots that needs the records' memory. A step
 * does not: it would wait for the device when memory is freed.
 */
#include "engine/engine.h"
#include "engine/steer.h"

/* The host's graph has its own node of the kernel, which stays with the table: ours may go. */
static void let_go_of_plan(stg_frame *frame) {
  struct stg_plan_table *plans = frame->steer->engine->plans;
  stg_exec_release(plans, frame->exec);
  stg_plan_release(plans, frame->plan);
  frame->exec = NULL;
  frame->plan = NULL;
}

/* A replay writes nothing to staging buffers: what they hold goes at once. */
static void finish_staging(stg_frame *frame) {
  struct stg_record_store store = stg_steer_store(frame->steer);
  const struct stg_held_bytes pinned = {.pinned = frame->held.pinned};
  stg_staging_finish(&frame->staging, &store);
  stg_usage_let_go(&frame->steer->engine->usage, &pinned);
  frame->held.pinned = 0;
}

void stg_frame_retire(stg_frame *frame) {
  stg_steer *steer = frame->steer;
  if (!stg_pins_hold(&steer->pins, frame)) {
    stg_frame_free(frame);
    return;
  }
  finish_staging(frame);
  let_go_of_plan(frame);
  frame->next = steer->retired;
  steer->retired = frame;
}

void stg_frames_collect(stg_steer *steer, bool all) {
  stg_frame **link = &steer->retired;
  while (*link != NULL) {
    stg_frame *frame = *link;
    if (!all && stg_pins_hold(&steer->pins, frame)) {
      link = &frame->next;
    } else {
      *link = frame->next;
      stg_frame_free(frame);
    }
  }
}
