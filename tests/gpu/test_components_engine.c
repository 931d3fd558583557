/*
 * test_components_engine.c: components through the public API on a device: within the oracle's
 * bounds, in a host's capture, from a warm-up; and what is refused there.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/components_objects.h"
#include "tests/support/steer_env.h"
#include "tests/support/temp_folder.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define REPLAYS 100
#define MAX_OWNED 24

/* A case of the host, and its tensors on the engine's side. */
struct remote {
  stg_engine *engine;
  stg_components *components;
  struct attn_bed bed;
  struct components_case c;
  stg_components_tensors tensors;
  stg_components_grads grads;
  void *owned[MAX_OWNED];
  size_t n_owned;
};

static void *send(struct remote *remote, const void *host, int64_t elems, size_t unit) {
  void *memory = NULL;
  stg_error error = STG_ERROR_INIT;
  if (host == NULL) {
    return NULL;
  }
  assert_true(remote->n_owned < MAX_OWNED);
  check_ok(stg_mem_alloc(remote->engine, (size_t)elems * unit, &memory, &error), &error);
  check_ok(stg_mem_upload(remote->engine, memory, host, (size_t)elems * unit, &error), &error);
  remote->owned[remote->n_owned++] = memory;
  return memory;
}

/* Where results are on the engine's side, in the order of components_result. */
struct there {
  void **results[COMPONENTS_RESULTS];
};

static struct there there_of(struct remote *remote) {
  stg_components_grads *grads = &remote->grads;
  return (struct there){{&remote->tensors.y, &grads->dx, &grads->dv, &grads->du, &grads->dm,
                         &grads->dbias, &grads->dd, &grads->ddelta}};
}

/* As much as is asked for, NaN. */
static void give_work(struct remote *remote) {
  stg_components_grads *grads = &remote->grads;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_components_work_bytes(remote->components, remote->tensors.rows,
                                     remote->tensors.mask_share, &grads->work_bytes, &error),
           &error);
  const int64_t floats = (int64_t)(grads->work_bytes / sizeof(float));
  grads->work = send(remote, attn_nans(&remote->bed, STG_F32, floats), floats, sizeof(float));
}

/* Everything of the case; results are NaN there too. */
static void send_all(struct remote *remote) {
  const struct components_case *c = &remote->c;
  const struct stg_components_geometry *g = &c->geometry;
  const struct stg_components_inputs *in = &c->inputs;
  const int64_t rows = in->rows.rows;
  const int64_t groups = (rows + in->mask_share - 1) / in->mask_share;
  const int64_t sequences =
      in->rows.valid != NULL ? (rows + in->rows.sequence - 1) / in->rows.sequence : 0;
  const size_t unit = stg_dtype_bytes(g->dtype);
  const size_t mask_unit = g->mask == STG_COMPONENTS_MASK_BOOL ? 1 : unit;
  stg_components_tensors *t = &remote->tensors;
  stg_components_grads *grads = &remote->grads;
  *t = comp_tensors(c);
  *grads = comp_grads(c);
  t->x = send(remote, in->x, rows * in->x_stride, unit);
  t->v = send(remote, in->v, (int64_t)g->d_in * g->components, unit);
  t->u = send(remote, in->u, (int64_t)g->components * g->d_out, unit);
  t->mask = send(remote, in->mask, groups * in->mask_stride, mask_unit);
  t->bias = send(remote, in->bias, g->d_out, unit);
  t->d = send(remote, in->d, rows, unit);
  t->delta = send(remote, in->delta, (int64_t)g->d_out * g->d_in, unit);
  t->valid = send(remote, in->rows.valid, sequences, sizeof *in->rows.valid);
  t->y = send(remote, c->y, rows * c->y_stride, unit);
  grads->dy = send(remote, c->dy, rows * c->dy_stride, unit);
  const struct there at = there_of(remote);
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(c, k);
    *at.results[k] = send(remote, result.data, result.rows * result.stride, unit);
  }
  give_work(remote);
}

