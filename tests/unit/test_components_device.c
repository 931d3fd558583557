/*
 * test_components_device.c: components on a device of the host: launches of the grids and with the
 * flags that kernels take on trust; captures and replays; what no kernel is of; memory
 * and a device that are gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "engine/engine.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "tests/support/components_objects.h"
#include "tests/support/host_device.h"
#include "tests/support/temp_folder.h"

/* A case, its components on a device, and what a call of each way is given. */
struct comp {
  stg_engine *engine;
  stg_components *components;
  struct attn_bed bed;
  struct components_case c;
  stg_components_tensors tensors;
  stg_components_grads grads;
};

/* What a call is given of the case as it is. */
static void give(struct comp *all) {
  all->tensors = comp_tensors(&all->c);
  all->grads = comp_grads(&all->c);
  comp_give_work(&all->bed, all->components, &all->tensors, &all->grads);
}

static void open_all(struct comp *all, const struct components_shape *shape, uint32_t tile) {
  stg_components_desc desc = comp_desc(&shape->geometry);
  stg_error error = STG_ERROR_INIT;
  desc.tile = tile;
  *all = (struct comp){.engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT)};
  attn_open(&all->bed, 11);
  components_open(&all->bed, shape, &all->c);
  must(stg_components_create(all->engine, &desc, &all->components, &error), &error);
  give(all);
  host_device_reset_calls();
}

static void close_all(struct comp *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_destroy(all->components, &error), &error);
  must(stg_engine_destroy(all->engine, &error), &error);
  attn_close(&all->bed);
}

static void synchronize(const struct comp *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_stream_synchronize(stg_mem_device(all->engine), NULL, &error), &error);
}

static struct components_shape shape_of(size_t how) {
  static const int64_t shares[] = {1, 4, 0};
  struct components_shape shape = components_shape(5, 7, 9, 70);
  shape.share = shares[how % 3];
  shape.geometry.mask = (enum stg_components_mask)(how / 3 % 3);
  shape.geometry.dtype = how / 9 % 2 == 0 ? STG_BF16 : STG_F16;
  shape.geometry.bias = how % 2 == 0;
  shape.geometry.delta = how % 4 < 2;
  return shape;
}

static struct components_shape whole_shape(void) {
  struct components_shape shape = components_shape(16, 24, 8, 40);
  shape.geometry.dtype = STG_BF16;
  shape.geometry.bias = shape.geometry.delta = true;
  return shape;
}

static void apply(struct comp *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_apply(all->components, &all->tensors, NULL, &error), &error);
}

static void turn(struct comp *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_back(all->components, &all->tensors, &all->grads, NULL, &error), &error);
}

static void expect_same(const struct components_case *wanted, const struct components_case *c) {
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(wanted, k);
    if (result.data != NULL) {
      components_expect_same(wanted, c, k, result.rows);
    }
  }
  components_expect_gaps(c);
}

/* ---- launches ---- */

/* Grids and flags are looked at by the device of the host. */
static void calls_are_launches_with_the_bits_of_the_backend(void **state) {
  static const int32_t valid[] = {3, 0, 9, 20, -1, 2, 9, 9};
  static const uint32_t tiles[] = {32, 64, 128};
  (void)state;
  for (size_t how = 0; how < 36; how++) {
    const struct components_shape shape = shape_of(how);
    struct comp all;
    open_all(&all, &shape, tiles[how / 2 % 3]);
    all.c.inputs.rows.valid = how % 5 == 0 ? valid : NULL;
    all.c.inputs.rows.sequence = 9;
    give(&all);
    struct components_case wanted = all.c;
    components_renew(&wanted);
    components_run(&wanted);
    apply(&all);
    assert_non_null(strstr(host_device_launched(), " weights=plain "));
    assert_int_equal(1, host_device_calls().launches);
    turn(&all);
    assert_non_null(strstr(host_device_launched(), " work=sum "));
    assert_int_equal(1 + 3, host_device_calls().launches);
    assert_int_equal(2, host_device_calls().early); /* behind one of ours */
    synchronize(&all);
    expect_same(&wanted, &all.c);
    close_all(&all);
  }
}

