/*
 * test_disk_compiles.c: many processes that miss the same kernels at once, on the stub of NVRTC,
 * which counts its compiles: exactly one for each kernel, whoever else does what; and a holder that
 * is killed or stopped in the middle of a compile keeps nobody for longer than the limit.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <dlfcn.h>

#include <steergraph/cache.h>

#include "runtime/clock.h"
#include "runtime/compile.h"
#include "runtime/entry.h"
#include "runtime/module_cache.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define PROCESSES 16
#define KERNELS 50
#define LIMIT_MS 400u
#define NS_PER_MS 1000000u

enum { FINE = 0, NOT_BUILT = 1, NOT_FOUND = 2, WRONG_BYTES = 3, COMPLAINED = 4, NO_CACHE = 5 };

struct kernel {
  char source[96];
  struct stg_kernel_request request;
  struct stg_kernel_image image; /* what the stub makes of it */
};
static struct kernel kernels[KERNELS];

static int open_stub(void **state) {
  (void)state;
  if (dlopen(STG_TEST_STUB_NVRTC, RTLD_NOW | RTLD_LOCAL) == NULL) {
    print_error("%s\n", dlerror());
    return -1;
  }
  for (unsigned i = 0; i < KERNELS; i++) {
    struct kernel *kernel = &kernels[i];
    const struct stg_log no_log = {0};
    stg_error error = STG_ERROR_INIT;
    snprintf(kernel->source, sizeof kernel->source,
             "extern \"C\" __global__ void counted(int x) { /* %u */ }\n", i);
    kernel->request = (struct stg_kernel_request){.signature = "steer v1 | counted",
                                                  .name = "counted",
                                                  .prelude = "",
                                                  .source = kernel->source,
                                                  .arch = "sm_90",
                                                  .threads = 32,
                                                  .rows_per_block = 1};
    if (stg_compile(&kernel->request, &no_log, &kernel->image, &error) != STG_OK) {
      print_error("%s\n", error.message);
      return -1;
    }
  }
  return 0;
}

static int close_stub(void **state) {
  (void)state;
  for (unsigned i = 0; i < KERNELS; i++) {
    stg_kernel_image_finish(&kernels[i].image);
  }
  return 0;
}

static void set_number(const char *name, unsigned value) {
  char text[16];
  snprintf(text, sizeof text, "%u", value);
  assert_int_equal(setenv(name, text, 1), 0);
}

/* A folder and a log of one test's own; each compile takes so long. */
static int begin(void **state, unsigned compile_ms) {
  int result = temp_folder_setup(state);
  assert_int_equal(setenv("STG_STUB_NVRTC_LOG", temp_path(state, "compiles"), 1), 0);
  set_number("STG_STUB_NVRTC_MS", compile_ms);
  return result;
}

static int begin_quick(void **state) {
  return begin(state, 2);
}

static int begin_slow(void **state) {
  return begin(state, 60000);
}

static int end(void **state) {
  assert_int_equal(unsetenv("STG_STUB_NVRTC_LOG"), 0);
  assert_int_equal(unsetenv("STG_STUB_NVRTC_MS"), 0);
  return temp_folder_teardown(state);
}

static size_t count_compiles(void **state) {
  FILE *file = fopen(temp_path(state, "compiles"), "r");
  size_t lines = 0;
  for (int c = file != NULL ? fgetc(file) : EOF; c != EOF; c = fgetc(file)) {
    lines += c == '\n';
  }
  if (file != NULL) {
    fclose(file);
  }
  return lines;
}

static void count_warning(void *user, stg_log_level level, const char *message) {
  (void)message;
  *(unsigned *)user += level <= STG_LOG_WARN;
}

/* The entry of a kernel holds the kernel's bytes. */
static int check_entry(struct stg_disk_cache *disk, const struct kernel *kernel) {
  struct stg_disk_hit hit = {0};
  if (stg_disk_cache_find(disk, &kernel->request, NULL, &hit, NULL) != STG_OK) {
    return NOT_FOUND;
  }
  const bool right = hit.entry.cubin_size == kernel->image.cubin_size &&
                     memcmp(hit.entry.cubin, kernel->image.cubin, hit.entry.cubin_size) == 0;
  stg_disk_hit_finish(&hit);
  return right ? FINE : WRONG_BYTES;
}

