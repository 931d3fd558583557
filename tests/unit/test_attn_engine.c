/*
 * test_attn_engine.c: the attention side through the public API: on the CPU, launched apart and as
 * blocks; and on a device of the host, which does work as late as it may, with the same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/attn_growing.h"
#include "tests/support/attn_script.h"
#include "tests/support/host_device.h"
#include "tests/support/quick.h"
#include "tests/support/tier_bed.h"

static stg_engine *open_cpu(void) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  ok(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static void close_engine(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_engine_destroy(engine, &error), &error);
}

static struct attn_trace trace_of(stg_engine *engine, size_t script, enum attn_way way) {
  struct attn_trace trace;
  attn_script_run(engine, &attn_scripts[script], way, &trace);
  return trace;
}

static void blocks_give_the_bits_of_their_parts(void **state) {
  (void)state;
  stg_engine *engine = open_cpu();
  for (size_t i = 0; i < n_attn_scripts; i++) {
    struct attn_trace apart = trace_of(engine, i, ATTN_APART);
    struct attn_trace block = trace_of(engine, i, ATTN_BLOCK);
    attn_trace_compare(attn_scripts[i].name, &apart, &block, 0);
    attn_trace_finish(&apart);
    attn_trace_finish(&block);
  }
  close_engine(engine);
}

/* Work is done when it is waited for, or some of it at each call. */
static void a_device_is_told_what_the_cpu_does(void **state) {
  static const uint32_t seeds[] = {0, 7, 1234};
  (void)state;
  stg_engine *cpu = open_cpu();
  for (size_t i = 0; i < n_attn_scripts; i++) {
    struct attn_trace wanted = trace_of(cpu, i, ATTN_APART);
    for (size_t k = 0; k < 2 * sizeof seeds / sizeof seeds[0]; k++) {
      struct bed bed;
      open_bed(&bed, STG_COMPILE_BLOCK, 1, 8);
      host_device_eager(seeds[k / 2]);
      struct attn_trace trace = trace_of(bed.engine, i, k % 2 == 0 ? ATTN_APART : ATTN_BLOCK);
      attn_trace_compare(attn_scripts[i].name, &wanted, &trace, 0);
      attn_trace_finish(&trace);
      host_device_eager(0);
      close_bed(&bed);
    }
    attn_trace_finish(&wanted);
  }
  close_engine(cpu);
}

static void a_fixed_cache_equals_one_that_grows(void **state) {
  const int64_t capacity = test_is_quick() ? 300 : 520;
  (void)state;
  stg_engine *engine = open_cpu();
  attn_growing_run(engine, capacity, 0);
  attn_growing_run(engine, 200, 16);
  close_engine(engine);
  struct bed bed;
  open_bed(&bed, STG_COMPILE_BLOCK, 1, 8);
  host_device_set_compiler(&(struct host_compiler){.missing = ""}); /* compiles are counted */
  attn_growing_run(bed.engine, 100, 8);
  assert_int_equal(3, host_device_compiles()); /* of the rope, the attend and the advance */
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_give_the_bits_of_their_parts),
      cmocka_unit_test(a_device_is_told_what_the_cpu_does),
      cmocka_unit_test(a_fixed_cache_equals_one_that_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
