/*
 * test_options.c: defaults, and the environment, which is read in one place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/engine.h>

#include "engine/offline.h"

static const char *const names[] = {
    "STEERLLM_COMPILE_STEERING",
    "STEERGRAPH_CACHE_DIR",
    "STEERGRAPH_CACHE",
    "STEERGRAPH_CACHE_MAX_SIZE",
    "STEERGRAPH_CACHE_MAX_ENTRIES",
    "STEERGRAPH_NO_JIT",
    "STEERGRAPH_LOG",
    "NVRTC_APPEND_FLAGS",
    "XDG_CACHE_HOME",
    "HOME",
};

static int clear_environment(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    unsetenv(names[i]);
  }
  return 0;
}

static stg_options read_options(void) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  memset(&options, 0xee, sizeof options);
  assert_int_equal(STG_OK, stg_options_from_env(&options, &error));
  assert_int_equal(sizeof options, options.struct_size);
  return options;
}

static void expect_refused(const char *name, const char *value, const char *message) {
  stg_options options = {.device = 77};
  stg_error error = STG_ERROR_INIT;
  setenv(name, value, 1);
  assert_int_equal(STG_E_INVALID, stg_options_from_env(&options, &error));
  assert_string_equal(message, error.message);
  assert_int_equal(77, options.device);
  unsetenv(name);
}

static void an_empty_environment_gives_the_defaults(void **state) {
  (void)state;
  stg_options by_default;
  stg_options_init(&by_default);
  const stg_options options = read_options();
  assert_false(options.enabled);
  assert_int_equal(STG_BACKEND_AUTO, options.backend);
  assert_int_equal(0, options.device);
  assert_int_equal(STG_COMPILE_DEFAULT, options.compile);
  assert_int_equal(STG_LAUNCH_DEFAULT, options.launch);
  assert_int_equal(STG_CACHE_DEFAULT, options.cache_mode);
  assert_int_equal(0, options.cache_max_bytes);
  assert_int_equal(0, options.cache_max_entries);
  assert_false(options.cache_trust);
  assert_null(options.cache_path);
  assert_null(options.nvrtc_options);
  assert_null(options.log);
  assert_int_equal(by_default.log_level, options.log_level);
  assert_int_equal(sizeof by_default, by_default.struct_size);
}

static void every_variable_sets_its_option(void **state) {
  (void)state;
  setenv("STEERLLM_COMPILE_STEERING", "1", 1);
  setenv("STEERGRAPH_NO_JIT", "1", 1);
  setenv("STEERGRAPH_LOG", "debug", 1);
  setenv("STEERGRAPH_CACHE_DIR", "/a:/b", 1);
  setenv("NVRTC_APPEND_FLAGS", "-lineinfo", 1);
  const stg_options options = read_options();
  assert_true(options.enabled);
  assert_int_equal(STG_COMPILE_NEVER, options.compile);
  assert_int_equal(STG_LOG_DEBUG, options.log_level);
  assert_string_equal("/a:/b", options.cache_path);
  assert_string_equal("-lineinfo", options.nvrtc_options);
}

static void zero_and_empty_mean_off(void **state) {
  (void)state;
  setenv("STEERLLM_COMPILE_STEERING", "0", 1);
  setenv("STEERGRAPH_NO_JIT", "", 1);
  setenv("STEERGRAPH_LOG", "", 1);
  const stg_options options = read_options();
  assert_false(options.enabled);
  assert_int_equal(STG_COMPILE_DEFAULT, options.compile);
}

static void the_cache_folder_follows_the_usual_variables(void **state) {
  (void)state;
  setenv("HOME", "/home/someone", 1);
  assert_string_equal("/home/someone/.cache/steergraph", read_options().cache_path);
  setenv("XDG_CACHE_HOME", "/var/cache", 1);
  assert_string_equal("/var/cache/steergraph", read_options().cache_path);
  setenv("STEERGRAPH_CACHE_DIR", "here", 1);
  assert_string_equal("here", read_options().cache_path);
  setenv("STEERGRAPH_CACHE_DIR", "", 1);
  setenv("XDG_CACHE_HOME", "relative", 1); /* the specification says to ignore it */
  assert_string_equal("/home/someone/.cache/steergraph", read_options().cache_path);
  setenv("HOME", "relative", 1);
  assert_null(read_options().cache_path);
}

static void *read_path(void *ret) {
  *(const char **)ret = read_options().cache_path;
  return NULL;
}

/* What a thread read is there when the thread is not. */
static void a_path_outlives_the_thread_that_read_it(void **state) {
  (void)state;
  const char *first = NULL, *second = NULL;
  setenv("HOME", "/home/someone", 1);
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, read_path, i == 0 ? &first : &second));
    assert_int_equal(0, pthread_join(thread, NULL));
  }
  setenv("HOME", "/home/another", 1);
  assert_string_equal("/home/another/.cache/steergraph", read_options().cache_path);
  assert_string_equal("/home/someone/.cache/steergraph", first);
  assert_ptr_equal(first, second); /* however often it is asked for */
}

static void a_home_that_is_too_long_gives_no_folder(void **state) {
  (void)state;
  static char home[5000];
  memset(home, 'x', sizeof home - 1);
  home[0] = '/';
  setenv("HOME", home, 1);
  assert_null(read_options().cache_path);
}

static void other_values_are_refused_by_name(void **state) {
  (void)state;
  expect_refused("STEERLLM_COMPILE_STEERING", "yes",
                 "STEERLLM_COMPILE_STEERING: 'yes' is neither 0 nor 1");
  expect_refused("STEERGRAPH_NO_JIT", "2", "STEERGRAPH_NO_JIT: '2' is neither 0 nor 1");
  expect_refused("STEERGRAPH_LOG", "loud",
                 "STEERGRAPH_LOG: 'loud' is none of off, error, warn, info, debug");
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_options_from_env(NULL, &error));
}

