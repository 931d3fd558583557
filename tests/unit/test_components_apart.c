/*
 * test_components_apart.c: what a call of components writes is apart from what it reads and from
 * whatever else it writes; but columns of one buffer are apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/components_objects.h"

#define N 6
#define D_IN 4
#define C 5
#define D_OUT 4 /* as D_IN: y has the shape of x */
#define PITCH ((int64_t)D_IN + C + D_OUT)

struct apart {
  stg_engine *engine;
  stg_components *components;
  struct attn_bed bed;
  struct components_case c;
  stg_components_tensors tensors;
  stg_components_grads grads;
  int32_t valid[N];
};

static void open_apart(struct apart *all) {
  struct components_shape shape = components_shape(D_IN, C, D_OUT, N);
  stg_error error = STG_ERROR_INIT;
  shape.geometry.bias = shape.geometry.delta = true;
  shape.share = 3;
  const stg_components_desc desc = comp_desc(&shape.geometry);
  *all = (struct apart){.engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT),
                        .valid = {3, 2, 0, 0, 0, 0}};
  attn_open(&all->bed, 1);
  components_open(&all->bed, &shape, &all->c);
  must(stg_components_create(all->engine, &desc, &all->components, &error), &error);
  all->tensors = comp_tensors(&all->c);
  all->grads = comp_grads(&all->c);
  comp_give_work(&all->bed, all->components, &all->tensors, &all->grads);
}

static void close_apart(struct apart *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_destroy(all->components, &error), &error);
  must(stg_engine_destroy(all->engine, &error), &error);
  attn_close(&all->bed);
}

static void must_overlap(const char *written, const void *at, const char *other, const void *at_too,
                         stg_status status, const stg_error *error) {
  char message[160];
  (void)snprintf(message, sizeof message,
                 "%s: at %p, it overlaps %s at %p; give it memory of its own", written, at, other,
                 at_too);
  must_say(STG_E_INVALID, message, status, error);
}

/* y at some address is refused because of `other`. */
static void refuse_y(const struct apart *all, const stg_components_tensors *given, void *y,
                     const char *other, const void *at) {
  stg_components_tensors tensors = *given;
  stg_error error = STG_ERROR_INIT;
  tensors.y = y;
  must_overlap("y", y, other, at, stg_components_apply(all->components, &tensors, NULL, &error),
               &error);
}

static void y_overlaps_nothing(void **state) {
  struct apart all;
  float rows[(N + 1) * D_IN] = {0}, delta[N * D_OUT + D_IN * D_OUT] = {0};
  (void)state;
  open_apart(&all);
  stg_components_tensors given = all.tensors;
  given.x_stride = given.y_stride = 0;
  given.x = rows + D_IN; /* y = x[:-1] of x[1:], and the other way round */
  refuse_y(&all, &given, rows, "x", given.x);
  given.x = rows;
  refuse_y(&all, &given, rows + D_IN, "x", given.x);
  refuse_y(&all, &given, rows, "x", given.x);
  given.x = all.tensors.x;
  given.x_stride = all.tensors.x_stride;
  given.delta = delta + (int64_t)N * D_OUT - 1; /* by one element */
  refuse_y(&all, &given, delta, "delta", given.delta);
  given.delta = all.tensors.delta;
  given.v = given.u = given.mask = given.bias = given.d = given.delta;
  given.v = rows;
  refuse_y(&all, &given, rows, "v", given.v);
  given.v = given.delta;
  given.u = rows;
  refuse_y(&all, &given, rows, "u", given.u);
  given.u = given.delta;
  given.mask = rows;
  refuse_y(&all, &given, rows, "mask", given.mask);
  given.mask = given.delta;
  given.bias = rows;
  refuse_y(&all, &given, rows, "bias", given.bias);
  given.bias = given.delta;
  given.d = rows;
  refuse_y(&all, &given, rows, "d", given.d);
  given.d = given.delta;
  given.valid = all.valid;
  given.sequence = 3;
  refuse_y(&all, &given, all.valid, "valid", given.valid);
  close_apart(&all);
}

