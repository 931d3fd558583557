/*
 * test_components_refusals.c: what components refuse, with which status and in which words, on the
 * CPU backend. What only a device refuses is in test_components_device.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/components_objects.h"

#define N 6

/* Make a copy of `base`, change it, and see what is said of it. */
#define SAYS(base, change, message, call)                                                          \
  do {                                                                                             \
    desc = (base);                                                                                 \
    change;                                                                                        \
    must_say(STG_E_INVALID, message, call, &error);                                                \
  } while (0)

struct comp {
  stg_engine *engine;
  stg_components *components; /* with all that can be declared */
  struct attn_bed tensors;
  struct components_case c;
};

static struct components_shape whole_shape(void) {
  struct components_shape shape = components_shape(5, 7, 4, N);
  shape.geometry.bias = shape.geometry.delta = true;
  shape.share = 3;
  return shape;
}

static void open_all(struct comp *all) {
  const struct components_shape shape = whole_shape();
  const stg_components_desc desc = comp_desc(&shape.geometry);
  stg_error error = STG_ERROR_INIT;
  *all = (struct comp){.engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT)};
  attn_open(&all->tensors, 1);
  components_open(&all->tensors, &shape, &all->c);
  must(stg_components_create(all->engine, &desc, &all->components, &error), &error);
}

static void close_all(struct comp *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_destroy(all->components, &error), &error);
  must(stg_engine_destroy(all->engine, &error), &error);
  attn_close(&all->tensors);
}

#define CREATE(change, message)                                                                    \
  SAYS(comp_desc(&shape.geometry), change, message,                                                \
       stg_components_create(all.engine, &desc, &made, &error))

static void declarations(void **state) {
  static const int64_t falling[] = {4, 4};
  const struct components_shape shape = whole_shape();
  stg_components *made = NULL;
  stg_components_desc desc;
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all);
  CREATE(desc.struct_size = 8, "stg_components_create: desc is NULL, or struct_size is 8, not 64");
  CREATE(desc.d_in = 0, "d_in: 0 is not in 1..1048576");
  CREATE(desc.d_out = 1048577, "d_out: 1048577 is not in 1..1048576");
  CREATE(desc.components = 0, "components: 0 is not in 1..1048576");
  CREATE(desc.dtype = STG_DTYPE_NONE, "dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  CREATE(desc.math = (stg_components_math)2, "math: 2 is not in 0..1");
  CREATE((desc.math = STG_COMPONENTS_TF32, desc.dtype = STG_BF16),
         "math: tf32 is of f32 alone, not of bf16");
  CREATE(desc.mask = (stg_components_mask_kind)3, "mask: 3 is not in 0..2");
  CREATE(desc.tile = 48, "tile: 48 is none of 32, 64 and 128");
  CREATE(desc.max_rows = -1, "max_rows: -1 is below 0");
  CREATE(desc.n_row_buckets = 2, "row_buckets: NULL with a count of 2");
  CREATE((desc.n_row_buckets = 2, desc.row_buckets = falling),
         "row_buckets[1]: 4; buckets ascend and are in 1..2147483647");
  must_say(STG_E_INVALID, "stg_components_create: engine or ret_components is NULL",
           stg_components_create(NULL, &desc, &made, &error), &error);
  must_say(STG_E_INVALID, "stg_components_create: desc is NULL, or struct_size is 0, not 64",
           stg_components_create(all.engine, NULL, &made, &error), &error);
  assert_null(made);
  must(stg_components_destroy(NULL, &error), &error);
  must_say(STG_E_BUSY, "stg_engine_destroy: 1 components are alive; destroy them first",
           stg_engine_destroy(all.engine, &error), &error);
  close_all(&all);
}

/* Addresses are of the machine: a misaligned one is looked for by its end. */
static void must_end(stg_status wanted, const char *begin, const char *end, stg_status status,
                     const stg_error *error) {
  const size_t length = strlen(error->message), tail = strlen(end);
  if (status != wanted || strncmp(error->message, begin, strlen(begin)) != 0 || length < tail ||
      strcmp(error->message + length - tail, end) != 0) {
    fail_msg("%s: '%s', not '%s...%s'", stg_status_name(status), error->message, begin, end);
  }
}

#define APPLY(change, message)                                                                     \
  SAYS(comp_tensors(&all.c), change, message,                                                      \
       stg_components_apply(all.components, &desc, NULL, &error))