static void hosts_ask_whether_they_are_to_steer(void **state) {
  (void)state;
  stg_options options = read_options();
  assert_false(stg_enabled(&options));
  assert_false(stg_enabled(NULL));
  setenv("STEERLLM_COMPILE_STEERING", "1", 1);
  options = read_options();
  assert_true(stg_enabled(&options));
  options.struct_size = 3;
  assert_false(stg_enabled(&options));
  stg_options_init(&options);
  assert_false(stg_enabled(&options));
}

static void the_command_does_not_read_what_is_for_hosts(void **state) {
  (void)state;
  setenv("STEERLLM_COMPILE_STEERING", "2", 1);
  setenv("STEERGRAPH_NO_JIT", "1", 1);
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  memset(&options, 0xee, sizeof options);
  assert_int_equal(STG_OK, stg_options_for_command(&options, &error));
  assert_false(stg_enabled(&options));
  assert_int_equal(STG_COMPILE_NEVER, options.compile);
  setenv("STEERGRAPH_NO_JIT", "2", 1);
  assert_int_equal(STG_E_INVALID, stg_options_for_command(&options, &error));
  assert_string_equal("STEERGRAPH_NO_JIT: '2' is neither 0 nor 1", error.message);
}

static void every_log_level_has_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    stg_log_level level;
  } levels[] = {{"off", STG_LOG_OFF},
                {"error", STG_LOG_ERROR},
                {"warn", STG_LOG_WARN},
                {"info", STG_LOG_INFO},
                {"debug", STG_LOG_DEBUG}};
  for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
    setenv("STEERGRAPH_LOG", levels[i].name, 1);
    assert_int_equal(levels[i].level, read_options().log_level);
  }
}

static void every_cache_mode_has_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    stg_cache_mode mode;
  } modes[] = {{"on", STG_CACHE_DEFAULT},      {"off", STG_CACHE_OFF},
               {"memory", STG_CACHE_MEMORY},   {"read-only", STG_CACHE_READ_ONLY},
               {"refresh", STG_CACHE_REFRESH}, {"", STG_CACHE_DEFAULT}};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    setenv("STEERGRAPH_CACHE", modes[i].name, 1);
    assert_int_equal(modes[i].mode, read_options().cache_mode);
  }
  expect_refused("STEERGRAPH_CACHE", "x",
                 "STEERGRAPH_CACHE: 'x' is none of on, off, memory, read-only, refresh");
  expect_refused("STEERGRAPH_CACHE", "OFF",
                 "STEERGRAPH_CACHE: 'OFF' is none of on, off, memory, read-only, refresh");
}

static void limits_have_units(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } sizes[] = {
      {"1", 1},
      {"1K", 1024},
      {"96M", UINT64_C(96) << 20},
      {"2G", UINT64_C(2) << 30},
      {"none", UINT64_MAX},
      {"", 0},
      {"18446744073709551615", UINT64_MAX},
      {"17179869183G", UINT64_C(17179869183) << 30},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    setenv("STEERGRAPH_CACHE_MAX_SIZE", sizes[i].text, 1);
    assert_int_equal(sizes[i].bytes, read_options().cache_max_bytes);
  }
  setenv("STEERGRAPH_CACHE_MAX_ENTRIES", "500", 1);
  assert_int_equal(500, read_options().cache_max_entries);
  setenv("STEERGRAPH_CACHE_MAX_ENTRIES", "none", 1);
  assert_int_equal(UINT64_MAX, read_options().cache_max_entries);
}

static void what_is_no_limit_is_refused(void **state) {
  (void)state;
  static const char *const sizes[] = {"2T",          "0",
                                      "-1",          " 1",
                                      "1k",          "1KB",
                                      "K",           "1.5G",
                                      "None",        "0x10",
                                      "1 G",         "18446744073709551616",
                                      "0G",          "99999999999999999999999",
                                      "17179869184G"};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char message[200];
    snprintf(message, sizeof message,
             "STEERGRAPH_CACHE_MAX_SIZE: '%s' is no size; write bytes or a number with K, M or G, "
             "or none",
             sizes[i]);
    expect_refused("STEERGRAPH_CACHE_MAX_SIZE", sizes[i], message);
  }
  expect_refused("STEERGRAPH_CACHE_MAX_ENTRIES", "1K",
                 "STEERGRAPH_CACHE_MAX_ENTRIES: '1K' is no number above 0, nor none");
  expect_refused("STEERGRAPH_CACHE_MAX_ENTRIES", "0",
                 "STEERGRAPH_CACHE_MAX_ENTRIES: '0' is no number above 0, nor none");
}

#define ENV_TEST(test) cmocka_unit_test_setup(test, clear_environment)

int main(void) {
  const struct CMUnitTest tests[] = {
      ENV_TEST(an_empty_environment_gives_the_defaults),
      ENV_TEST(every_variable_sets_its_option),
      ENV_TEST(zero_and_empty_mean_off),
      ENV_TEST(the_cache_folder_follows_the_usual_variables),
      ENV_TEST(a_path_outlives_the_thread_that_read_it),
      ENV_TEST(a_home_that_is_too_long_gives_no_folder),
      ENV_TEST(other_values_are_refused_by_name),
      ENV_TEST(hosts_ask_whether_they_are_to_steer),
      ENV_TEST(the_command_does_not_read_what_is_for_hosts),
      ENV_TEST(every_log_level_has_its_name),
      ENV_TEST(every_cache_mode_has_its_name),
      ENV_TEST(limits_have_units),
      ENV_TEST(what_is_no_limit_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