static void put_back(const struct remote *remote, void *to, const void *host, int64_t elems) {
  const size_t unit = stg_dtype_bytes(remote->c.geometry.dtype);
  stg_error error = STG_ERROR_INIT;
  if (to != NULL) {
    check_ok(stg_mem_upload(remote->engine, to, host, (size_t)elems * unit, &error), &error);
  }
}

static void fetch_one(const struct remote *remote, void *host, const void *from, int64_t elems) {
  const size_t unit = stg_dtype_bytes(remote->c.geometry.dtype);
  stg_error error = STG_ERROR_INIT;
  if (from != NULL) {
    check_ok(stg_mem_download(remote->engine, host, from, (size_t)elems * unit, &error), &error);
  }
}

/* What is there when the stream has done all. */
static void fetch(struct remote *remote, stg_stream stream) {
  const struct there at = there_of(remote);
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_synchronize(stg_mem_device(remote->engine), stream, &error), &error);
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(&remote->c, k);
    fetch_one(remote, result.data, *at.results[k], result.rows * result.stride);
  }
}

/* Another place for results, NaN on both sides. */
static void renew(struct remote *remote) {
  const struct there at = there_of(remote);
  components_renew(&remote->c);
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(&remote->c, k);
    put_back(remote, *at.results[k], result.data, result.rows * result.stride);
  }
}

/* `valid`: of sequences of 13 rows; NULL: all are there. */
static void open_remote(struct remote *remote, stg_engine *engine,
                        const struct components_shape *shape, const int32_t *valid) {
  stg_components_desc desc = comp_desc(&shape->geometry);
  stg_error error = STG_ERROR_INIT;
  desc.max_rows = shape->rows;
  *remote = (struct remote){.engine = engine};
  attn_open(&remote->bed, 23);
  components_open(&remote->bed, shape, &remote->c);
  remote->c.inputs.rows.valid = valid;
  remote->c.inputs.rows.sequence = 13;
  check_ok(stg_components_create(engine, &desc, &remote->components, &error), &error);
  send_all(remote);
}

static void close_remote(struct remote *remote) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_components_destroy(remote->components, &error), &error);
  while (remote->n_owned > 0) {
    stg_mem_free(remote->engine, remote->owned[--remote->n_owned]);
  }
  attn_close(&remote->bed);
}

static void call(const struct remote *remote, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_components_apply(remote->components, &remote->tensors, stream, &error), &error);
  check_ok(
      stg_components_back(remote->components, &remote->tensors, &remote->grads, stream, &error),
      &error);
}

static void check_bounds(const struct components_case *c) {
  const struct stg_oracle_components_report forward = components_check(c);
  const struct stg_oracle_components_report back = components_check_back(c);
  if (!forward.ok || !back.ok) {
    const struct stg_oracle_components_report *r = forward.ok ? &back : &forward;
    fail_msg("%s[%lld][%lld] is the first of %llu violations; the worst is %g of its bound",
             r->first_in, (long long)r->first_row, (long long)r->first_element,
             (unsigned long long)r->violations, r->worst_ratio);
  }
  components_expect_gaps(c);
}

static struct components_shape shape_of(size_t how) {
  static const uint32_t sizes[][4] = {
      {128, 300, 128, 150}, {5, 7, 341, 40}, {341, 40, 32, 129}, {1, 1200, 512, 3}};
  static const int64_t shares[] = {1, 13, 0};
  const uint32_t *n = sizes[how % 4];
  struct components_shape shape = components_shape(n[0], n[1], n[2], n[3]);
  shape.geometry.dtype = how / 2 % 2 == 0 ? STG_BF16 : how % 8 < 4 ? STG_F16 : STG_F32;
  shape.geometry.tf32 = how % 8 == 6;
  if (shape.geometry.dtype == STG_F32) { /* what every card has room for */
    shape.geometry.d_in = n[0] < 128 ? n[0] : 128;
    shape.geometry.d_out = n[2] < 128 ? n[2] : 128;
  }
  shape.geometry.mask = (enum stg_components_mask)(how % 3);
  shape.geometry.bias = how % 5 < 3;
  shape.geometry.delta = how % 7 < 4;
  shape.share = shares[how / 3 % 3];
  return shape;
}

