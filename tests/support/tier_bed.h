/*
 * tier_bed.h: an engine on a device of the host whose compiler does what a test says, tables that
 * are steered by `add` or by a user op that does the same, and what to wait for. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_TIER_BED_H
#define STG_TESTS_SUPPORT_TIER_BED_H

#include <string.h>
#include <time.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define HIDDEN 8
#define ROWS 4

#define ALL "steer v1"              /* of every signature */
#define GENERAL "ops=ablation,add," /* of one with all built-ins */
#define SUBSET "ops=add chain"      /* of one that declares `add` alone */
#define USER "user:"

/* Like `add`, which is what the device of the host runs. */
static const char lean[] =
    "{\"op\": \"lean\", \"vectors\": [\"v\"], \"params\": {\"scale\": {\"default\": 1}},"
    " \"body\": [\"h += (scale * 1) * v\"]}";

static const char *const only_add[] = {"add"};
static const char *const with_lean[] = {"add", "lean"};

static inline void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static inline void expect(stg_status wanted, const char *part, stg_status status,
                          const stg_error *error) {
  if (status != wanted || strstr(error->message, part) == NULL) {
    fail_msg("%s: '%s', not %s with '%s'", stg_status_name(status), error->message,
             stg_status_name(wanted), part);
  }
}

struct bed {
  stg_engine *engine;
  stg_vector ones;
  float hidden[ROWS][HIDDEN];
};

static inline void open_bed_with(struct bed *bed, const stg_options *options) {
  static const float ones[HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  stg_error error = STG_ERROR_INIT;
  *bed = (struct bed){0};
  ok(stg_engine_create(options, &bed->engine, &error), &error);
  ok(stg_op_register(bed->engine, "lean.json", lean, sizeof lean - 1, &error), &error);
  ok(stg_vector_intern(bed->engine, STG_F32, ones, HIDDEN, &bed->ones, &error), &error);
}

static inline void open_bed(struct bed *bed, stg_compile_mode mode, uint32_t threads,
                            uint32_t queue) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.compile = mode;
  options.compile_threads = threads;
  options.compile_queue = queue;
  open_bed_with(bed, &options);
}

static inline void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_vector_release(bed->engine, bed->ones, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
}

static inline stg_status try_table(struct bed *bed, const char *const *ops, size_t n_ops,
                                   stg_steer **ret_steer, stg_error *reterr) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .ops = ops,
                               .n_ops = n_ops};
  return stg_steer_create(bed->engine, &desc, ret_steer, reterr);
}

static inline stg_steer *open_table(struct bed *bed, const char *const *ops, size_t n_ops) {
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  ok(try_table(bed, ops, n_ops, &steer, &error), &error);
  return steer;
}

static inline void close_table(stg_steer *steer) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_destroy(steer, &error), &error);
}

static inline stg_frame *open_frame(stg_steer *steer) {
  stg_error error = STG_ERROR_INIT;
  stg_frame *frame = NULL;
  ok(stg_frame_create(steer, &frame, &error), &error);
  return frame;
}

static inline stg_status try_slot(const struct bed *bed, stg_steer *steer, const char *op,
                                  stg_error *reterr) {
  const stg_op_call call = {.op = op, .vectors = {bed->ones}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  return stg_steer_slot_set(steer, 0, &chain, 1, reterr);
}

static inline void set_slot(const struct bed *bed, stg_steer *steer, const char *op) {
  stg_error error = STG_ERROR_INIT;
  ok(try_slot(bed, steer, op, &error), &error);
}

static inline void step(stg_frame *frame) {
  static const int32_t map[ROWS];
  const stg_step args = {.struct_size = sizeof args, .rows = ROWS, .row_map = map, .longest = 1};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
}

/* All rows must be one more; the kernel must be one of `part`. */
static inline void apply(struct bed *bed, stg_frame *frame, const char *part) {
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->hidden};
  stg_error error = STG_ERROR_INIT;
  const float wanted = bed->hidden[0][0] + 1;
  ok(stg_steer_apply(frame, &args, NULL, &error), &error);
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), NULL, &error), &error);
  for (int r = 0; r < ROWS; r++) {
    for (int j = 0; j < HIDDEN; j++) {
      assert_memory_equal(&wanted, &bed->hidden[r][j], sizeof wanted);
    }
  }
  assert_non_null(strstr(host_device_launched(), part));
}

/* An apply in a stream that captures. */
static inline stg_status try_capture(struct bed *bed, stg_frame *frame, stg_error *reterr) {
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->hidden};
  host_device_say_capturing(true);
  stg_status status = stg_steer_apply(frame, &args, NULL, reterr);
  host_device_say_capturing(false);
  return status;
}

static inline stg_plan_info plan_of(const stg_frame *frame) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  ok(stg_frame_plan(frame, &info, &error), &error);
  return info;
}

static inline stg_stats stats_of(const struct bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->engine, &stats);
  return stats;
}

static inline void pause_a_bit(void) {
  const struct timespec pause = {.tv_nsec = 500000};
  nanosleep(&pause, NULL);
}

static inline void wait_for_swaps(const struct bed *bed, uint64_t count) {
  while (stats_of(bed).kernel_swaps < count) {
    pause_a_bit();
  }
}

static inline void wait_for_rest(const struct bed *bed) {
  while (stats_of(bed).compiles_queued + stats_of(bed).compiles_running > 0) {
    pause_a_bit();
  }
}

#endif
