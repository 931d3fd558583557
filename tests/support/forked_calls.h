/*
 * forked_calls.h: every public call that takes what an engine made, for a child that was forked
 * with it. A child asserts nothing: it says which call was wrong, and ends.
 */
#ifndef STG_TESTS_SUPPORT_FORKED_CALLS_H
#define STG_TESTS_SUPPORT_FORKED_CALLS_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/steergraph.h>

/* What the parent made: a table of 8 elements float32 and a slot 0 with `add`, stepped once. */
struct forked_objects {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  stg_vector vector;
  float *hidden; /* memory that an apply may work on */
};
#define FORKED_HIDDEN 8
/* Beyond it a child hangs, and is killed. */
#define FORKED_SECONDS 60

static inline bool forked_is(stg_status wanted, const char *call, stg_status status,
                             const stg_error *error) {
  if (status != wanted) {
    fprintf(stderr, "%s in a child: %s: %s\n", call, stg_status_name(status), error->message);
  }
  return status == wanted;
}

/** Whether all calls of the engine and of its table give `wanted`. */
static inline bool forked_table_calls(stg_status wanted, struct forked_objects *all) {
  static const char op[] = "{\"op\": \"twice\", \"vectors\": [], \"params\": {},"
                           " \"body\": [\"h = 2 * h\"]}";
  static const float ones[FORKED_HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  const stg_op_call call = {.op = "add", .vectors = {all->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const stg_steer_desc desc = {
      .struct_size = sizeof desc, .hidden_size = FORKED_HIDDEN, .dtype = STG_F32};
  const float scale = 2;
  unsigned char digest[16];
  size_t bytes = 0;
  stg_vector vector = 0;
  stg_steer *steer = NULL;
  stg_error error = STG_ERROR_INIT;
#define IS(call) forked_is(wanted, #call, call, &error)
  return IS(stg_op_register(all->engine, "twice.json", op, sizeof op - 1, &error)) &&
         IS(stg_vector_intern(all->engine, STG_F32, ones, FORKED_HIDDEN, &vector, &error)) &&
         IS(stg_vector_release(all->engine, all->vector, &error)) &&
         IS(stg_steer_bytes(all->engine, &desc, &bytes, &error)) &&
         IS(stg_steer_create(all->engine, &desc, &steer, &error)) &&
         IS(stg_steer_slot_set(all->steer, 0, &chain, 1, &error)) &&
         IS(stg_steer_set_params(all->steer, 0, 0, 0, &scale, 1, &error)) &&
         IS(stg_steer_digest(all->steer, 0, digest, &error)) &&
         IS(stg_steer_slot_clear(all->steer, 0, &error));
#undef IS
}

/** The same of manifests and counters; where the child may call, of what it then cannot have. */
static inline bool forked_record_calls(stg_status wanted, struct forked_objects *all) {
  static const char manifest[] = "{\"steergraph\": 1, \"manifest\": []}";
  const stg_status no_folder = wanted == STG_OK ? STG_E_IO : wanted;
  const stg_status no_counters = wanted == STG_OK ? STG_E_NOT_DECLARED : wanted;
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  return forked_is(wanted, "stg_warm",
                   stg_warm(all->engine, NULL, manifest, sizeof manifest - 1, NULL, NULL, &error),
                   &error) &&
         forked_is(no_folder, "stg_traffic_save",
                   stg_traffic_save(all->engine, "no/such/folder/traffic.json", &error), &error) &&
         forked_is(no_counters, "stg_steer_counters",
                   stg_steer_counters(all->steer, 0, 0, NULL, &counters, &error), &error);
}

/** The same of frames, and of what goes to a stream. */
static inline bool forked_frame_calls(stg_status wanted, struct forked_objects *all) {
  static const int32_t map[] = {0};
  static const int64_t length = 1;
  const stg_op_call call = {.op = "add", .vectors = {all->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const stg_step step = {.struct_size = sizeof step, .rows = 1, .row_map = map};
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = all->hidden};
  const stg_once once = {.struct_size = sizeof once,
                         .apply = apply,
                         .rows = 1,
                         .n_requests = 1,
                         .lengths = &length,
                         .chains = &chain};
  stg_frame *frame = NULL;
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_device_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
#define IS(call) forked_is(wanted, #call, call, &error)
  return IS(stg_frame_create(all->steer, &frame, &error)) &&
         IS(stg_steer_step(all->frame, &step, NULL, &error)) &&
         IS(stg_steer_apply(all->frame, &apply, NULL, &error)) &&
         IS(stg_steer_once(all->steer, &once, NULL, &error)) &&
         IS(stg_frame_plan(all->frame, &plan, &error)) &&
         IS(stg_device_status(all->steer, NULL, &report, &error));
#undef IS
}

/** Counters are not filled, and whatever the parent made can be destroyed, in its order. */
static inline bool forked_ends(struct forked_objects *all) {
  stg_stats stats = {.struct_size = sizeof stats, .steps = 77};
  stg_error error = STG_ERROR_INIT;
  stg_engine_stats(all->engine, &stats);
  if (stats.steps != 77) {
    fprintf(stderr, "a child was given its parent's counters\n");
    return false;
  }
  stg_frame_destroy(all->frame);
  return forked_is(STG_OK, "stg_steer_destroy", stg_steer_destroy(all->steer, &error), &error) &&
         forked_is(STG_OK, "stg_engine_destroy", stg_engine_destroy(all->engine, &error), &error);
}

/** In the parent: whether the child ended well. */
static inline bool forked_child_was_right(pid_t child) {
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

#endif
