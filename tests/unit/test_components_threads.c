/*
 * test_components_threads.c: threads that share components: each call on tensors of its own, and
 * plans of either direction. On the CPU backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "tests/support/components_objects.h"

#define THREADS 3
#define CALLS 8

struct worker {
  stg_components *components;
  struct components_case c;
  stg_components_tensors tensors;
  stg_components_grads grads;
  const char *plans[2]; /* of the last round */
  bool failed;
};

static stg_status run_once(struct worker *worker, stg_error *reterr) {
  stg_status status = stg_components_apply(worker->components, &worker->tensors, NULL, reterr);
  if (status == STG_OK) {
    status =
        stg_components_back(worker->components, &worker->tensors, &worker->grads, NULL, reterr);
  }
  for (int i = 0; i < 2 && status == STG_OK; i++) {
    stg_plan_info info = {.struct_size = sizeof info};
    status = stg_components_plan(worker->components, worker->tensors.rows, i == 1, &info, reterr);
    worker->plans[i] = info.signature;
  }
  return status;
}

static void *work(void *user) {
  struct worker *worker = user;
  for (int i = 0; i < CALLS && !worker->failed; i++) {
    stg_error error = STG_ERROR_INIT;
    worker->failed = run_once(worker, &error) != STG_OK;
  }
  return NULL;
}

static void threads_share_components(void **state) {
  const struct components_shape shape = components_shape(5, 7, 9, 11);
  const stg_components_desc desc = comp_desc(&shape.geometry);
  struct worker workers[THREADS];
  pthread_t threads[THREADS];
  struct components_case wanted;
  struct attn_bed bed;
  stg_components *components = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  attn_open(&bed, 5);
  components_open(&bed, &shape, &wanted);
  components_run(&wanted);
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  must(stg_components_create(engine, &desc, &components, &error), &error);
  for (int i = 0; i < THREADS; i++) {
    struct worker *worker = &workers[i];
    *worker = (struct worker){.components = components, .c = wanted};
    components_renew(&worker->c);
    worker->tensors = comp_tensors(&worker->c);
    worker->grads = comp_grads(&worker->c);
    comp_give_work(&bed, components, &worker->tensors, &worker->grads);
    assert_int_equal(0, pthread_create(&threads[i], NULL, work, worker));
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_false(workers[i].failed);
    assert_ptr_equal(workers[0].plans[0], workers[i].plans[0]);
    assert_ptr_equal(workers[0].plans[1], workers[i].plans[1]);
    for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
      const struct components_result result = components_result(&wanted, k);
      if (result.data != NULL) {
        components_expect_same(&wanted, &workers[i].c, k, result.rows);
      }
    }
  }
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  assert_int_equal(2 * THREADS * CALLS, stats.components_applies);
  assert_int_equal(2, stats.plans_live);
  must(stg_components_destroy(components, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  attn_close(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_components)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
