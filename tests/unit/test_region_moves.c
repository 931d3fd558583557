/*
 * test_region_moves.c: pointers of regions that differ from those that were recorded: refused,
 * copied, or recorded again; on a device of the host, whose work is done late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/region_bed.h"

static stg_region_pointer pointer(uint32_t *tensor, stg_region_moves moves) {
  return (stg_region_pointer){.address = tensor, .bytes = BED_BYTES, .moves = moves};
}

static void refused(const struct region_bed *bed, const stg_region_call *call,
                    const char *message) {
  stg_error error = STG_ERROR_INIT;
  host_device_reset_calls();
  assert_int_equal(STG_E_INVALID, stg_region_run(bed->engine, call, bed->streams[0], NULL, &error));
  assert_string_equal(message, error.message);
  assert_int_equal(1, host_device_calls().all); /* whether the stream captures */
}

static void a_fixed_pointer_that_moves_is_refused_before_anything_is_launched(void **state) {
  (void)state;
  struct region_bed bed;
  char text[256];
  bed_open(&bed, 0);
  uint32_t *a = bed_tensor(&bed, 1), *b = bed_tensor(&bed, 2), *c = bed_tensor(&bed, 3);
  struct bed_work work = {.bed = &bed};
  const stg_region_pointer first[] = {pointer(a, STG_REGION_FIXED), pointer(b, STG_REGION_FIXED)};
  const stg_region_pointer moved[] = {pointer(a, STG_REGION_FIXED), pointer(c, STG_REGION_FIXED)};
  const stg_region_call call = bed_call(&work, "gemm", first);
  const stg_region_call other = bed_call(&work, "gemm", moved);
  bed_run(&work, &call, bed.streams[0]);
  bed_wait(&bed, bed.streams[0]);
  snprintf(text, sizeof text,
           "pointer 1 of region 'gemm' is %p and was recorded as %p; declare it as moving",
           (void *)c, (void *)b);
  refused(&bed, &other, text);
  bed_wait(&bed, bed.streams[0]);
  bed_holds(b, 1);
  bed_holds(c, 3);
  assert_int_equal(1, work.calls);
  assert_true(bed_run(&work, &call, bed.streams[0]).replayed);
  /* on another stream it is another record */
  assert_true(bed_run(&work, &other, bed.streams[1]).recorded);
  bed_wait(&bed, bed.streams[1]);
  bed_holds(c, 1);
  bed_wait_for_all(&bed);
  stg_mem_free(bed.engine, a);
  stg_mem_free(bed.engine, b);
  stg_mem_free(bed.engine, c);
  bed_close(&bed);
}

#define OTHER_WORK "; give other work another signature, or forget this one"

static void pointers_of_another_form_are_refused(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  uint32_t *a = bed_tensor(&bed, 1), *b = bed_tensor(&bed, 2);
  struct bed_work work = {.bed = &bed};
  stg_region_pointer pointers[3] = {pointer(a, STG_REGION_IN), pointer(b, STG_REGION_FIXED)};
  stg_region_call call = bed_call(&work, "gemm", pointers);
  bed_run(&work, &call, bed.streams[0]);
  bed_wait(&bed, bed.streams[0]);
  call.n_pointers = 3;
  refused(&bed, &call, "region 'gemm' has 3 pointers and was recorded with 2" OTHER_WORK);
  call.n_pointers = 2;
  pointers[0].moves = STG_REGION_INOUT;
  refused(&bed, &call, "pointer 0 of region 'gemm' moves as 3 and was recorded as 1" OTHER_WORK);
  pointers[0].moves = STG_REGION_IN;
  pointers[0].bytes = 12;
  refused(&bed, &call,
          "pointer 0 of region 'gemm' is of 12 bytes and was recorded with 256" OTHER_WORK);
  stg_mem_free(bed.engine, a);
  stg_mem_free(bed.engine, b);
  bed_close(&bed);
}