/* Places in components_result. */
enum { DX = 1 << 1, DV = 1 << 2, DU = 1 << 3, DM = 1 << 4, DBIAS = 1 << 5, DD = 1 << 6 };
#define DDELTA (1 << 7)

static void expect_nan(const struct components_case *c, size_t k) {
  const struct components_result result = components_result(c, k);
  for (int64_t i = 0; i < result.rows * result.columns; i++) {
    const size_t at = (size_t)(i / result.columns * result.stride + i % result.columns);
    assert_true(isnan(stg_load_f32(c->geometry.dtype, result.data, at)));
  }
}

/* Ask for some gradients, which have the bits that they have among all; the others are left. */
static void ask_for(struct comp *all, const struct components_case *wanted, int which,
                    size_t launches) {
  components_renew(&all->c);
  give(all);
  void **const gradients[COMPONENTS_RESULTS] = {
      NULL,           &all->grads.dx,    &all->grads.dv, &all->grads.du,
      &all->grads.dm, &all->grads.dbias, &all->grads.dd, &all->grads.ddelta};
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    *gradients[k] = (which & 1 << k) != 0 ? *gradients[k] : NULL;
  }
  if ((which & ~(DX | DD | DM)) == 0 && all->c.inputs.mask_share == 1) {
    all->grads.work = NULL; /* which has no sums */
    all->grads.work_bytes = 0;
  }
  host_device_reset_calls();
  turn(all);
  synchronize(all);
  assert_int_equal(launches, host_device_calls().launches);
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    if ((which & 1 << k) != 0) {
      components_expect_same(wanted, &all->c, k, components_result(wanted, k).rows);
    } else {
      expect_nan(&all->c, k);
    }
  }
}

static void what_is_not_wanted_is_not_written(void **state) {
  static const struct {
    int which;
    size_t launches[2]; /* a row of the mask for each row, and one that some share */
  } cases[] = {{DX, {1, 1}},      {DD, {1, 1}},      {DX | DD, {1, 1}},
               {DM, {1, 2}},      {DM | DX, {2, 3}}, {DV, {2, 2}},
               {DU | DD, {3, 3}}, {DBIAS, {2, 2}},   {DDELTA | DBIAS, {2, 2}},
               {DM | DU, {2, 2}}, {0, {0, 0}}};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct components_shape shape = whole_shape();
    struct components_case wanted;
    struct comp all;
    shape.share = i == 0 ? 1 : 7;
    open_all(&all, &shape, 0);
    wanted = all.c;
    components_renew(&wanted);
    components_run(&wanted);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
      ask_for(&all, &wanted, cases[k].which, cases[k].launches[i]);
    }
    close_all(&all);
  }
}

/* But for sums of nothing, which are zeros. */
static void no_rows_are_no_launch(void **state) {
  const struct components_shape shape = whole_shape();
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  all.tensors.rows = 0;
  apply(&all);
  assert_int_equal(0, host_device_calls().launches);
  all.grads.work = NULL;
  all.grads.work_bytes = 0;
  turn(&all);
  synchronize(&all);
  assert_int_equal(1, host_device_calls().launches);
  const struct components_result dv = components_result(&all.c, 2);
  for (int64_t i = 0; i < dv.rows * dv.columns; i++) {
    assert_true(stg_load_f32(STG_BF16, dv.data, (size_t)i) == 0);
  }
  expect_nan(&all.c, 1); /* dx */
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(all.engine, &stats);
  assert_int_equal(2, stats.components_applies);
  assert_int_equal(0, stats.traffic_shapes);
  close_all(&all);
}