static const int32_t valid[] = {13, 0, 5, 13, 13, -1, 40, 1, 13, 7, 2, 13};

static void calls_are_within_the_bounds(void **state) {
  const struct steer_env *env = *state;
  for (size_t how = 0; how < (env->quick ? 8 : 16); how++) {
    const struct components_shape shape = shape_of(how);
    struct remote remote;
    open_remote(&remote, env->engine, &shape, how % 2 != 0 ? valid : NULL);
    call(&remote, NULL);
    fetch(&remote, NULL);
    check_bounds(&remote.c);
    close_remote(&remote);
  }
}

static void expect_same(const struct components_case *a, const struct components_case *b) {
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(a, k);
    if (result.data != NULL) {
      components_expect_same(a, b, k, result.rows);
    }
  }
}

static struct components_shape whole_shape(void) {
  struct components_shape shape = components_shape(128, 120, 64, 70);
  shape.geometry.dtype = STG_BF16;
  shape.geometry.bias = shape.geometry.delta = true;
  return shape;
}

/* Only some of them, of which dm of rows, dx and dd need no work memory. */
static void some_gradients_have_the_bits_of_all(void **state) {
  const struct steer_env *env = *state;
  static const unsigned sets[] = {1U << 4, 1U << 1, 1U << 6, 1U << 2, 1U << 7 | 1U << 1};
  const struct components_shape shape = whole_shape();
  struct components_case whole;
  struct remote remote;
  stg_error error = STG_ERROR_INIT;
  open_remote(&remote, env->engine, &shape, valid);
  call(&remote, NULL);
  fetch(&remote, NULL);
  whole = remote.c;
  check_bounds(&whole);
  for (size_t i = 0; i < COUNT(sets); i++) {
    stg_components_grads all = remote.grads;
    renew(&remote);
    const struct there at = there_of(&remote);
    for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
      *at.results[k] = (sets[i] & 1U << k) != 0 ? *at.results[k] : NULL;
    }
    remote.grads.work_bytes = i < 3 ? 0 : remote.grads.work_bytes;
    remote.grads.work = i < 3 ? NULL : remote.grads.work;
    check_ok(stg_components_back(remote.components, &remote.tensors, &remote.grads, NULL, &error),
             &error);
    remote.grads = all;
    fetch(&remote, NULL);
    for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
      const struct components_result result = components_result(&remote.c, k);
      if ((sets[i] & 1U << k) != 0) {
        components_expect_same(&whole, &remote.c, k, result.rows);
      } else if (result.data != NULL) {
        assert_true(isnan(stg_load_f32(shape.geometry.dtype, result.data, 0)));
      }
    }
  }
  close_remote(&remote);
}

static void no_rows_give_sums_of_nothing(void **state) {
  const struct steer_env *env = *state;
  const struct components_shape shape = whole_shape();
  struct remote remote;
  open_remote(&remote, env->engine, &shape, NULL);
  remote.tensors.rows = 0;
  remote.grads.work = NULL;
  remote.grads.work_bytes = 0;
  call(&remote, NULL);
  fetch(&remote, NULL);
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(&remote.c, k);
    const bool has_sums = k == 2 || k == 3 || k == 5 || k == 7; /* dv, du, dbias, ddelta */
    for (int64_t j = 0; j < result.columns; j++) {
      const float x = stg_load_f32(shape.geometry.dtype, result.data, (size_t)j);
      assert_true(has_sums ? x == 0 : isnan(x));
    }
  }
  close_remote(&remote);
}

/* ---- captures ---- */

/* Other numbers in x, on the engine's side as here. */
static void draw(struct remote *remote) {
  struct components_case *c = &remote->c;
  const int64_t elems = c->inputs.rows.rows * c->inputs.x_stride;
  c->inputs.x = attn_random(&remote->bed, c->geometry.dtype, elems);
  put_back(remote, (void *)(uintptr_t)remote->tensors.x, c->inputs.x, elems);
}

