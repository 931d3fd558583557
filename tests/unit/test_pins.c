/*
 * test_pins.c: which frames graphs of a host hold: one pin per frame and capture, spares that steps
 * make, flags that fall by themselves. Graphs are a device of the host's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "engine/pins.h"
#include "runtime/base/alloc.h"
#include "tests/support/host_device.h"

struct fixture {
  struct stg_device *device;
  struct stg_pins pins;
  char frames[2]; /* their addresses are all that counts */
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void refill(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_pins_refill(&f->pins, &error), &error);
}

static void open_fixture(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_device_open(0, &f->device, &error), &error);
  stg_pins_init(&f->pins, f->device);
}

static void close_fixture(struct fixture *f) {
  assert_int_equal(0, stg_pins_graphs(&f->pins));
  stg_pins_finish(&f->pins);
  stg_device_close(f->device);
}

static stg_status try_take(struct fixture *f, int frame, uint64_t capture, stg_error *reterr) {
  const struct stg_capture into = {.id = capture, .graph = f};
  return stg_pins_take(&f->pins, &f->frames[frame], &into, reterr);
}

static void take(struct fixture *f, int frame, uint64_t capture) {
  stg_error error = STG_ERROR_INIT;
  ok(try_take(f, frame, capture, &error), &error);
}

static void a_capture_takes_one_pin_per_frame(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  refill(&f);
  for (int layer = 0; layer < 80; layer++) {
    take(&f, 0, 7);
    take(&f, 1, 7);
  }
  assert_int_equal(1, stg_pins_graphs(&f.pins));
  assert_true(stg_pins_hold(&f.pins, &f.frames[0]));
  assert_true(stg_pins_hold(&f.pins, &f.frames[1]));
  assert_false(stg_pins_hold(&f.pins, &f));
  assert_int_equal(2, host_device_drop_graph(7));
  assert_false(stg_pins_hold(&f.pins, &f.frames[0]));
  close_fixture(&f);
}

static void captures_that_take_turns_are_told_apart(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  refill(&f);
  for (int turn = 0; turn < 3; turn++) {
    take(&f, 0, 11);
    take(&f, 0, 12);
  }
  take(&f, 1, 12);
  assert_int_equal(2, stg_pins_graphs(&f.pins));
  assert_int_equal(2, host_device_drop_graph(12));
  assert_int_equal(1, stg_pins_graphs(&f.pins));
  assert_true(stg_pins_hold(&f.pins, &f.frames[0]));
  assert_false(stg_pins_hold(&f.pins, &f.frames[1]));
  assert_int_equal(1, host_device_drop_graph(11));
  close_fixture(&f);
}

static void without_a_spare_it_says_what_to_do(void **state) {
  (void)state;
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f);
  assert_int_equal(STG_E_NOT_WARM, try_take(&f, 0, 1, &error));
  refill(&f);
  for (uint64_t capture = 1; capture <= STG_SPARE_PINS; capture++) {
    take(&f, 0, capture);
  }
  error = (stg_error)STG_ERROR_INIT;
  assert_int_equal(STG_E_NOT_WARM, try_take(&f, 0, 0, &error));
  assert_string_equal("the table has no spare pin for this capture: 256 are made ready by a step; "
                      "step a frame of the table before capturing more graphs",
                      error.message);
  take(&f, 0, STG_SPARE_PINS); /* which has one */
  assert_int_equal(STG_SPARE_PINS, stg_pins_graphs(&f.pins));
  refill(&f);
  take(&f, 0, 0);
  for (uint64_t capture = 0; capture <= STG_SPARE_PINS; capture++) {
    assert_int_equal(STG_SPARE_PINS + 1 - capture, stg_pins_graphs(&f.pins));
    assert_int_equal(1, host_device_drop_graph(capture));
  }
  close_fixture(&f);
}

static void pins_that_fell_are_spares_again(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  refill(&f);
  for (uint64_t capture = 1; capture <= (uint64_t)10 * STG_SPARE_PINS; capture++) {
    take(&f, 0, capture);
    assert_int_equal(1, host_device_drop_graph(capture));
  }
  stg_alloc_fail_at(1);
  stg_status status = stg_pins_refill(&f.pins, NULL);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_OK, status);
  for (uint64_t capture = 1; capture <= STG_SPARE_PINS; capture++) {
    take(&f, 0, capture);
  }
  assert_int_equal(STG_E_NOT_WARM, try_take(&f, 0, 0, NULL));
  for (uint64_t capture = 1; capture <= STG_SPARE_PINS; capture++) {
    host_device_drop_graph(capture);
  }
  close_fixture(&f);
}

static void taking_allocates_nothing_and_refilling_may_fail(void **state) {
  (void)state;
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f);
  stg_alloc_fail_at(1);
  stg_status status = stg_pins_refill(&f.pins, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  assert_non_null(strstr(error.message, "pins for captures"));
  refill(&f);
  stg_alloc_fail_at(1);
  take(&f, 0, 3);
  stg_alloc_fail_at(0);
  host_device_drop_graph(3);
  close_fixture(&f);
}

