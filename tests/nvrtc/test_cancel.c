/*
 * test_cancel.c: a compile that another thread stops, and what the log says of every call into
 * NVRTC: who, from when to when. Needs no GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "engine/tier.h"
#include "runtime/base/strbuf.h"
#include "runtime/base/thread.h"
#include "runtime/clock.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/log_lines.h"
#include "tests/support/nvrtc_line.h"

#define SLOW_STATEMENTS 3000

/* A kernel that takes an optimiser seconds. */
static void print_slow_source(struct stg_strbuf *source) {
  stg_strbuf_str(source, "extern \"C\" __global__ void test_slow(float *x) {\n"
                         "  float a[64];\n"
                         "  for (int i = 0; i < 64; i++) { a[i] = x[i]; }\n");
  for (unsigned i = 0; i < SLOW_STATEMENTS; i++) {
    stg_strbuf_printf(source, "  if (a[%u] > a[%u]) { a[%u] = a[%u] * a[%u] + %u.0f; }\n", i % 64,
                      i * 7 % 64, i * 13 % 64, i * 3 % 64, i * 29 % 64, i);
  }
  stg_strbuf_str(source, "  for (int i = 0; i < 64; i++) { x[i] = a[i]; }\n}\n");
}

static struct stg_kernel_request slow_request(struct stg_strbuf *source) {
  struct stg_kernel_request request = scale_request("sm_80");
  print_slow_source(source);
  request.signature = "test: slow";
  request.name = "test_slow";
  request.prelude = "";
  request.source = stg_strbuf_text(source);
  return request;
}

static void each_compile_is_logged_with_its_thread_and_its_time(void **state) {
  (void)state;
  static struct log_lines lines;
  const struct stg_log log = log_lines_to(&lines, STG_LOG_INFO);
  struct stg_kernel_request request = scale_request("sm_80");
  struct stg_kernel_image image = {0};
  struct stg_key key = {0};
  struct nvrtc_line at = {.thread = 0};
  char what[64] = "compile ";
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_kernel_request_key(&request, &key, NULL));
  stg_key_hex(key, what + strlen(what));
  const uint64_t before_ns = stg_clock_ns();
  assert_int_equal(STG_OK, stg_compile(&request, &log, &image, &error));
  const uint64_t after_ns = stg_clock_ns();
  stg_kernel_image_finish(&image);
  assert_in_range(lines.count, 1, 2);
  if (lines.count == 2) { /* the first compile of the process says how it came by its library */
    assert_true(nvrtc_line_parse(lines.text[0], &at));
    assert_string_equal("load", at.what);
    assert_int_equal(stg_thread_id(), at.thread);
    assert_true(at.from_ns <= at.to_ns && at.to_ns <= before_ns);
  }
  const char *line = lines.text[lines.count - 1];
  assert_true(nvrtc_line_parse(line, &at));
  assert_string_equal(what, at.what);
  assert_int_equal(stg_thread_id(), at.thread);
  assert_true(before_ns <= at.from_ns && at.from_ns < at.to_ns && at.to_ns <= after_ns);
  assert_non_null(strstr(line, " ms): test: scale"));
}

static void a_compile_that_fails_is_logged_too(void **state) {
  (void)state;
  static struct log_lines lines;
  const struct stg_log log = log_lines_to(&lines, STG_LOG_INFO);
  struct stg_kernel_request request = scale_request("sm_80");
  struct stg_kernel_image image = {0};
  request.source = "this is no source\n";
  assert_int_equal(STG_E_COMPILE, stg_compile(&request, &log, &image, NULL));
  const char *line = lines.text[lines.count - 1];
  struct nvrtc_line at = {.thread = 0};
  assert_true(nvrtc_line_parse(line, &at));
  assert_non_null(strstr(line, " ms, STG_E_COMPILE): test: scale"));
}

static void what_is_cancelled_before_it_begins_is_not_begun(void **state) {
  (void)state;
  static struct log_lines lines;
  const struct stg_log log = log_lines_to(&lines, STG_LOG_INFO);
  struct stg_kernel_request request = scale_request("sm_80");
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  atomic_bool cancel = true;
  request.cancel = &cancel;
  assert_int_equal(STG_E_CANCELLED, stg_compile(&request, &log, &image, &error));
  assert_string_equal("the compile of kernel 'test_scale' for sm_80 was given up", error.message);
  assert_int_equal(0, lines.count);
  assert_null(image.cubin);
}

struct job {
  struct stg_kernel_request request;
  struct log_lines lines;
  struct stg_log log;
  stg_status status;
  long thread;
};

static void *run_job(void *user) {
  struct job *job = user;
  struct stg_kernel_image image = {0};
  job->thread = stg_thread_id();
  job->status = stg_compile(&job->request, &job->log, &image, NULL);
  stg_kernel_image_finish(&image);
  return NULL;
}