static void tensors(void **state) {
  static const int32_t valid[N] = {0};
  stg_components_tensors desc;
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all);
  APPLY(desc.struct_size = 8, "stg_components_apply: components or tensors is NULL, or struct_size "
                              "of the tensors is 8, not 128");
  APPLY(desc.rows = -1, "rows: -1 is not in 0..2147483647");
  APPLY(desc.rows = 2147483648, "rows: 2147483648 is not in 0..2147483647");
  APPLY(desc.mask_share = -2, "mask_share: -2 is below 0");
  APPLY(desc.x = NULL, "x: (nil) is no address of f32 elements");
  APPLY(desc.x_stride = 4, "x_stride: 4; a row has 5 elements");
  APPLY(desc.x_stride = INT64_MAX / 8,
        "x_stride: 1152921504606846975 is too large: 6 rows of it are beyond memory");
  APPLY(desc.v = NULL, "v: (nil) is no address of f32 elements");
  APPLY(desc.u = NULL, "u: (nil) is no address of f32 elements");
  APPLY(desc.mask = NULL, "mask: (nil) is no address of f32 elements");
  APPLY(desc.mask_stride = -7, "mask_stride: -7; a row has 7 elements");
  APPLY(desc.bias = NULL, "bias: (nil) is no address of f32 elements");
  APPLY(desc.d = NULL, "d: (nil) is no address of f32 elements");
  APPLY(desc.delta = NULL, "delta: (nil) is no address of f32 elements");
  APPLY(desc.y = NULL, "y: (nil) is no address of f32 elements");
  APPLY(desc.y_stride = 3, "y_stride: 3; a row has 4 elements");
  APPLY(desc.valid = valid, "sequence: 0 is not in 1..2147483647");
  desc = comp_tensors(&all.c);
  desc.valid = (const int32_t *)(const void *)((const char *)valid + 1);
  desc.sequence = 2;
  must_end(STG_E_INVALID, "valid: 0x", " is no address of int32 elements",
           stg_components_apply(all.components, &desc, NULL, &error), &error);
  desc = comp_tensors(&all.c);
  desc.x = (const char *)desc.x + 2;
  must_end(STG_E_INVALID, "x: 0x", " is no address of f32 elements",
           stg_components_apply(all.components, &desc, NULL, &error), &error);
  must_say(STG_E_INVALID,
           "stg_components_apply: components or tensors is NULL, or struct_size of the tensors is "
           "128, not 128",
           stg_components_apply(NULL, &desc, NULL, &error), &error);
  must_say(STG_E_INVALID,
           "stg_components_apply: components or tensors is NULL, or struct_size of the tensors is "
           "0, not 128",
           stg_components_apply(all.components, NULL, NULL, &error), &error);
  close_all(&all);
}

#define BACK(change, message)                                                                      \
  SAYS(comp_grads(&all.c), change, message,                                                        \
       stg_components_back(all.components, &given, &desc, NULL, &error))

