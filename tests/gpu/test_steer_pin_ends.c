/*
 * test_steer_pin_ends.c: a forked child, a lost device and the end of a process, each while a graph
 * lives that a host captured: no call hangs, and none is refused for the graph's sake.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/pins_bed.h"
#include "tests/support/test_fork.h"

/* In a child the parent's graphs mean nothing: no call hangs, and none touches the device. */
static int destroy_in_child(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  destroy_frames(f);
  /* which may say that it did nothing, but not that something has to be waited for */
  if (stg_steer_destroy(f->bed->steer, &error) == STG_E_BUSY) {
    return 1;
  }
  /* the table is still there */
  const stg_status status = stg_engine_destroy(f->engine, &error);
  return status == STG_OK || status == STG_E_FORKED || status == STG_E_BUSY ? 0 : 2;
}

static void a_forked_child_neither_waits_nor_frees(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct host_graph graph = captured(&f);
  fflush(NULL);
  const pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(60); /* a hang would kill it */
    _exit(destroy_in_child(&f));
  }
  int status = -1;
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_true(WIFEXITED(status));
  assert_int_equal(0, WEXITSTATUS(status));
  expect_replay_ok(&f, &graph); /* the parent goes on */
  destroy_graph(&f, &graph);
  close_fixture(&f);
}

/* Programs of their own, which main is when it is called with one of these words. */
#define LOSE "lose"
#define LEAVE "leave"

static struct fixture last; /* of such a program */

/* Everything, in spite of a graph; returns what went wrong. */
static int destroy_all(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  destroy_frames(f);
  if (stg_steer_destroy(f->bed->steer, &error) != STG_OK) {
    fprintf(stderr, "stg_steer_destroy: %s\n", error.message);
    return 1;
  }
  if (stg_engine_destroy(f->engine, &error) != STG_OK) {
    fprintf(stderr, "stg_engine_destroy: %s\n", error.message);
    return 1;
  }
  return 0;
}

/* Set up before the driver, so called after it has shut down, if it does that in such a handler. */
static void destroy_at_exit(void) {
  if (last.engine == NULL) {
    return;
  }
  if (stg_device_has_ended(last.device)) {
    if (destroy_all(&last) != 0) {
      _exit(3);
    }
    return;
  }
  destroy_frames(&last);
  if (stg_steer_destroy(last.bed->steer, NULL) != STG_E_BUSY) {
    _exit(4);
  }
}

static int run_alone(const char *word) {
  void *state = NULL;
  alarm(120); /* a hang would kill it */
  if (strcmp(word, LEAVE) == 0 && atexit(destroy_at_exit) != 0) {
    return 2;
  }
  if (skip_without_gpu() != 0 || steer_env_cuda(&state) != 0) {
    return 2;
  }
  open_fixture(&state, &last);
  struct host_graph graph = captured(&last);
  expect_replay_ok(&last, &graph);
  if (strcmp(word, LEAVE) == 0) {
    return 0;
  }
  stg_frame_destroy(last.frame); /* one that is kept for its graph, and one that is alive */
  last.frame = last.batch->frame = NULL;
  lose_device(&(struct gpu){.device = last.device, .stream = last.stream});
  return destroy_all(&last);
}

static void run_self(const struct steer_env *env, const char *word) {
  char self[4096] = "";
  assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  fflush(NULL);
  const pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (setenv("STG_TEST_CACHE_DIR", env->cache_path, 1) == 0) {
      execl(self, self, word, (char *)NULL);
    }
    _exit(127);
  }
  int status = -1;
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_true(WIFEXITED(status));
  assert_int_equal(0, WEXITSTATUS(status));
}

static void a_lost_device_is_closed_in_spite_of_graphs(void **state) {
  run_self(*state, LOSE);
}

static void at_exit_all_is_closed_in_spite_of_graphs(void **state) {
  run_self(*state, LEAVE);
}

int main(int argc, char **argv) {
  if (argc == 2) {
    return run_alone(argv[1]);
  }
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_forked_child_neither_waits_nor_frees),
      cmocka_unit_test(at_exit_all_is_closed_in_spite_of_graphs),
  };
  const struct CMUnitTest faulty[] = {
      cmocka_unit_test(a_lost_device_is_closed_in_spite_of_graphs),
  };
  int failed =
      cmocka_run_group_tests_name("steer pin ends", tests, steer_env_cuda, steer_env_close);
  if (under_compute_sanitizer()) {
    print_message("a program that faults on purpose is left out under compute-sanitizer\n");
    return failed;
  }
  return failed + cmocka_run_group_tests_name("steer pin ends, device lost", faulty, steer_env_cuda,
                                              steer_env_close);
}