/* Each replay has what x, and the lengths of its sequences, then are; and what was taken from the
 * first one is not touched by those that follow. */
static void replays_equal_calls(void **state) {
  const struct steer_env *env = *state;
  struct stg_device *device = stg_mem_device(env->engine);
  const struct components_shape shape = whole_shape();
  struct stg_graph *graph = NULL;
  stg_stream_handle stream = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  struct components_case eager;
  struct components_case first;
  struct remote remote;
  open_remote(&remote, env->engine, &shape, valid);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  check_ok(stg_capture_begin(device, stream, &error), &error);
  call(&remote, stream); /* nothing was called before */
  check_ok(stg_capture_end(device, stream, &graph, &nodes, &error), &error);
  assert_int_equal(1 + 3, nodes);
  const uint64_t compiles = steer_engine_stats(env->engine).kernel_compiles;
  for (int i = 0; i < REPLAYS; i++) {
    draw(&remote);
    check_ok(stg_graph_launch(device, graph, stream, &error), &error);
    fetch(&remote, stream);
    if (i == 0) {
      first = remote.c;
      check_bounds(&first);
    }
    eager = remote.c;
    renew(&remote);
    call(&remote, stream);
    fetch(&remote, stream);
    expect_same(&eager, &remote.c);
    renew(&remote);
  }
  check_bounds(&first);
  assert_int_equal(compiles, steer_engine_stats(env->engine).kernel_compiles);
  assert_int_equal(STG_E_BUSY, stg_components_destroy(remote.components, &error));
  assert_non_null(strstr(error.message, "1 host graphs that were captured with the components"));
  stg_graph_destroy(device, graph);
  close_remote(&remote);
  stg_stream_destroy(device, stream);
}

/* ---- a warm-up ---- */

/* Launches over no rows, with no tensor anywhere. */
static void what_was_called_warms(void **state) {
  const struct steer_env *env = *state;
  const struct components_shape shape = whole_shape();
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  struct remote remote;
  void *folder = NULL;
  char *json = NULL;
  size_t bytes = 0;
  assert_int_equal(0, temp_folder_setup(&folder));
  const char *path = temp_path(&folder, "traffic.json");
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = env->cache_path;
  options.pack_path = "";
  stg_engine *engine = steer_engine(&options);
  open_remote(&remote, engine, &shape, NULL);
  call(&remote, NULL);
  fetch(&remote, NULL);
  check_ok(stg_traffic_save(engine, path, &error), &error);
  close_remote(&remote);
  steer_engine_close(engine);
  check_ok(stg_file_read(path, 1 << 20, &json, &bytes, &error), &error);
  engine = steer_engine(&options);
  check_ok(stg_warm(engine, path, json, bytes, NULL, &report, &error), &error);
  stg_free(json);
  assert_int_equal(2, report.done);
  assert_int_equal(2, report.graphs);
  open_remote(&remote, engine, &shape, NULL);
  call(&remote, NULL);
  fetch(&remote, NULL);
  check_bounds(&remote.c);
  assert_int_equal(0, steer_engine_stats(engine).kernel_compiles);
  close_remote(&remote);
  steer_engine_close(engine);
  assert_int_equal(0, temp_folder_teardown(&folder));
}

/* ---- what is refused ---- */

static void wider_rows_are_refused(void **state) {
  const struct steer_env *env = *state;
  const struct components_shape shape = components_shape(513, 7, 9, 11);
  const stg_components_desc desc = comp_desc(&shape.geometry);
  stg_components *made = NULL;
  stg_error error = STG_ERROR_INIT;
  const stg_status status = stg_components_create(env->engine, &desc, &made, &error);
  expect_error(STG_E_UNSUPPORTED, "there is no kernel of d_in=513, above 512 for sm_", status,
               &error);
  assert_null(made);
}

/* ---- times ---- */

#define CALLS 8
#define TIMED 7