/* Compiled to the end it takes more than a minute, on any machine so far. */
static void a_compile_is_stopped_by_another_thread(void **state) {
  (void)state;
  struct stg_nvrtc_info info;
  struct stg_strbuf source = {0};
  static struct job job;
  struct nvrtc_line at = {.thread = 0};
  const struct timespec pause = {.tv_nsec = 50000000};
  atomic_bool cancel = false;
  pthread_t thread;
  assert_int_equal(STG_OK, stg_nvrtc_info(&info, NULL));
  if (info.major < 13) {
    return; /* older ones may not have the call, and compile to the end */
  }
  job.request = slow_request(&source);
  job.request.cancel = &cancel;
  job.log = log_lines_to(&job.lines, STG_LOG_INFO);
  assert_int_equal(0, pthread_create(&thread, NULL, run_job, &job));
  nanosleep(&pause, NULL);
  atomic_store(&cancel, true);
  assert_int_equal(0, pthread_join(thread, NULL));
  assert_int_equal(STG_E_CANCELLED, job.status);
  const char *line = job.lines.text[job.lines.count - 1];
  assert_true(nvrtc_line_parse(line, &at));
  assert_non_null(strstr(line, ", STG_E_CANCELLED): "));
  assert_int_equal(job.thread, at.thread);
  assert_int_not_equal(stg_thread_id(), at.thread);
  assert_true(at.to_ns - at.from_ns < UINT64_C(30000000000));
  stg_strbuf_finish(&source);
}

/* A job of an engine's threads that compiles. */
struct pool_job {
  struct stg_job base;
  struct job compile;
};

static void run_in_pool(struct stg_job *base) {
  struct pool_job *job = (struct pool_job *)(void *)base;
  job->compile.request.cancel = &base->cancel;
  run_job(&job->compile);
}

static void leave(struct stg_job *base) {
  (void)base;
}

static void init_pool_job(struct pool_job *job, const struct stg_kernel_request *request) {
  job->base = (struct stg_job){.run = run_in_pool, .done = leave};
  job->compile.request = *request;
  job->compile.log = log_lines_to(&job->compile.lines, STG_LOG_INFO);
}

static const char *last_line(const struct pool_job *job) {
  return job->compile.lines.text[job->compile.lines.count - 1];
}

/* What the log says of an engine's compiles: never the thread that asks for them. */
static void an_engines_threads_compile_side_by_side(void **state) {
  (void)state;
  static struct pool_job jobs[4];
  const struct timespec pause = {.tv_nsec = 1000000};
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_tiers *tiers = NULL;
  struct stg_tier_counters counters = {0};
  assert_int_equal(STG_OK, stg_tiers_create(2, 10, &tiers, NULL));
  for (int i = 0; i < 4; i++) {
    init_pool_job(&jobs[i], &request);
    assert_int_equal(STG_OK, stg_tiers_submit(tiers, &jobs[i].base, i % 2 == 0, NULL));
  }
  do {
    nanosleep(&pause, NULL);
    stg_tiers_counters(tiers, &counters);
  } while (counters.queued + counters.running > 0);
  stg_tiers_destroy(tiers);
  assert_int_equal(2, counters.threads);
  for (int i = 0; i < 4; i++) {
    struct nvrtc_line at = {.thread = 0};
    assert_int_equal(STG_OK, jobs[i].compile.status);
    assert_true(nvrtc_line_parse(last_line(&jobs[i]), &at));
    assert_int_equal(jobs[i].compile.thread, at.thread);
    assert_int_not_equal(stg_thread_id(), at.thread);
  }
}

static void closing_an_engine_stops_its_compiles(void **state) {
  (void)state;
  static struct pool_job jobs[2];
  const struct timespec pause = {.tv_nsec = 50000000};
  struct stg_strbuf source = {0};
  struct stg_kernel_request request = slow_request(&source);
  struct stg_nvrtc_info info;
  struct stg_tiers *tiers = NULL;
  assert_int_equal(STG_OK, stg_nvrtc_info(&info, NULL));
  if (info.major >= 13) {
    assert_int_equal(STG_OK, stg_tiers_create(1, 10, &tiers, NULL));
    for (int i = 0; i < 2; i++) {
      init_pool_job(&jobs[i], &request);
      assert_int_equal(STG_OK, stg_tiers_submit(tiers, &jobs[i].base, false, NULL));
    }
    nanosleep(&pause, NULL);
    stg_tiers_destroy(tiers); /* a minute, if it waited */
    assert_int_equal(STG_E_CANCELLED, jobs[0].compile.status);
    assert_int_equal(0, jobs[1].compile.lines.count);
  }
  stg_strbuf_finish(&source);
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_compile_is_logged_with_its_thread_and_its_time),
      cmocka_unit_test(a_compile_that_fails_is_logged_too),
      cmocka_unit_test(what_is_cancelled_before_it_begins_is_not_begun),
      cmocka_unit_test(a_compile_is_stopped_by_another_thread),
      cmocka_unit_test(an_engines_threads_compile_side_by_side),
      cmocka_unit_test(closing_an_engine_stops_its_compiles),
  };
  return cmocka_run_group_tests_name("cancel", tests, NULL, NULL);
}
