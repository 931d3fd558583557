/*
 * test_attn_threads.c: threads that step sequences of their own in one cache, each with its rows
 * and block, while another asks the cache for its status. On the CPU backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "tests/support/attn_objects.h"

#define THREADS 2
#define STEPS 20 /* more than there is room for */

struct worker {
  struct objects all; /* of which cache, rope and attend are shared */
  int32_t seq;
  bool failed;
};

static void *work(void *user) {
  struct worker *worker = user;
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < STEPS && !worker->failed; i++) {
    stg_status status = obj_try_rows(&worker->all, &worker->seq, 1, &error);
    if (status == STG_OK) {
      status = stg_block_step(worker->all.block, worker->all.rows, NULL, NULL, &error);
    }
    for (uint32_t layer = 0; layer < OBJ_LAYERS && status == STG_OK; layer++) {
      status = obj_try_layer(&worker->all, layer, &error);
    }
    worker->failed = status != STG_OK;
  }
  return NULL;
}

/* Their own rows, block and tensors. */
static void open_worker(struct worker *worker, const struct objects *all, int32_t seq) {
  const stg_rows_desc rows = obj_rows_desc(all->kv);
  stg_error error = STG_ERROR_INIT;
  *worker = (struct worker){.all = *all, .seq = seq};
  must(stg_rows_create(all->engine, &rows, &worker->all.rows, &error), &error);
  worker->all.qkv = obj_floats(all, OBJ_MAX_ROWS * OBJ_PACKED);
  worker->all.q = obj_floats(all, OBJ_MAX_ROWS * OBJ_ROW);
  worker->all.out = obj_floats(all, OBJ_MAX_ROWS * OBJ_ROW);
  obj_open_block(&worker->all);
}

static void close_worker(struct worker *worker) {
  stg_error error = STG_ERROR_INIT;
  assert_false(worker->failed);
  stg_block_destroy(worker->all.block);
  must(stg_rows_destroy(worker->all.rows, &error), &error);
  stg_mem_free(worker->all.engine, worker->all.qkv);
  stg_mem_free(worker->all.engine, worker->all.q);
  stg_mem_free(worker->all.engine, worker->all.out);
}

static void sequences_of_threads_do_not_meet(void **state) {
  struct objects all;
  struct worker workers[THREADS];
  pthread_t threads[THREADS];
  uint64_t refused = 0;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  for (int i = 0; i < THREADS; i++) {
    open_worker(&workers[i], &all, i);
    assert_int_equal(0, pthread_create(&threads[i], NULL, work, &workers[i]));
  }
  for (int i = 0; i < 50; i++) {
    stg_kv_report report = {.struct_size = sizeof report};
    stg_error error = STG_ERROR_INIT;
    const stg_status status = stg_kv_status(all.kv, NULL, &report, &error);
    assert_true(status == STG_OK || status == STG_E_KV_FULL);
    refused += report.full_rows;
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(0, pthread_join(threads[i], NULL));
    close_worker(&workers[i]);
  }
  stg_kv_report report = {.struct_size = sizeof report};
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_error error = STG_ERROR_INIT;
  const stg_status status = stg_kv_status(all.kv, NULL, &report, &error);
  assert_true(status == STG_OK || status == STG_E_KV_FULL);
  refused += report.full_rows;
  assert_int_equal((uint64_t)THREADS * (STEPS - OBJ_CAPACITY) * OBJ_LAYERS, refused);
  assert_int_equal(refused, obj_stats(&all).kv_rows_refused);
  stg_kv_get_tensors(all.kv, &tensors);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(OBJ_CAPACITY, tensors.len[i]);
  }
  obj_close(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sequences_of_threads_do_not_meet)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