/* What a process asks for. */
struct job {
  const char *folder;
  unsigned first, count;
  uint32_t wait_ms; /* for a lock; 0: the usual limit */
  bool cleared;     /* others clear the folder: an entry may be gone again */
};

/* The kernel itself, whether or not it could be stored: nothing that others do costs more than a
 * compile. */
static int get_entry(struct stg_disk_cache *disk, const struct kernel *kernel,
                     const struct stg_log *log) {
  struct stg_strbuf bytes = {0};
  struct stg_arena arena = {0};
  struct stg_entry entry;
  bool compiled = false;
  double compile_ms = 0;
  int result = NOT_BUILT;
  if (stg_module_entry(disk, &kernel->request, log, &bytes, &compiled, &compile_ms, NULL) ==
      STG_OK) {
    const bool right = stg_entry_decode(bytes.data, bytes.len, &arena, &entry, NULL) == STG_OK &&
                       entry.cubin_size == kernel->image.cubin_size &&
                       memcmp(entry.cubin, kernel->image.cubin, entry.cubin_size) == 0;
    result = right ? FINE : WRONG_BYTES;
  }
  stg_arena_finish(&arena);
  stg_strbuf_finish(&bytes);
  return result;
}

/* As `build` does it, for which a kernel that is not stored is a failure. */
static int build_entry(struct stg_disk_cache *disk, const struct kernel *kernel,
                       const struct stg_log *log) {
  bool compiled = false;
  double compile_ms = 0;
  if (stg_module_build(disk, &kernel->request, log, &compiled, &compile_ms, NULL) != STG_OK) {
    return NOT_BUILT;
  }
  return check_entry(disk, kernel);
}

/* Ask for the job's kernels one after the other, as a service does at its start. */
static int serve(const struct job *job) {
  unsigned warnings = 0;
  const struct stg_log log = {count_warning, &warnings, STG_LOG_INFO};
  const struct stg_disk_options options = {
      .path_list = job->folder, .log = log, .lock_wait_ms = job->wait_ms};
  struct stg_disk_cache *disk = NULL;
  if (stg_disk_cache_open(&options, &disk, NULL) != STG_OK) {
    return NO_CACHE;
  }
  int result = FINE;
  for (unsigned i = 0; i < job->count && result == FINE; i++) {
    const struct kernel *kernel = &kernels[(job->first + i) % KERNELS];
    result = job->cleared ? get_entry(disk, kernel, &log) : build_entry(disk, kernel, &log);
  }
  stg_disk_cache_close(disk);
  return result == FINE && warnings > 0 && !job->cleared ? COMPLAINED : result;
}

static pid_t start(const struct job *job) {
  const pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    _exit(serve(job));
  }
  return child;
}

static void join(pid_t child, int wanted) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), wanted);
}

/* All at once, each beginning with another kernel. */
static void serve_in_many(const char *folder, bool cleared) {
  pid_t children[PROCESSES];
  for (unsigned i = 0; i < PROCESSES; i++) {
    children[i] = start(
        &(struct job){.folder = folder, .first = i * 3, .count = KERNELS, .cleared = cleared});
  }
  for (size_t i = 0; i < PROCESSES; i++) {
    join(children[i], FINE);
  }
}

static int serve_all(const char *folder) {
  return serve(&(struct job){.folder = folder, .count = KERNELS});
}

static int serve_first(const char *folder) {
  return serve(&(struct job){.folder = folder, .count = 1});
}

static void many_processes_compile_each_kernel_once(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  serve_in_many(folder, false);
  assert_int_equal(count_compiles(state), KERNELS);
  assert_int_equal(serve_all(folder), FINE);
  assert_int_equal(count_compiles(state), KERNELS);
}

/* Remove all files and folders of a cache, as `rm -r` does. */
static void remove_all(const char *folder) {
  char command[640];
  snprintf(command, sizeof command, "rm -rf '%s' 2>/dev/null", folder);
  (void)!system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): a test's own folder */
}