/* By turns from and to tensors of a pool, each launch behind the last without a wait. */
static void moving_tensors_are_copied_in_and_out_in_order(void **state) {
  (void)state;
  enum { POOL = 4, RUNS = 60 };
  for (uint32_t seed = 0; seed < 20; seed++) {
    struct region_bed bed;
    bed_open(&bed, 0);
    uint32_t *from[POOL], *to[POOL];
    struct bed_work work = {.bed = &bed};
    host_device_eager(seed);
    for (uint32_t i = 0; i < POOL; i++) {
      from[i] = bed_tensor(&bed, 0);
      to[i] = bed_tensor(&bed, 0);
    }
    for (uint32_t i = 0; i < RUNS; i++) {
      const stg_region_pointer pointers[] = {pointer(from[i % POOL], STG_REGION_IN),
                                             pointer(to[i * 3 % POOL], STG_REGION_OUT)};
      const stg_region_call call = bed_call(&work, "gemm", pointers);
      bed_fill(&bed, from[i % POOL], 100 + i, bed.streams[0]);
      assert_int_equal(i == 0, bed_run(&work, &call, bed.streams[0]).recorded);
      bed_fill(&bed, from[i % POOL], 0, bed.streams[0]);
    }
    assert_ptr_not_equal(from[0], work.given[0]);
    assert_ptr_not_equal(to[0], work.given[1]);
    assert_int_equal(2 * BED_BYTES, bed_stats(&bed).region_bytes);
    bed_wait(&bed, bed.streams[0]);
    for (uint32_t i = RUNS - POOL; i < RUNS; i++) {
      bed_holds(to[i * 3 % POOL], 100 + i);
    }
    for (uint32_t i = 0; i < POOL; i++) {
      stg_mem_free(bed.engine, from[i]);
      stg_mem_free(bed.engine, to[i]);
    }
    host_device_eager(0);
    bed_close(&bed);
  }
}

/* The work leaves pointers[0] as it is: it comes back as it went in. */
static void a_tensor_that_goes_both_ways_comes_back(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  uint32_t *a[] = {bed_tensor(&bed, 1), bed_tensor(&bed, 2)};
  uint32_t *b[] = {bed_tensor(&bed, 8), bed_tensor(&bed, 9)};
  struct bed_work work = {.bed = &bed};
  for (int i = 0; i < 2; i++) {
    const stg_region_pointer pointers[] = {pointer(a[i], STG_REGION_INOUT),
                                           pointer(b[i], STG_REGION_INOUT)};
    const stg_region_call call = bed_call(&work, "norm", pointers);
    bed_run(&work, &call, bed.streams[0]);
  }
  bed_wait(&bed, bed.streams[0]);
  for (uint32_t i = 0; i < 2; i++) {
    bed_holds(a[i], 1 + i);
    bed_holds(b[i], 1 + i); /* the first result stays */
    stg_mem_free(bed.engine, a[i]);
    stg_mem_free(bed.engine, b[i]);
  }
  bed_close(&bed);
}

