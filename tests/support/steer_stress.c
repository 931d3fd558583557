/*
 * steer_stress.c: see steer_stress.h.
 */
#include "tests/support/steer_stress.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/clock.h"

#define DEFAULT_SECONDS 3
/* Fewer than there are frames: whatever is idle goes at once. */
#define MAX_PLANS 4

static uint64_t seconds(void) {
  const char *text = getenv("STG_TEST_SECONDS");
  const unsigned long asked = text != NULL ? strtoul(text, NULL, 10) : 0;
  return asked > 0 ? asked : DEFAULT_SECONDS;
}

static stg_engine *open_engine(const struct steer_env *env) {
  stg_options options;
  stg_options_init(&options);
  options.backend = env->cuda ? STG_BACKEND_CUDA : STG_BACKEND_CPU;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = env->cache_path;
  options.pack_path = "";
  options.max_plans = MAX_PLANS;
  return steer_engine(&options);
}

static void check_worker(const struct stress_worker *worker) {
  if (worker->failure[0] != '\0') {
    fail_msg("%s", worker->failure);
  }
  assert_true(worker->rounds > 0 && worker->checked_rows > 0 && worker->tables > 0 &&
              worker->once_calls > 0 && worker->sets > 0);
  /* a refusal is what a full table may do, not what it mostly does */
  assert_true(worker->refused <= worker->sets / 10);
}

static void run_threads(const struct stress *stress, struct stress_worker *workers) {
  pthread_t threads[STRESS_THREADS];
  uint32_t started = 0;
  for (uint32_t i = 0; i < STRESS_THREADS; i++) {
    workers[i] = (struct stress_worker){.stress = stress, .index = i};
    if (pthread_create(&threads[i], NULL, stress_work, &workers[i]) != 0) {
      break;
    }
    started++;
  }
  for (uint32_t i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
  }
  assert_int_equal(STRESS_THREADS, started);
}

static void say(const struct stress_worker *workers, const stg_stats *stats) {
  unsigned long long rounds = 0, rows = 0, tables = 0, refused = 0;
  for (int i = 0; i < STRESS_THREADS; i++) {
    rounds += workers[i].rounds;
    rows += workers[i].checked_rows;
    tables += workers[i].tables;
    refused += workers[i].refused;
  }
  print_message("%llu rounds, %llu rows, %llu tables, %llu slots refused, %llu plans and %llu "
                "graphs evicted\n",
                rounds, rows, tables, refused, (unsigned long long)stats->plan_evictions,
                (unsigned long long)stats->graph_evictions);
}

/* A table of each declaration stays open, so that on a device kernels are loaded before the threads
 * begin and are not unloaded while they run. */
static void eight_threads_share_an_engine(void **state) {
  struct steer_env *env = *state;
  struct stress stress = {.engine = open_engine(env), .cuda = env->cuda};
  struct stress_worker workers[STRESS_THREADS];
  stg_steer *tables[STRESS_TABLES];
  stg_error error = STG_ERROR_INIT;
  for (uint32_t i = 0; i < STRESS_TABLES; i++) {
    expect_status(STG_OK, stress_table_create(stress.engine, i, &tables[i], &error), &error);
  }
  for (uint32_t i = 0; i < STRESS_SHARED; i++) {
    stress.shared[i] = tables[i];
  }
  stress.until_ns = stg_clock_ns() + seconds() * 1000000000U;
  run_threads(&stress, workers);
  const stg_stats stats = steer_engine_stats(stress.engine);
  say(workers, &stats);
  for (int i = 0; i < STRESS_THREADS; i++) {
    check_worker(&workers[i]);
  }
  assert_true(stats.plans_live <= MAX_PLANS && stats.graphs_live <= MAX_PLANS);
  assert_true(stats.plan_evictions > 0);
  assert_true(!env->cuda || (stats.graph_evictions > 0 && stats.graph_fallbacks == 0));
  for (uint32_t i = 0; i < STRESS_TABLES; i++) {
    expect_status(STG_OK, stg_steer_destroy(tables[i], &error), &error);
  }
  assert_int_equal(0, steer_engine_stats(stress.engine).vectors_live);
  assert_int_equal(0, steer_engine_stats(stress.engine).plans_live);
  steer_engine_close(stress.engine);
}

int steer_stress_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_threads_share_an_engine),
  };
  return cmocka_run_group_tests_name("stress", tests, open, steer_env_close);
}