/* x, the mask and y as columns of one buffer give what tensors of their own do. */
static void columns_of_one_buffer_are_apart(void **state) {
  struct apart all;
  float buffer[N * PITCH] = {0}, expected[N * D_OUT];
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_apart(&all);
  const float *x = all.tensors.x, *mask = all.tensors.mask;
  must(stg_components_apply(all.components, &all.tensors, NULL, &error), &error);
  for (int64_t row = 0; row < N; row++) {
    float *to = buffer + row * PITCH;
    memcpy(to, x + row * all.tensors.x_stride, D_IN * sizeof *to);
    memcpy(to + D_IN, mask + row / 3 * all.tensors.mask_stride, C * sizeof *to);
    memcpy(expected + row * D_OUT, (float *)all.tensors.y + row * all.tensors.y_stride,
           D_OUT * sizeof *to);
  }
  stg_components_tensors given = all.tensors;
  given.x = buffer;
  given.mask = buffer + D_IN;
  given.y = buffer + D_IN + C;
  given.x_stride = given.y_stride = PITCH;
  given.mask_stride = 3 * PITCH; /* those of the rows 0 and 3 */
  must(stg_components_apply(all.components, &given, NULL, &error), &error);
  for (int64_t row = 0; row < N; row++) {
    assert_memory_equal(expected + row * D_OUT, buffer + row * PITCH + D_IN + C,
                        D_OUT * sizeof *expected);
  }
  /* one element to the left is the mask's, one to the right the next row's x */
  refuse_y(&all, &given, buffer + D_IN + C - 1, "mask", given.mask);
  given.rows = N - 1;
  given.mask_share = 1;
  given.mask = all.tensors.delta;
  given.mask_stride = 0;
  refuse_y(&all, &given, buffer + D_IN + C + 1, "x", given.x);
  close_apart(&all);
}

static void refuse_grads(const struct apart *all, const stg_components_grads *grads,
                         const char *written, const void *at, const char *other,
                         const void *at_too) {
  stg_error error = STG_ERROR_INIT;
  must_overlap(written, at, other, at_too,
               stg_components_back(all->components, &all->tensors, grads, NULL, &error), &error);
}

static void gradients_overlap_neither_inputs_nor_each_other(void **state) {
  struct apart all;
  float buffer[N * PITCH];
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_apart(&all);
  const stg_components_grads base = all.grads;
  stg_components_grads grads = base;
  grads.dx = (void *)(uintptr_t)all.tensors.x;
  refuse_grads(&all, &grads, "dx", grads.dx, "x", all.tensors.x);
  grads = base;
  grads.dv = (void *)(uintptr_t)base.dy;
  refuse_grads(&all, &grads, "dv", grads.dv, "dy", base.dy);
  grads = base;
  grads.du = (float *)base.dv + (int64_t)D_IN * C - 1;
  refuse_grads(&all, &grads, "du", grads.du, "dv", base.dv);
  grads = base;
  grads.dm = base.dx;
  refuse_grads(&all, &grads, "dm", grads.dm, "dx", base.dx);
  grads = base;
  grads.dbias = base.du;
  refuse_grads(&all, &grads, "dbias", grads.dbias, "du", base.du);
  grads = base;
  grads.dd = base.dbias;
  refuse_grads(&all, &grads, "dd", grads.dd, "dbias", base.dbias);
  grads = base;
  grads.ddelta = base.dd;
  refuse_grads(&all, &grads, "ddelta", grads.ddelta, "dd", base.dd);
  grads = base;
  grads.ddelta = base.work;
  refuse_grads(&all, &grads, "work", base.work, "ddelta", base.work);
  /* y and bias are not looked at, nor what is not wanted, nor memory that is not needed */
  all.tensors.y = base.dv;
  all.tensors.bias = base.dv;
  must(stg_components_back(all.components, &all.tensors, &base, NULL, &error), &error);
  grads = (stg_components_grads){.struct_size = sizeof grads,
                                 .dy = base.dy,
                                 .dy_stride = base.dy_stride,
                                 .dx = buffer,
                                 .dx_stride = PITCH,
                                 .work = buffer,
                                 .work_bytes = sizeof buffer};
  must(stg_components_back(all.components, &all.tensors, &grads, NULL, &error), &error);
  grads.dm = buffer + D_IN;
  grads.dm_stride = 3 * PITCH;
  grads.work = base.work;
  grads.work_bytes = base.work_bytes;
  must(stg_components_back(all.components, &all.tensors, &grads, NULL, &error), &error);
  close_apart(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(y_overlaps_nothing),
      cmocka_unit_test(columns_of_one_buffer_are_apart),
      cmocka_unit_test(gradients_overlap_neither_inputs_nor_each_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
