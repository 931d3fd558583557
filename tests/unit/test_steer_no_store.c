/*
 * test_steer_no_store.c: a row that no chain changes is not stored, rather than stored as it was:
 * its memory may be read-only. On the CPU backend.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/steergraph.h>

enum { ADDED, UNSTEERED, CLEARED, PADDING, ROWS };

struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  stg_vector vector;
  float *rows; /* each a page of its own */
  size_t width;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/* Slot 0 adds the unit vector, slot 1 has no chain. */
static void open_bed(struct bed *bed) {
  static const int32_t map[ROWS] = {
      [ADDED] = 0, [UNSTEERED] = STG_ROW_UNSTEERED, [CLEARED] = 1, [PADDING] = STG_ROW_PADDING};
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  *bed = (struct bed){.width = (size_t)sysconf(_SC_PAGESIZE) / sizeof(float)};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = (uint32_t)bed->width,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = 2};
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &desc, &bed->steer, &error), &error);
  ok(stg_frame_create(bed->steer, &bed->frame, &error), &error);
  const int zeros = open("/dev/zero", O_RDWR);
  assert_true(zeros >= 0);
  bed->rows =
      mmap(NULL, ROWS * bed->width * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE, zeros, 0);
  close(zeros);
  assert_true(bed->rows != MAP_FAILED);
  bed->rows[0] = 1; /* the row serves as the vector, too */
  ok(stg_vector_intern(bed->engine, STG_F32, bed->rows, bed->width, &bed->vector, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {bed->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(bed->steer, 0, &chain, 1, &error), &error);
  const stg_step step = {.struct_size = sizeof step, .rows = ROWS, .row_map = map};
  ok(stg_steer_step(bed->frame, &step, NULL, &error), &error);
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  munmap(bed->rows, ROWS * bed->width * sizeof(float));
  stg_frame_destroy(bed->frame);
  ok(stg_steer_destroy(bed->steer, &error), &error);
  ok(stg_vector_release(bed->engine, bed->vector, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

static void protect(const struct bed *bed, int first) {
  assert_int_equal(0, mprotect(bed->rows + (size_t)first * bed->width,
                               (size_t)(ROWS - first) * bed->width * sizeof(float), PROT_READ));
}

static stg_status apply(const struct bed *bed, stg_error *reterr) {
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->rows};
  return stg_steer_apply(bed->frame, &args, NULL, reterr);
}

static void rows_without_a_chain_may_be_read_only(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  protect(&bed, UNSTEERED);
  ok(apply(&bed, &error), &error);
  assert_true(bed.rows[0] == 2);
  close_bed(&bed);
}

/* Or the case above would prove nothing. */
static void a_store_to_such_a_row_would_be_seen(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  protect(&bed, ADDED);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(apply(&bed, NULL) == STG_OK ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_false(WIFEXITED(status));
  assert_int_equal(SIGSEGV, WTERMSIG(status));
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_without_a_chain_may_be_read_only),
      cmocka_unit_test(a_store_to_such_a_row_would_be_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