struct timed {
  const struct remote *remote;
  struct stg_graph *graph;
};

static stg_status replay(void *user, stg_stream stream, stg_error *reterr) {
  const struct timed *timed = user;
  return stg_graph_launch(stg_mem_device(timed->remote->engine), timed->graph, stream, reterr);
}

/* Microseconds of a call, of the shortest graph of several: forward, or both ways. */
static double time_of(const struct remote *remote, bool back) {
  struct stg_device *device = stg_mem_device(remote->engine);
  struct timed timed = {.remote = remote};
  stg_stream_handle stream = NULL;
  stg_error error = STG_ERROR_INIT;
  double us[TIMED];
  double best = 0;
  size_t nodes = 0;
  check_ok(stg_stream_create(device, &stream, &error), &error);
  check_ok(stg_capture_begin(device, stream, &error), &error);
  for (int i = 0; i < CALLS; i++) {
    if (back) {
      call(remote, stream);
    } else {
      check_ok(stg_components_apply(remote->components, &remote->tensors, stream, &error), &error);
    }
  }
  check_ok(stg_capture_end(device, stream, &timed.graph, &nodes, &error), &error);
  check_ok(stg_mem_time_work(remote->engine, replay, &timed, 2, TIMED, us, &error), &error);
  for (int i = 0; i < TIMED; i++) {
    best = i == 0 || us[i] < best ? us[i] : best;
  }
  stg_graph_destroy(device, timed.graph);
  stg_stream_destroy(device, stream);
  return best / CALLS;
}

/* Rows without gaps, as hosts have them: those of a case begin anywhere. */
static void close_gaps(struct remote *remote) {
  const struct stg_components_geometry *g = &remote->c.geometry;
  remote->tensors.x_stride = remote->grads.dx_stride = g->d_in;
  remote->tensors.y_stride = remote->grads.dy_stride = g->d_out;
  remote->tensors.mask_stride = remote->grads.dm_stride = g->components;
}

/* The shapes that have targets, STG_TEST_TIME=1: asserts nothing of the times. Of the way back
 * there are three products of each that the way forth has one of. */
static void prints_times_where_asked_to(void **state) {
  const struct steer_env *env = *state;
  static const uint32_t outs[] = {128, 341};
  const char *asked = getenv("STG_TEST_TIME");
  if (asked == NULL) {
    skip();
  }
  print_message("%-32s %9s %8s %9s %8s\n", "components, 16384 rows, C 1200", "y us", "TFLOP/s",
                "both us", "TFLOP/s");
  for (size_t i = 0; i < 6; i++) {
    struct components_shape shape = components_shape(128, 1200, outs[i % 2], 16384);
    struct remote remote;
    shape.geometry.dtype = i < 2 ? STG_BF16 : STG_F32;
    shape.geometry.tf32 = i / 2 == 1;
    open_remote(&remote, env->engine, &shape, NULL);
    close_gaps(&remote);
    const double flop = 2.0 * 16384 * 1200 * (128 + outs[i % 2]);
    const double forward = time_of(&remote, false);
    const double both = time_of(&remote, true);
    print_message("128->%-4u %-22s %9.2f %8.1f %9.2f %8.1f\n", outs[i % 2],
                  shape.geometry.tf32 ? "tf32" : stg_dtype_name(shape.geometry.dtype), forward,
                  flop / forward / 1e6, both, 4 * flop / both / 1e6);
    close_remote(&remote);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_are_within_the_bounds),
      cmocka_unit_test(replays_equal_calls),
      cmocka_unit_test(what_was_called_warms),
      cmocka_unit_test(some_gradients_have_the_bits_of_all),
      cmocka_unit_test(no_rows_give_sums_of_nothing),
      cmocka_unit_test(wider_rows_are_refused),
      cmocka_unit_test(prints_times_where_asked_to),
  };
  const int skip = skip_without_gpu();
  return skip != 0 ? skip : cmocka_run_group_tests(tests, steer_env_cuda, steer_env_close);
}