/* Down to a few entries, as a service with a small limit does. */
static void collect(const char *folder) {
  const stg_cache_limits limits = {.struct_size = sizeof limits, .max_entries = 8};
  const stg_cache_gc_result *result = NULL;
  stg_error error = STG_ERROR_INIT;
  if (stg_cache_gc(folder, &limits, &result, &error) != STG_OK) {
    fprintf(stderr, "gc: %s\n", error.message);
    _exit(1);
  }
  stg_cache_gc_free(result);
}

/* Processes find their kernels, and right ones, while another one takes entries away. */
static void serve_beside(void **state, void (*take)(const char *folder)) {
  int status = 0;
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  const pid_t taker = test_fork();
  assert_true(taker >= 0);
  if (taker == 0) {
    const struct timespec pause = {.tv_nsec = 3 * (long)NS_PER_MS};
    for (;;) {
      take(folder);
      nanosleep(&pause, NULL);
    }
  }
  serve_in_many(folder, true);
  assert_int_equal(kill(taker, SIGKILL), 0);
  assert_int_equal(waitpid(taker, &status, 0), taker);
  assert_true(WIFSIGNALED(status)); /* it did not fail before */
  assert_true(count_compiles(state) > KERNELS);
  assert_int_equal(serve_all(folder), FINE);
}

static void a_remover_costs_compiles_and_no_errors(void **state) {
  serve_beside(state, remove_all);
}

static void a_collector_costs_compiles_and_no_errors(void **state) {
  serve_beside(state, collect);
}

/* Start one that compiles for a minute, and wait until it does. */
static pid_t start_compiling(void **state, const char *folder) {
  const struct timespec pause = {.tv_nsec = (long)NS_PER_MS};
  const pid_t holder = start(&(struct job){.folder = folder, .count = 1});
  while (count_compiles(state) == 0) {
    nanosleep(&pause, NULL);
  }
  set_number("STG_STUB_NVRTC_MS", 0); /* of those that follow */
  return holder;
}

static uint64_t ms_since(uint64_t start_ns) {
  return (stg_clock_ns() - start_ns) / NS_PER_MS;
}

static void end_holder(pid_t holder) {
  assert_int_equal(kill(holder, SIGKILL), 0);
  assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static void a_holder_killed_in_its_compile_is_followed_at_once(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  const pid_t holder = start_compiling(state, folder);
  const struct timespec pause = {.tv_nsec = 300 * (long)NS_PER_MS};
  const uint64_t start_ns = stg_clock_ns();
  const pid_t waiting = start(&(struct job){.folder = folder, .count = 1});
  nanosleep(&pause, NULL); /* it waits by now */
  end_holder(holder);
  join(waiting, FINE);
  assert_true(ms_since(start_ns) < 5000); /* far below the limit */
  assert_int_equal(count_compiles(state), 2);
  assert_int_equal(serve_first(folder), FINE);
  assert_int_equal(count_compiles(state), 2);
}

static void a_holder_stopped_in_its_compile_is_waited_for_to_the_limit(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  const pid_t holder = start_compiling(state, folder);
  assert_int_equal(kill(holder, SIGSTOP), 0);
  const uint64_t start_ns = stg_clock_ns();
  const pid_t waiting = start(&(struct job){.folder = folder, .count = 1, .wait_ms = LIMIT_MS});
  join(waiting, COMPLAINED); /* one warning: that somebody hangs */
  assert_true(ms_since(start_ns) >= LIMIT_MS);
  assert_true(ms_since(start_ns) < LIMIT_MS + 5000);
  assert_int_equal(count_compiles(state), 2);
  assert_int_equal(serve_first(folder), FINE); /* a hit needs no lock */
  end_holder(holder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(many_processes_compile_each_kernel_once, begin_quick, end),
      cmocka_unit_test_setup_teardown(a_collector_costs_compiles_and_no_errors, begin_quick, end),
      cmocka_unit_test_setup_teardown(a_remover_costs_compiles_and_no_errors, begin_quick, end),
      cmocka_unit_test_setup_teardown(a_holder_killed_in_its_compile_is_followed_at_once,
                                      begin_slow, end),
      cmocka_unit_test_setup_teardown(a_holder_stopped_in_its_compile_is_waited_for_to_the_limit,
                                      begin_slow, end),
  };
  return cmocka_run_group_tests(tests, open_stub, close_stub);
}
