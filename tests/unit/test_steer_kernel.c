/*
 * test_steer_kernel.c: what a request for a steer kernel says of its launches.
 */
#include "engine/steer_decl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/ops.h"

#define HIDDEN 4096
#define VECTOR_BYTES (2 * HIDDEN) /* bf16; a weight has as many */

/* The request of a tile, with or without a weight in the stage. */
static void expect_stage(struct stg_op_table *ops, bool epilogue, enum stg_tile tile) {
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = HIDDEN,
      .dtype = STG_BF16,
      .state = epilogue ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN,
      .epilogue = epilogue ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE,
      .epsilon = epilogue ? 1e-6f : 0.0f,
  };
  struct stg_steer_decl decl;
  struct stg_kernel_text kernel;
  assert_int_equal(stg_steer_decl_init(&desc, ops, &decl, NULL), STG_OK);
  assert_int_equal(stg_steer_kernel_init(&decl, tile, "sm_90", NULL, &kernel, NULL), STG_OK);
  const struct stg_launch_rule *rule = &kernel.rule;
  const uint32_t weights = epilogue ? 1 : 0;
  assert_int_equal(kernel.request.threads, rule->threads);
  assert_true(rule->staged < rule->wide_staged);
  assert_int_equal(kernel.request.stage_bytes, VECTOR_BYTES * (weights + rule->staged));
  assert_int_equal(kernel.request.wide_stage_bytes, VECTOR_BYTES * (weights + rule->wide_staged));
  stg_kernel_text_finish(&kernel);
  stg_steer_decl_finish(&decl);
}

static void says_what_its_launches_stage(void **state) {
  struct stg_op_table *ops = NULL;
  (void)state;
  assert_int_equal(stg_op_table_create(&ops, NULL), STG_OK);
  for (int tile = 0; tile < STG_TILE_COUNT; tile++) {
    expect_stage(ops, false, (enum stg_tile)tile);
    expect_stage(ops, true, (enum stg_tile)tile);
  }
  stg_op_table_destroy(ops);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_what_its_launches_stage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
