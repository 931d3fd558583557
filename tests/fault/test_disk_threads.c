/*
 * test_disk_threads.c: one open cache, many threads; what ThreadSanitizer looks at.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/disk_cache.h"
#include "tests/fault/numbered_kernel.h"
#include "tests/support/temp_folder.h"

#define THREADS 8u
#define KERNELS 12u
#define ROUNDS 5u

struct shared {
  struct stg_disk_cache *cache;
  atomic_uint wrong;
};

static void *serve(void *user) {
  struct shared *shared = user;
  for (uint32_t i = 0; i < ROUNDS * KERNELS; i++) {
    struct numbered_kernel kernel;
    struct stg_disk_hit hit = {0};
    numbered_kernel_init(&kernel, i % KERNELS);
    stg_status status = stg_disk_cache_find(shared->cache, &kernel.request, NULL, &hit, NULL);
    if (status == STG_E_NOT_FOUND) {
      status = stg_disk_cache_store(shared->cache, &kernel.request, &kernel.image, NULL);
      atomic_fetch_add(&shared->wrong, status != STG_OK);
    } else {
      atomic_fetch_add(&shared->wrong,
                       status != STG_OK ||
                           !numbered_kernel_is(&kernel, hit.entry.cubin, hit.entry.cubin_size));
    }
    stg_disk_hit_finish(&hit);
  }
  return NULL;
}

/* All threads at once on one cache; what it counted. */
static struct stg_disk_counters serve_all(const struct stg_disk_options *options) {
  struct shared shared = {0};
  struct stg_disk_counters counters;
  pthread_t threads[THREADS];
  assert_int_equal(stg_disk_cache_open(options, &shared.cache, NULL), STG_OK);
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, serve, &shared), 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  stg_disk_cache_counters(shared.cache, &counters);
  assert_int_equal(atomic_load(&shared.wrong), 0);
  stg_disk_cache_close(shared.cache);
  return counters;
}

static void many_threads_find_and_store_the_right_bytes(void **state) {
  struct stg_disk_options options = {.path_list = temp_path(state, "c")};
  struct stg_disk_counters counters = serve_all(&options);
  assert_int_equal(counters.hits + counters.misses, THREADS * ROUNDS * KERNELS);
  assert_int_equal(counters.stores, counters.misses);
  assert_true(counters.hits >= (uint64_t)THREADS * (ROUNDS - 1) * KERNELS);
}

static void many_threads_evict_from_under_each_other(void **state) {
  struct stg_disk_options options = {.path_list = temp_path(state, "c"), .max_entries = 4};
  struct stg_disk_counters counters = serve_all(&options);
  assert_int_equal(counters.stores, counters.misses);
  assert_true(counters.evictions >= KERNELS - 4);
  assert_true(counters.evictions <= counters.stores);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(many_threads_find_and_store_the_right_bytes,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(many_threads_evict_from_under_each_other, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
