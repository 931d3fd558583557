/*
 * test_fork_engine.c: a child that was forked with an engine on CUDA is told so by every call, may
 * destroy what it was given, and ends by exit like any process, also when it was forked while
 * threads of its parent compiled. The parent goes on.
 */
#include "tests/gpu/gpu_test.h"

#include "tests/support/forked_calls.h"
#include "tests/support/steer_env.h"
#include "tests/support/test_fork.h"

static const int32_t map[] = {0};

static void step_and_apply(const struct forked_objects *all) {
  const stg_step step = {.struct_size = sizeof step, .rows = 1, .row_map = map};
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = all->hidden};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_step(all->frame, &step, NULL, &error), &error);
  check_ok(stg_steer_apply(all->frame, &apply, NULL, &error), &error);
}

static void expect_values(const struct forked_objects *all, float wanted) {
  float values[FORKED_HIDDEN];
  stg_device_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_device_status(all->steer, NULL, &report, &error), &error); /* waits */
  check_ok(stg_mem_download(all->engine, values, all->hidden, sizeof values, &error), &error);
  for (int j = 0; j < FORKED_HIDDEN; j++) {
    assert_memory_equal(&wanted, &values[j], sizeof wanted);
  }
}

/* Ones that slot 0 adds ones to: twos after the first apply. Nothing is in a cache. */
static void open_all(struct forked_objects *all, stg_compile_mode mode) {
  static const float ones[FORKED_HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const char *const ops[] = {"add", "swap"};
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = FORKED_HIDDEN,
                               .dtype = STG_F32,
                               .ops = ops,
                               .n_ops = 2};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = mode;
  options.cache_mode = STG_CACHE_OFF;
  *all = (struct forked_objects){.engine = steer_engine(&options)};
  check_ok(stg_steer_create(all->engine, &desc, &all->steer, &error), &error);
  check_ok(stg_frame_create(all->steer, &all->frame, &error), &error);
  check_ok(stg_vector_intern(all->engine, STG_F32, ones, FORKED_HIDDEN, &all->vector, &error),
           &error);
  check_ok(stg_mem_alloc(all->engine, sizeof ones, &memory, &error), &error);
  all->hidden = memory;
  check_ok(stg_mem_upload(all->engine, memory, ones, sizeof ones, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {all->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  check_ok(stg_steer_slot_set(all->steer, 0, &chain, 1, &error), &error);
  step_and_apply(all);
}

static void close_all(struct forked_objects *all) {
  stg_error error = STG_ERROR_INIT;
  stg_mem_free(all->engine, all->hidden);
  stg_frame_destroy(all->frame);
  check_ok(stg_steer_destroy(all->steer, &error), &error);
  check_ok(stg_vector_release(all->engine, all->vector, &error), &error);
  steer_engine_close(all->engine);
}

static bool makes_no_engine(void) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  return forked_is(STG_E_FORKED, "stg_engine_create", stg_engine_create(&options, &engine, &error),
                   &error);
}

/* The child's end is exit: what was registered to run then must not wait for the parent's. */
static void try_in_a_child(struct forked_objects *all) {
  fflush(NULL);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    const bool right =
        forked_table_calls(STG_E_FORKED, all) && forked_record_calls(STG_E_FORKED, all) &&
        forked_frame_calls(STG_E_FORKED, all) && makes_no_engine() && forked_ends(all);
    exit(right ? 0 : 1);
  }
  assert_true(forked_child_was_right(child));
}

static void a_child_is_told_at_every_call(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_COMPILE_BLOCK);
  try_in_a_child(&all);
  step_and_apply(&all);
  expect_values(&all, 3);
  close_all(&all);
}

static void a_child_that_was_forked_while_its_parent_compiled_ends(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_COMPILE_BACKGROUND);
  try_in_a_child(&all); /* the declared kernels are on their way */
  step_and_apply(&all);
  expect_values(&all, 3);
  close_all(&all);
}

static void many_children_disturb_no_step(void **state) {
  struct forked_objects all;
  (void)state;
  open_all(&all, STG_COMPILE_BLOCK);
  for (int i = 0; i < 5; i++) {
    step_and_apply(&all);
    try_in_a_child(&all); /* with work of the parent's in flight */
  }
  expect_values(&all, 7);
  close_all(&all);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  if (under_compute_sanitizer()) {
    print_message("children are left out under compute-sanitizer, which does not survive fork\n");
    return EXIT_SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_is_told_at_every_call),
      cmocka_unit_test(a_child_that_was_forked_while_its_parent_compiled_ends),
      cmocka_unit_test(many_children_disturb_no_step),
  };
  return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
