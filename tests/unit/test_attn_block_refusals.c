/*
 * test_attn_block_refusals.c: what blocks refuse, with which status and in which words; and memory
 * that is short at every place in the life of all that goes with a cache. On the CPU backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/attn_objects.h"

static const int32_t all_of_them[] = {2, 0, 1};

#define BLOCK(change, message)                                                                     \
  REFUSED(good, change, STG_E_INVALID, message, stg_block_create(all.engine, &desc, &block, &error))

static void blocks(void **state) {
  const stg_steer_desc narrow = {.struct_size = sizeof narrow, .hidden_size = 16, .dtype = STG_F32};
  const stg_steer_desc pair = {.struct_size = sizeof pair,
                               .hidden_size = (int64_t)OBJ_ROW,
                               .dtype = STG_F32,
                               .state = STG_STATE_HIDDEN_PLUS_RESIDUAL};
  stg_steer *steer = NULL, *paired = NULL;
  stg_block_desc desc;
  stg_block *block = NULL;
  stg_error lone = STG_ERROR_INIT;
  struct objects all, other;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_open_on(&other, all.engine);
  must(stg_steer_create(all.engine, &narrow, &steer, &lone), &lone);
  must(stg_steer_create(all.engine, &pair, &paired, &lone), &lone);
  const stg_block_desc good = {
      .struct_size = sizeof good, .rope = all.rope, .attend = all.attend, .advance = true};
  BLOCK(desc.struct_size = 1, "stg_block_create: desc is NULL, or struct_size is not 40");
  BLOCK(desc.rope = NULL;
        desc.attend = NULL, "rope, attend: neither has a cache; a block has one of them at least");
  BLOCK(desc.attend = other.attend, "rope, attend: they do not have one cache");
  BLOCK((desc.attend = NULL, desc.steer = steer),
        "steer: it acts on the output of an attend, which is NULL");
  BLOCK(desc.steer = steer, "steer: hidden_size 16 of f32; the attend gives 32 of f32");
  BLOCK(desc.steer = paired,
        "steer: state hidden+residual, 0 probes; a block steers hidden states alone, without "
        "probes, of an attend in STG_ORDER_ROWS_FIRST");
  struct objects far;
  obj_open(&far, STG_BACKEND_CPU);
  must_say(STG_E_INVALID, "rope, attend, steer: one is of another engine",
           stg_block_create(far.engine, &good, &block, &lone), &lone);
  obj_close(&far);
  must_say(STG_E_INVALID, "stg_block_create: engine or ret_block is NULL",
           stg_block_create(all.engine, &good, NULL, &lone), &lone);
  must(stg_steer_destroy(steer, &lone), &lone);
  must(stg_steer_destroy(paired, &lone), &lone);
  obj_close_on(&other);
  obj_close(&all);
}

static void steps_of_blocks(void **state) {
  static const int32_t one[] = {0}, nine[] = {0, -1, -1, -1, -1, -1, -1, -1, -1};
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_open_block(&all);
  must_say(STG_E_INVALID, "stg_block_apply: the block has had no step",
           obj_try_layer(&all, 0, &error), &error);
  must_say(STG_E_INVALID, "stg_block_step: rows is NULL",
           stg_block_step(all.block, NULL, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_step: the rows have had no step",
           stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  obj_set_rows(&all, one, 1);
  must(stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "layer: 2 is not below 2", obj_try_layer(&all, 2, &error), &error);
  obj_set_rows(&all, nine, 9);
  must_say(STG_E_INVALID,
           "stg_block_apply: the rows were set anew, in other buckets; step the block behind them",
           obj_try_layer(&all, 0, &error), &error);
  const stg_block_tensors none = {.struct_size = sizeof none};
  must_say(STG_E_INVALID,
           "stg_block_apply: rope: (nil), attend: (nil); tensors are given of the parts that "
           "there are",
           stg_block_apply(all.block, &none, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_apply: block is NULL, or struct_size is not 40",
           stg_block_apply(NULL, &none, NULL, &error), &error);
  stg_rope_tensors rope = obj_rope_tensors(&all, 0);
  const stg_attend_tensors attend = obj_attend_tensors(&all, 0);
  const stg_block_tensors both = {.struct_size = sizeof both, .rope = &rope, .attend = &attend};
  rope.struct_size = 8;
  must_say(STG_E_INVALID, "stg_block_apply: struct_size of rope is not 104, or of attend not 112",
           stg_block_apply(all.block, &both, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_step: block is NULL",
           stg_block_step(NULL, all.rows, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_plan: block is NULL, or struct_size is not 160",
           stg_block_plan(NULL, NULL, &error), &error);
  obj_close(&all);
}

static void steered_blocks_want_their_frame(void **state) {
  static const char *const ops[] = {"add"};
  static const int32_t map[] = {-1, -1};
  const stg_steer_desc wanted = {.struct_size = sizeof wanted,
                                 .hidden_size = (int64_t)OBJ_ROW,
                                 .dtype = STG_F32,
                                 .ops = ops,
                                 .n_ops = 1};
  const stg_step two = {.struct_size = sizeof two, .rows = 2, .row_map = map};
  const stg_step one = {.struct_size = sizeof one, .rows = 1, .row_map = map};
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  stg_frame *frame = NULL;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  must(stg_steer_create(all.engine, &wanted, &steer, &error), &error);
  must(stg_frame_create(steer, &frame, &error), &error);
  const stg_block_desc desc = {.struct_size = sizeof desc, .attend = all.attend, .steer = steer};
  must(stg_block_create(all.engine, &desc, &all.block, &error), &error);
  obj_set_rows(&all, all_of_them, 3);
  must_say(STG_E_INVALID,
           "stg_block_step: frame: (nil); the block steers, and takes one of its table",
           stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_step: the frame was stepped with -1 rows, rows have 3",
           stg_block_step(all.block, all.rows, frame, NULL, &error), &error);
  must(stg_steer_step(frame, &two, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_block_step: the frame was stepped with 2 rows, rows have 3",
           stg_block_step(all.block, all.rows, frame, NULL, &error), &error);
  obj_set_rows(&all, all_of_them, 2);
  must(stg_block_step(all.block, all.rows, frame, NULL, &error), &error);
  must(stg_steer_step(frame, &one, NULL, &error), &error);
  const stg_attend_tensors attend = obj_attend_tensors(&all, 0);
  const stg_block_tensors tensors = {.struct_size = sizeof tensors, .attend = &attend};
  must_say(STG_E_INVALID, "stg_block_apply: the frame has 1 rows now, rows have 2",
           stg_block_apply(all.block, &tensors, NULL, &error), &error);
  stg_frame_destroy(frame);
  must_say(STG_E_BUSY, "stg_steer_destroy: 1 blocks use the table; destroy them first",
           stg_steer_destroy(steer, &error), &error);
  stg_block_destroy(all.block);
  all.block = NULL;
  must(stg_steer_destroy(steer, &error), &error);
  obj_close(&all);
}

/* Each allocation of the whole life fails in turn; nothing is left behind. */
static void memory_may_be_short_at_every_place(void **state) {
  stg_error error = STG_ERROR_INIT;
  struct objects all = {.engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT)};
  bool failed = true;
  (void)state;
  for (size_t nth = 1; failed; nth++) {
    const stg_kv_desc kv = obj_kv_desc();
    stg_status status;
    all = (struct objects){.engine = all.engine};
    stg_alloc_fail_at(nth);
    status = stg_kv_create(all.engine, &kv, &all.kv, &error);
    if (status == STG_OK) {
      const stg_rope_desc rope = obj_rope_desc(all.kv);
      status = stg_rope_create(all.engine, &rope, &all.rope, &error);
    }
    if (status == STG_OK) {
      const stg_attend_desc attend = obj_attend_desc(all.kv);
      status = stg_attend_create(all.engine, &attend, &all.attend, &error);
    }
    if (status == STG_OK) {
      const stg_rows_desc rows = obj_rows_desc(all.kv);
      status = stg_rows_create(all.engine, &rows, &all.rows, &error);
    }
    if (status == STG_OK) {
      const stg_block_desc block = {
          .struct_size = sizeof block, .rope = all.rope, .attend = all.attend};
      status = stg_block_create(all.engine, &block, &all.block, &error);
    }
    if (status == STG_OK) {
      status = obj_try_rows(&all, all_of_them, 3, &error);
    }
    if (status == STG_OK) {
      status = stg_block_step(all.block, all.rows, NULL, NULL, &error);
    }
    stg_alloc_fail_at(0);
    failed = status != STG_OK;
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(!failed || strstr(error.message, "memory") != NULL);
    obj_close_on(&all);
    assert_true(nth < 1000);
  }
  must(stg_engine_destroy(all.engine, &error), &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks),
      cmocka_unit_test(steps_of_blocks),
      cmocka_unit_test(steered_blocks_want_their_frame),
      cmocka_unit_test(memory_may_be_short_at_every_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