static void a_graph_that_refuses_a_pin_leaves_a_spare(void **state) {
  (void)state;
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(&f);
  refill(&f);
  host_device_refuse_pins(true);
  for (int i = 0; i < 2 * STG_SPARE_PINS; i++) {
    assert_int_equal(STG_E_CUDA, try_take(&f, 0, 5, &error));
  }
  host_device_refuse_pins(false);
  assert_non_null(strstr(error.message, "cuGraphRetainUserObject failed"));
  assert_int_equal(0, stg_pins_graphs(&f.pins));
  take(&f, 0, 5);
  assert_int_equal(1, host_device_drop_graph(5));
  close_fixture(&f);
}

/* Graphs go, on a thread that nobody knows, while captures come. */
struct dropper {
  atomic_bool stop;
  atomic_uint_fast64_t captured; /* the last of them */
};

static void *drop_in_a_thread(void *user) {
  struct dropper *dropper = user;
  uint64_t next = 1;
  bool more = true;
  while (more) {
    more = !atomic_load(&dropper->stop);
    for (const uint64_t until = atomic_load(&dropper->captured); next <= until; next++) {
      host_device_drop_graph(next);
    }
  }
  return NULL;
}

static void flags_may_fall_at_any_time(void **state) {
  (void)state;
  struct fixture f;
  struct dropper dropper = {.stop = false};
  pthread_t thread;
  size_t most = 0;
  open_fixture(&f);
  assert_int_equal(0, pthread_create(&thread, NULL, drop_in_a_thread, &dropper));
  stg_status status = STG_OK;
  for (uint64_t capture = 1; capture <= 3000 && status == STG_OK; capture++) {
    status = stg_pins_refill(&f.pins, NULL);
    for (int frame = 0; frame < 2 && status == STG_OK; frame++) {
      status = try_take(&f, frame, capture, NULL);
    }
    atomic_store(&dropper.captured, capture);
    if (capture % 100 == 0) {
      const size_t graphs = stg_pins_graphs(&f.pins);
      most = graphs > most ? graphs : most;
      stg_pins_hold(&f.pins, &f.frames[0]);
    }
  }
  atomic_store(&dropper.stop, true);
  pthread_join(thread, NULL);
  assert_int_equal(STG_OK, status);
  print_message("at most %zu graphs were seen\n", most);
  assert_int_equal(0, stg_pins_wait(&f.pins, 0));
  assert_false(stg_pins_hold(&f.pins, &f.frames[1]));
  close_fixture(&f);
}

static void waiting_ends_when_the_graphs_are_gone_or_the_time_is_up(void **state) {
  (void)state;
  struct fixture f;
  struct dropper dropper = {.captured = 0};
  pthread_t thread;
  open_fixture(&f);
  refill(&f);
  take(&f, 0, 1);
  assert_int_equal(1, stg_pins_wait(&f.pins, 5));
  assert_int_equal(0, pthread_create(&thread, NULL, drop_in_a_thread, &dropper));
  atomic_store(&dropper.captured, 1);
  const size_t graphs = stg_pins_wait(&f.pins, 60000);
  atomic_store(&dropper.stop, true);
  pthread_join(thread, NULL);
  assert_int_equal(0, graphs);
  close_fixture(&f);
}

static void on_the_cpu_nothing_is_held(void **state) {
  (void)state;
  struct stg_pins pins;
  stg_pins_init(&pins, NULL);
  assert_false(stg_pins_hold(&pins, &pins));
  assert_int_equal(0, stg_pins_graphs(&pins));
  stg_pins_finish(&pins);
}

/* Its graphs run no more; what still lowers the flags must find them, so they are not freed. */
static void a_lost_device_holds_nothing_and_may_lower_flags_later(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  refill(&f);
  take(&f, 0, 21);
  host_device_lose(true);
  assert_false(stg_pins_hold(&f.pins, &f.frames[0]));
  assert_int_equal(0, stg_pins_graphs(&f.pins));
  stg_pins_finish(&f.pins);
  assert_int_equal(1, host_device_drop_graph(21)); /* the memory is there */
  host_device_lose(false);
  stg_device_close(f.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_capture_takes_one_pin_per_frame),
      cmocka_unit_test(captures_that_take_turns_are_told_apart),
      cmocka_unit_test(without_a_spare_it_says_what_to_do),
      cmocka_unit_test(pins_that_fell_are_spares_again),
      cmocka_unit_test(taking_allocates_nothing_and_refilling_may_fail),
      cmocka_unit_test(a_graph_that_refuses_a_pin_leaves_a_spare),
      cmocka_unit_test(flags_may_fall_at_any_time),
      cmocka_unit_test(waiting_ends_when_the_graphs_are_gone_or_the_time_is_up),
      cmocka_unit_test(on_the_cpu_nothing_is_held),
      cmocka_unit_test(a_lost_device_holds_nothing_and_may_lower_flags_later),
  };
  return cmocka_run_group_tests_name("pins", tests, NULL, NULL);
}
