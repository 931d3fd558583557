/*
 * test_bench_shapes.c: random batch shapes: in their ranges, the same everywhere, counted right.
 */
#include "tools/bench/shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define COUNT 2000

static struct stg_bench_shape shapes[COUNT];

static void every_number_is_in_its_range_and_every_number_comes(void **state) {
  (void)state;
  unsigned requests[STG_SHAPE_MAX_REQUESTS + 1] = {0};
  unsigned lengths[STG_SHAPE_MAX_LENGTH + 1] = {0};
  stg_bench_shapes_fill(1, COUNT, shapes);
  for (size_t i = 0; i < COUNT; i++) {
    const struct stg_bench_shape *shape = &shapes[i];
    uint32_t rows = 0, longest = 0;
    assert_in_range(shape->n_requests, 1, STG_SHAPE_MAX_REQUESTS);
    requests[shape->n_requests]++;
    for (uint32_t r = 0; r < STG_SHAPE_MAX_REQUESTS; r++) {
      if (r >= shape->n_requests) {
        assert_int_equal(0, shape->lengths[r]);
        continue;
      }
      assert_in_range(shape->lengths[r], 1, STG_SHAPE_MAX_LENGTH);
      lengths[shape->lengths[r]]++;
      rows += shape->lengths[r];
      longest = shape->lengths[r] > longest ? shape->lengths[r] : longest;
    }
    assert_int_equal(rows, shape->rows);
    assert_int_equal(longest, shape->longest);
  }
  for (size_t i = 1; i <= STG_SHAPE_MAX_REQUESTS; i++) {
    assert_true(requests[i] > 0);
  }
  for (size_t i = 1; i <= STG_SHAPE_MAX_LENGTH; i++) {
    assert_true(lengths[i] > 0);
  }
}

static void a_shape_depends_on_seed_and_index_alone(void **state) {
  (void)state;
  struct stg_bench_shape few[3];
  stg_bench_shapes_fill(1, COUNT, shapes);
  stg_bench_shapes_fill(1, 3, few);
  assert_memory_equal(few, shapes, sizeof few);
  stg_bench_shapes_fill(2, 3, few);
  assert_memory_not_equal(few, shapes, sizeof few);
  stg_bench_shapes_fill((uint64_t)1 << 32 | 1, 3, few);
  assert_memory_not_equal(few, shapes, sizeof few);
}

static struct stg_bench_shape of(uint8_t first, uint8_t second, uint8_t third) {
  struct stg_bench_shape shape = {.lengths = {first, second, third}};
  for (size_t i = 0; i < 3; i++) {
    const uint32_t length = shape.lengths[i];
    shape.n_requests += length > 0 ? 1 : 0;
    shape.rows += length;
    shape.longest = length > shape.longest ? length : shape.longest;
  }
  return shape;
}

static void shapes_differ_by_what_a_system_looks_at(void **state) {
  (void)state;
  const struct stg_bench_shape all[] = {
      of(4, 2, 0), of(2, 4, 0), of(4, 2, 0), of(3, 3, 0), of(6, 0, 0), of(4, 1, 1),
  };
  const size_t count = sizeof all / sizeof all[0];
  struct stg_bench_shape copy[sizeof all / sizeof all[0]];
  memcpy(copy, all, sizeof all);
  assert_int_equal(5, stg_bench_shapes_distinct(copy, count, STG_SHAPE_BY_LENGTHS));
  assert_int_equal(4, stg_bench_shapes_distinct(copy, count, STG_SHAPE_BY_COUNTS));
  assert_int_equal(1, stg_bench_shapes_distinct(copy, count, STG_SHAPE_BY_ROWS));
  assert_int_equal(1, stg_bench_shapes_distinct(copy, 1, STG_SHAPE_BY_LENGTHS));
}

static void a_map_gives_each_request_its_slot_and_fills_the_tail(void **state) {
  (void)state;
  static int32_t map[STG_SHAPE_MAX_ROWS];
  const struct stg_bench_shape shape = of(2, 1, 3);
  const int32_t expected[] = {0, 0, 1, 2, 2, 2, -2};
  stg_bench_shape_map(&shape, -2, map);
  assert_memory_equal(expected, map, sizeof expected);
  assert_int_equal(-2, map[STG_SHAPE_MAX_ROWS - 1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_is_in_its_range_and_every_number_comes),
      cmocka_unit_test(a_shape_depends_on_seed_and_index_alone),
      cmocka_unit_test(shapes_differ_by_what_a_system_looks_at),
      cmocka_unit_test(a_map_gives_each_request_its_slot_and_fills_the_tail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