/* Two streams have buffers each: neither sees the other's. */
static void streams_do_not_share_buffers(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  uint32_t *a[] = {bed_tensor(&bed, 5), bed_tensor(&bed, 6)};
  uint32_t *b[] = {bed_tensor(&bed, 0), bed_tensor(&bed, 0)};
  struct bed_work work = {.bed = &bed};
  for (uint32_t seed = 1; seed <= 50; seed++) {
    host_device_eager(seed);
    for (int i = 0; i < 2; i++) {
      const stg_region_pointer pointers[] = {pointer(a[i], STG_REGION_IN),
                                             pointer(b[i], STG_REGION_OUT)};
      const stg_region_call call = bed_call(&work, "gemm", pointers);
      bed_fill(&bed, a[i], 10 * seed + (uint32_t)i, bed.streams[i]);
      bed_run(&work, &call, bed.streams[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
      bed_wait(&bed, bed.streams[i]);
      bed_holds(b[i], 10 * seed + i);
    }
  }
  host_device_eager(0);
  assert_int_equal(2, work.calls);
  for (int i = 0; i < 2; i++) {
    stg_mem_free(bed.engine, a[i]);
    stg_mem_free(bed.engine, b[i]);
  }
  bed_close(&bed);
}

/* Buffers of what is evicted are freed when the launches that use them are over, not before: they
 * are heap here. */
static void buffers_outlive_their_record_until_its_launches_are_over(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 1);
  uint32_t *a = bed_tensor(&bed, 0), *b[] = {bed_tensor(&bed, 0), bed_tensor(&bed, 0)};
  struct bed_work work = {.bed = &bed};
  static const char *const texts[] = {"one", "two"};
  for (int i = 0; i < 2; i++) {
    const stg_region_pointer pointers[] = {pointer(a, STG_REGION_IN),
                                           pointer(b[i], STG_REGION_OUT)};
    const stg_region_call call = bed_call(&work, texts[i], pointers);
    bed_fill(&bed, a, 20 + (uint32_t)i, bed.streams[0]);
    assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  }
  assert_int_equal(1, bed_stats(&bed).plan_evictions);
  assert_int_equal(4 * BED_BYTES, bed_stats(&bed).region_bytes); /* nothing has run */
  bed_wait(&bed, bed.streams[0]);
  bed_holds(b[0], 20);
  bed_holds(b[1], 21);
  bed_ok(stg_region_forget(bed.engine, "none", &error), &error);
  assert_int_equal(2 * BED_BYTES, bed_stats(&bed).region_bytes);
  bed_ok(stg_region_forget(bed.engine, "two", &error), &error);
  assert_int_equal(0, bed_stats(&bed).region_bytes);
  stg_mem_free(bed.engine, a);
  stg_mem_free(bed.engine, b[0]);
  stg_mem_free(bed.engine, b[1]);
  bed_close(&bed);
}

/* `graphs` and `updates` are how many there are after the second record. */
static void expect_again(bool refuse_updates, uint64_t graphs, uint64_t updates) {
  struct region_bed bed;
  bed_open(&bed, 0);
  uint32_t *a[] = {bed_tensor(&bed, 1), bed_tensor(&bed, 2)}, *b = bed_tensor(&bed, 0);
  struct bed_work work = {.bed = &bed};
  host_device_refuse_graphs(false, refuse_updates);
  for (uint32_t i = 0; i < 4; i++) {
    const stg_region_pointer pointers[] = {pointer(a[i / 2], STG_REGION_RECORD),
                                           pointer(b, STG_REGION_FIXED)};
    const stg_region_call call = bed_call(&work, "gemm", pointers);
    const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
    assert_int_equal(i % 2 == 0, facts.recorded);
    assert_int_equal(i % 2 == 1, facts.replayed);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(b, 1 + i / 2);
    assert_ptr_equal(a[i / 2], work.given[0]);
  }
  host_device_refuse_graphs(false, false);
  const stg_stats stats = bed_stats(&bed);
  assert_int_equal(2, stats.regions_recorded);
  assert_int_equal(2, stats.region_replays);
  assert_int_equal(graphs, stats.graphs_created);
  assert_int_equal(updates, stats.graph_updates);
  assert_int_equal(1, stats.graphs_live);
  stg_mem_free(bed.engine, a[0]);
  stg_mem_free(bed.engine, a[1]);
  stg_mem_free(bed.engine, b);
  bed_close(&bed);
}

static void a_pointer_that_asks_for_it_is_recorded_again(void **state) {
  (void)state;
  expect_again(false, 1, 1);
  expect_again(true, 2, 0);
}

static void a_second_record_that_fails_leaves_the_work_to_the_host(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  uint32_t *a[] = {bed_tensor(&bed, 1), bed_tensor(&bed, 2)}, *b = bed_tensor(&bed, 0);
  struct bed_work work = {.bed = &bed};
  for (uint32_t i = 0; i < 3; i++) {
    const stg_region_pointer pointers[] = {pointer(a[i % 2], STG_REGION_RECORD),
                                           pointer(b, STG_REGION_OUT)};
    const stg_region_call call = bed_call(&work, "gemm", pointers);
    work.manner = i == 1 ? BED_FAILS_IN_RECORDS : BED_COPIES;
    const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
    assert_int_equal(i == 0, facts.recorded);
    assert_int_equal(i > 0, facts.eager);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(b, 1 + i % 2);
  }
  assert_int_equal(0, bed_stats(&bed).graphs_live);
  assert_int_equal(1, bed_stats(&bed).region_failures);
  assert_int_equal(1, bed.n_said);
  stg_mem_free(bed.engine, a[0]);
  stg_mem_free(bed.engine, a[1]);
  stg_mem_free(bed.engine, b);
  bed_close(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fixed_pointer_that_moves_is_refused_before_anything_is_launched),
      cmocka_unit_test(pointers_of_another_form_are_refused),
      cmocka_unit_test(moving_tensors_are_copied_in_and_out_in_order),
      cmocka_unit_test(a_tensor_that_goes_both_ways_comes_back),
      cmocka_unit_test(streams_do_not_share_buffers),
      cmocka_unit_test(buffers_outlive_their_record_until_its_launches_are_over),
      cmocka_unit_test(a_pointer_that_asks_for_it_is_recorded_again),
      cmocka_unit_test(a_second_record_that_fails_leaves_the_work_to_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
