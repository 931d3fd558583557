/*
 * test_attn_fork.c: a child that was forked with a cache and what goes with it, on a device of the
 * host: every call says so, before any lock, and touches nothing; ending there succeeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/attn.h"
#include "tests/support/attn_objects.h"
#include "tests/support/forked_calls.h"
#include "tests/support/host_device.h"
#include "tests/support/test_fork.h"

static const int32_t all_of_them[] = {2, 0, 1};

#define TOLD(name, call) (forked_is(STG_E_FORKED, name, call, &error))

static bool creates(const struct objects *all) {
  const stg_kv_desc kv_desc = obj_kv_desc();
  const stg_rope_desc rope_desc = obj_rope_desc(all->kv);
  const stg_attend_desc attend_desc = obj_attend_desc(all->kv);
  const stg_rows_desc rows_desc = obj_rows_desc(all->kv);
  const stg_block_desc block_desc = {.struct_size = sizeof block_desc, .rope = all->rope};
  stg_error error = STG_ERROR_INIT;
  stg_kv *kv = NULL;
  stg_rope *rope = NULL;
  stg_attend *attend = NULL;
  stg_rows *rows = NULL;
  stg_block *block = NULL;
  size_t bytes = 0;
  return TOLD("stg_kv_bytes", stg_kv_bytes(all->engine, &kv_desc, &bytes, &error)) &&
         TOLD("stg_kv_create", stg_kv_create(all->engine, &kv_desc, &kv, &error)) &&
         TOLD("stg_rope_create", stg_rope_create(all->engine, &rope_desc, &rope, &error)) &&
         TOLD("stg_attend_create", stg_attend_create(all->engine, &attend_desc, &attend, &error)) &&
         TOLD("stg_rows_create", stg_rows_create(all->engine, &rows_desc, &rows, &error)) &&
         TOLD("stg_block_create", stg_block_create(all->engine, &block_desc, &block, &error));
}

static bool calls(const struct objects *all) {
  const stg_rope_tensors rope = obj_rope_tensors(all, 0);
  const stg_attend_tensors attend = obj_attend_tensors(all, 0);
  const stg_heads_tensors heads = {.struct_size = sizeof heads, .heads = 1};
  const uint32_t seq = 0;
  const int32_t len = 1;
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  return TOLD("stg_kv_set_len", stg_kv_set_len(all->kv, &seq, &len, 1, NULL, &error)) &&
         TOLD("stg_kv_set_blocks", stg_kv_set_blocks(all->kv, 0, 0, &len, 1, NULL, &error)) &&
         TOLD("stg_kv_advance", stg_kv_advance(all->kv, all->rows, NULL, &error)) &&
         TOLD("stg_kv_status", stg_kv_status(all->kv, NULL, NULL, &error)) &&
         TOLD("stg_rows_step_set", obj_try_rows(all, all_of_them, 3, &error)) &&
         TOLD("stg_rope_apply", stg_rope_apply(all->rope, all->rows, &rope, NULL, &error)) &&
         TOLD("stg_rope_backward", stg_rope_backward(all->rope, all->rows, &rope, NULL, &error)) &&
         TOLD("stg_heads_transpose", stg_heads_transpose(all->rope, &heads, NULL, &error)) &&
         TOLD("stg_attend_apply",
              stg_attend_apply(all->attend, all->rows, &attend, NULL, &error)) &&
         TOLD("stg_block_step", stg_block_step(all->block, all->rows, NULL, NULL, &error)) &&
         TOLD("stg_block_apply", obj_try_layer(all, 0, &error)) &&
         TOLD("stg_block_plan", stg_block_plan(all->block, &info, &error));
}

static bool ends(const struct objects *all) {
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(all->block);
  return forked_is(STG_OK, "stg_rows_destroy", stg_rows_destroy(all->rows, &error), &error) &&
         forked_is(STG_OK, "stg_attend_destroy", stg_attend_destroy(all->attend, &error), &error) &&
         forked_is(STG_OK, "stg_rope_destroy", stg_rope_destroy(all->rope, &error), &error) &&
         forked_is(STG_OK, "stg_kv_destroy", stg_kv_destroy(all->kv, &error), &error);
}

static void a_child_is_told_at_every_call(void **state) {
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CUDA);
  obj_open_block(&all);
  obj_step(&all, all_of_them, 3);
  pthread_mutex_lock(&all.kv->lock);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    host_device_reset_calls();
    const bool right = creates(&all) && calls(&all) && ends(&all);
    _exit(right && host_device_calls().all == 0 ? 0 : 1);
  }
  pthread_mutex_unlock(&all.kv->lock);
  assert_true(forked_child_was_right(child));
  obj_step(&all, all_of_them, 3); /* the parent goes on */
  obj_close(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_is_told_at_every_call)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