static void gradients(void **state) {
  stg_components_grads desc;
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  size_t bytes = 0;
  char message[128];
  (void)state;
  open_all(&all);
  stg_components_tensors given = comp_tensors(&all.c);
  BACK(desc.struct_size = 8,
       "stg_components_back: grads is NULL, or its struct_size is 8, not 112");
  BACK(desc.dy = NULL, "dy: (nil) is no address of f32 elements");
  BACK(desc.dy_stride = 3, "dy_stride: 3; a row has 4 elements");
  BACK(desc.dx_stride = 4, "dx_stride: 4; a row has 5 elements");
  BACK(desc.dm_stride = 6, "dm_stride: 6; a row has 7 elements");
  must(stg_components_work_bytes(all.components, N, 3, &bytes, &error), &error);
  (void)snprintf(message, sizeof message,
                 "work_bytes: %zu are fewer than the %zu that %d rows need", bytes - 1, bytes, N);
  BACK(desc.work_bytes = bytes - 1, message);
  BACK(desc.work_bytes = bytes, "work: (nil) is no address at 16 bytes in whole");
  desc = comp_grads(&all.c);
  comp_give_work(&all.tensors, all.components, &given, &desc);
  desc.du = (char *)desc.du + 1;
  must_end(STG_E_INVALID, "du: 0x", " is no address of f32 elements",
           stg_components_back(all.components, &given, &desc, NULL, &error), &error);
  /* what has no sums over rows needs no memory; neither y nor bias is looked at */
  desc = comp_grads(&all.c);
  desc.dv = desc.du = desc.dm = desc.dbias = desc.ddelta = NULL;
  given.bias = given.y = NULL;
  must(stg_components_back(all.components, &given, &desc, NULL, &error), &error);
  given.v = NULL;
  must_say(STG_E_INVALID, "v: (nil) is no address of f32 elements",
           stg_components_back(all.components, &given, &desc, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_components_back: grads is NULL, or its struct_size is 0, not 112",
           stg_components_back(all.components, &given, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_components_work_bytes: components or ret_bytes is NULL",
           stg_components_work_bytes(all.components, 1, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "rows: -1 is not in 0..2147483647",
           stg_components_work_bytes(all.components, -1, 1, &bytes, &error), &error);
  must_say(STG_E_INVALID, "mask_share: -1 is below 0",
           stg_components_work_bytes(all.components, 1, -1, &bytes, &error), &error);
  close_all(&all);
}

/* A shared dm alone has sums, one of rows has none. */
static void a_shared_mask_needs_memory(void **state) {
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all);
  stg_components_tensors given = comp_tensors(&all.c);
  stg_components_grads grads = comp_grads(&all.c);
  grads.dv = grads.du = grads.dbias = grads.ddelta = NULL;
  assert_int_equal(STG_E_INVALID,
                   stg_components_back(all.components, &given, &grads, NULL, &error));
  assert_non_null(strstr(error.message, "work_bytes: 0 are fewer than the "));
  given.rows = 2;
  given.mask_share = 1;
  must(stg_components_back(all.components, &given, &grads, NULL, &error), &error);
  close_all(&all);
}

/* A call by components of `shape` is refused. */
static void refuse(const struct stg_components_geometry *g, const stg_components_tensors *given,
                   const stg_components_grads *grads, bool backward, const char *begin,
                   const char *end) {
  stg_components *made = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  const stg_components_desc desc = comp_desc(g);
  must(stg_components_create(engine, &desc, &made, &error), &error);
  must_end(STG_E_INVALID, begin, end,
           backward ? stg_components_back(made, given, grads, NULL, &error)
                    : stg_components_apply(made, given, NULL, &error),
           &error);
  must(stg_components_destroy(made, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
}

#define NOT_DECLARED "; the components do not declare it"

static void what_is_not_declared(void **state) {
  struct stg_components_geometry g = whole_shape().geometry;
  struct comp all;
  (void)state;
  open_all(&all);
  stg_components_tensors given = comp_tensors(&all.c);
  stg_components_grads grads = comp_grads(&all.c);
  g.bias = false;
  refuse(&g, &given, NULL, false, "bias: 0x", NOT_DECLARED);
  refuse(&g, &given, &grads, true, "dbias: 0x", NOT_DECLARED);
  g.bias = true;
  g.delta = false;
  refuse(&g, &given, NULL, false, "d: 0x", NOT_DECLARED);
  given.d = NULL;
  refuse(&g, &given, NULL, false, "delta: 0x", NOT_DECLARED);
  given.delta = NULL;
  refuse(&g, &given, &grads, true, "dd: 0x", NOT_DECLARED);
  grads.dd = NULL;
  refuse(&g, &given, &grads, true, "ddelta: 0x", NOT_DECLARED);
  grads.ddelta = NULL;
  g.mask = STG_COMPONENTS_MASK_NONE;
  refuse(&g, &given, NULL, false, "mask: 0x", NOT_DECLARED);
  given.mask = NULL;
  refuse(&g, &given, &grads, true, "dm: 0x", NOT_DECLARED);
  g.mask = STG_COMPONENTS_MASK_BOOL;
  refuse(&g, &given, NULL, false, "mask: (nil)", " is no address of bool elements");
  given.mask = all.c.inputs.mask;
  refuse(&g, &given, &grads, true, "dm: 0x", "; a mask of bytes has no gradient");
  close_all(&all);
}

static void the_way_back_is_declared(void **state) {
  const struct components_shape shape = whole_shape();
  stg_components_desc desc = comp_desc(&shape.geometry);
  stg_plan_info info = {.struct_size = sizeof info};
  stg_components *made = NULL;
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  size_t bytes = 0;
  (void)state;
  open_all(&all);
  const stg_components_tensors given = comp_tensors(&all.c);
  const stg_components_grads grads = comp_grads(&all.c);
  desc.backward = false;
  must(stg_components_create(all.engine, &desc, &made, &error), &error);
  must_say(STG_E_NOT_DECLARED, "stg_components_back: the components do not declare backward",
           stg_components_back(made, &given, &grads, NULL, &error), &error);
  must_say(STG_E_NOT_DECLARED, "stg_components_work_bytes: the components do not declare backward",
           stg_components_work_bytes(made, 1, 1, &bytes, &error), &error);
  must_say(STG_E_NOT_DECLARED, "stg_components_plan: the components do not declare backward",
           stg_components_plan(made, 1, true, &info, &error), &error);
  must_say(STG_E_INVALID, "rows: 0; a plan is of one at least",
           stg_components_plan(made, 0, false, &info, &error), &error);
  must_say(STG_E_INVALID, "rows: 2147483648 is not in 0..2147483647",
           stg_components_plan(made, 2147483648, false, &info, &error), &error);
  info.struct_size = 1;
  assert_int_equal(STG_E_INVALID, stg_components_plan(made, 1, false, &info, &error));
  assert_non_null(
      strstr(error.message,
             "stg_components_plan: components or ret_info is NULL, or struct_size is 1, not "));
  must(stg_components_destroy(made, &error), &error);
  close_all(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(declarations),
      cmocka_unit_test(tensors),
      cmocka_unit_test(gradients),
      cmocka_unit_test(a_shared_mask_needs_memory),
      cmocka_unit_test(what_is_not_declared),
      cmocka_unit_test(the_way_back_is_declared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