static void plans_say_which_kernels_follow_each_other(void **state) {
  static const char forward[] =
      "components v1 | work=apply d_in=16 d_out=8 components=24 dtype=bf16 math=exact | "
      "weights=plain mask=elements bias=1 delta=1 tile=64 | sm_90 | batch<=8 seq<=1 rows<=40";
  static const char back[] =
      "components v1 | work=apply d_in=16 d_out=8 components=24 dtype=bf16 math=exact | "
      "weights=turned mask=elements bias=0 delta=1 tile=64 + "
      "components v1 | work=weights d_in=16 d_out=8 components=24 dtype=bf16 math=exact | "
      "mask=elements bias=1 delta=1 + "
      "components v1 | work=sum d_in=16 d_out=8 components=24 dtype=bf16 | bias=1 delta=1 | "
      "sm_90 | batch<=8 seq<=1 rows<=40";
  const struct components_shape shape = whole_shape();
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 64);
  must(stg_components_plan(all.components, 40, false, &info, &error), &error);
  assert_string_equal(forward, info.signature);
  assert_int_equal(64, info.tile_rows);
  assert_int_equal(256, info.threads);
  must(stg_components_plan(all.components, 40, true, &info, &error), &error);
  assert_string_equal(back, info.signature);
  apply(&all);
  turn(&all);
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(all.engine, &stats);
  assert_int_equal(2, stats.traffic_shapes);
  close_all(&all);
}

/* What was called is written, and warms another engine: nothing is compiled then. */
static void what_was_called_warms(void **state) {
  const struct components_shape shape = whole_shape();
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(state, "traffic.json");
  char *json = NULL;
  size_t bytes = 0;
  struct comp all;
  open_all(&all, &shape, 0);
  apply(&all);
  turn(&all);
  must(stg_traffic_save(all.engine, path, &error), &error);
  close_all(&all);
  must(stg_file_read(path, 1 << 20, &json, &bytes, &error), &error);
  stg_engine *engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
  host_device_reset_calls();
  must(stg_warm(engine, path, json, bytes, NULL, &report, &error), &error);
  stg_free(json);
  assert_int_equal(2, report.done);
  assert_int_equal(2, report.graphs);
  assert_int_equal(1 + 3, host_device_calls().launches); /* over no rows */
  must(stg_engine_destroy(engine, &error), &error);
}

/* ---- captures ---- */

#define ALIVE                                                                                      \
  "stg_components_destroy: 1 host graphs that were captured with the components are alive; "       \
  "destroy them first"

/* Nothing runs in a capture; each replay does, with the lengths that are there then. */
static void replays_follow_the_device(void **state) {
  const struct components_shape shape = whole_shape();
  struct components_case wanted;
  int32_t valid[5] = {8, 8, 3, 0, 8};
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  all.c.inputs.rows.valid = valid;
  all.c.inputs.rows.sequence = 8;
  give(&all);
  const uint64_t capture = host_device_begin_capture();
  apply(&all);
  turn(&all);
  host_device_end_capture();
  assert_int_equal(0, host_device_calls().launches);
  for (int i = 0; i < 3; i++) {
    valid[i] = 5 - i;
    wanted = all.c;
    components_renew(&wanted);
    components_run(&wanted);
    assert_int_equal(1 + 3, host_device_replay(capture, NULL));
    synchronize(&all);
    expect_same(&wanted, &all.c);
  }
  must_say(STG_E_BUSY, ALIVE, stg_components_destroy(all.components, &error), &error);
  assert_int_equal(1, host_device_drop_graph(capture));
  close_all(&all);
}

static void a_capture_that_holds_nothing_is_refused(void **state) {
  const struct components_shape shape = whole_shape();
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  const uint64_t capture = host_device_begin_capture();
  host_device_refuse_pins(true);
  const stg_status forward = stg_components_apply(all.components, &all.tensors, NULL, &error);
  const stg_status back = stg_components_back(all.components, &all.tensors, &all.grads, NULL, NULL);
  host_device_refuse_pins(false);
  host_device_end_capture();
  assert_int_equal(STG_E_CUDA, forward);
  assert_int_equal(STG_E_CUDA, back);
  assert_non_null(strstr(error.message, "cuGraphRetainUserObject failed: a test said so"));
  assert_int_equal(0, host_device_replay(capture, NULL));
  close_all(&all);
}

/* ---- what is not there ---- */

#define NO_KERNEL(what)                                                                            \
  "components: there is no kernel of " what " for sm_90; STG_BACKEND_CPU has it"

/* Each is made without any trouble on the CPU. */
static void what_no_kernel_is_of_is_refused_by_name(void **state) {
  static const struct {
    struct stg_components_geometry geometry;
    const char *message;
  } cases[] = {
      {{.d_in = 513, .d_out = 9, .components = 7, .dtype = STG_BF16},
       NO_KERNEL("d_in=513, above 512")},
      {{.d_in = 5, .d_out = 4096, .components = 7, .dtype = STG_F16},
       NO_KERNEL("d_out=4096, above 512")},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const stg_components_desc desc = comp_desc(&cases[i].geometry);
    stg_components *made = NULL;
    stg_error error = STG_ERROR_INIT;
    stg_engine *engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
    stg_engine *cpu = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
    must_say(STG_E_UNSUPPORTED, cases[i].message,
             stg_components_create(engine, &desc, &made, &error), &error);
    assert_null(made);
    must(stg_components_create(cpu, &desc, &made, &error), &error);
    must(stg_components_destroy(made, &error), &error);
    must(stg_engine_destroy(cpu, &error), &error);
    must(stg_engine_destroy(engine, &error), &error);
  }
}

static void a_lost_device_is_said(void **state) {
  const struct components_shape shape = whole_shape();
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  host_device_lose(true);
  must_say(STG_E_DEVICE_LOST, "device 0 is lost since a test said so",
           stg_components_apply(all.components, &all.tensors, NULL, &error), &error);
  must_say(STG_E_DEVICE_LOST, "device 0 is lost since a test said so",
           stg_components_back(all.components, &all.tensors, &all.grads, NULL, &error), &error);
  host_device_lose(false);
  close_all(&all);
}

/* Every allocation of a life fails in turn: nothing is left. Calls need none. */
static void memory_that_runs_out_leaves_nothing(void **state) {
  const struct components_shape shape = whole_shape();
  const stg_components_desc desc = comp_desc(&shape.geometry);
  size_t failures = 0;
  bool done = false;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  apply(&all); /* pins, and the traffic's memory, are there */
  turn(&all);
  stg_alloc_fail_at(1);
  apply(&all);
  turn(&all);
  stg_alloc_fail_at(0);
  for (size_t nth = 1; !done; nth++) {
    stg_components *components = NULL;
    stg_plan_info info = {.struct_size = sizeof info};
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = stg_components_create(all.engine, &desc, &components, &error);
    if (status == STG_OK) {
      status = stg_components_plan(components, 11, true, &info, &error);
    }
    done = status == STG_OK;
    stg_alloc_fail_at(0);
    if (!done) {
      assert_int_equal(STG_E_NO_MEMORY, status);
      assert_non_null(strstr(error.message, "memory"));
      failures++;
    }
    must(stg_components_destroy(components, &error), &error);
    assert_int_equal(1, atomic_load(&all.engine->alive[STG_OBJECT_COMPONENTS]));
  }
  assert_true(failures > 10);
  close_all(&all);
}

static void without_a_compiler_it_is_not_warm(void **state) {
  static const struct host_compiler refuses = {.missing = "components v1",
                                               .refused = "weights=turned"};
  const struct components_shape shape = whole_shape();
  const stg_components_desc desc = comp_desc(&shape.geometry);
  stg_components *made = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
  host_device_set_compiler(&refuses);
  must_say(STG_E_COMPILE, "NVRTC refuses it: a test said so",
           stg_components_create(engine, &desc, &made, &error), &error);
  assert_null(made);
  assert_int_equal(2, host_device_compiles()); /* apply, and turned */
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
  must(stg_engine_destroy(engine, &error), &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_are_launches_with_the_bits_of_the_backend),
      cmocka_unit_test(what_is_not_wanted_is_not_written),
      cmocka_unit_test(no_rows_are_no_launch),
      cmocka_unit_test(plans_say_which_kernels_follow_each_other),
      cmocka_unit_test_setup_teardown(what_was_called_warms, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(replays_follow_the_device),
      cmocka_unit_test(a_capture_that_holds_nothing_is_refused),
      cmocka_unit_test(what_no_kernel_is_of_is_refused_by_name),
      cmocka_unit_test(a_lost_device_is_said),
      cmocka_unit_test(memory_that_runs_out_leaves_nothing),
      cmocka_unit_test(without_a_compiler_it_is_not_warm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
