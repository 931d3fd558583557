/*
 * test_components_device.c: components on a device of the host: one launch a call, of the grid and
 * with the flags that the kernel takes on trust; captures and replays; what no kernel is of; memory
 * and a device that are gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/components_objects.h"
#include "tests/support/host_device.h"
#include "tests/support/temp_folder.h"

/* Results of a call of apply, turned or not: places in components_result. */
enum { RESULT_Y = 0, RESULT_DX = 1, RESULT_DD = 6 };

/* A case, its components on a device, and what a call of each way is given. */
struct comp {
  stg_engine *engine;
  stg_components *components;
  struct attn_bed bed;
  struct components_case c;
  stg_components_tensors tensors;
  stg_components_grads grads;
};

/* What the kernels that there are do not compute is not asked for. */
static void leave_what_is_launched(struct components_case *c) {
  c->out.dv = c->out.du = c->out.dm = c->out.dbias = c->out.ddelta = NULL;
}

static void give(struct comp *all) {
  all->tensors = comp_tensors(&all->c);
  all->grads = comp_grads(&all->c);
}

static void open_all(struct comp *all, const struct components_shape *shape, uint32_t tile) {
  stg_components_desc desc = comp_desc(&shape->geometry);
  stg_error error = STG_ERROR_INIT;
  desc.tile = tile;
  *all = (struct comp){.engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT)};
  attn_open(&all->bed, 11);
  components_open(&all->bed, shape, &all->c);
  leave_what_is_launched(&all->c);
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
  components_expect_same(wanted, c, RESULT_Y, c->inputs.rows.rows);
  components_expect_same(wanted, c, RESULT_DX, c->inputs.rows.rows);
  if (c->geometry.delta) {
    components_expect_same(wanted, c, RESULT_DD, c->inputs.rows.rows);
  }
  components_expect_gaps(c);
}

/* ---- launches ---- */

/* Grids and flags are looked at by the device of the host. */
static void each_way_is_one_launch_with_the_bits_of_the_backend(void **state) {
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
    turn(&all);
    assert_non_null(strstr(host_device_launched(), " weights=turned "));
    assert_int_equal(2, host_device_calls().launches);
    synchronize(&all);
    expect_same(&wanted, &all.c);
    close_all(&all);
  }
}

/* Each of dx and dd may be left out; of neither nothing is launched. */
static void what_is_not_wanted_is_not_written(void **state) {
  const struct components_shape shape = whole_shape();
  struct components_case wanted;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  wanted = all.c;
  components_renew(&wanted);
  components_run(&wanted);
  for (int i = 0; i < 3; i++) {
    components_renew(&all.c);
    leave_what_is_launched(&all.c);
    give(&all);
    all.grads.dx = i > 0 ? NULL : all.grads.dx;
    all.grads.dd = i != 1 ? NULL : all.grads.dd;
    host_device_reset_calls();
    turn(&all);
    synchronize(&all);
    assert_int_equal(i < 2 ? 1 : 0, host_device_calls().launches);
    if (i == 0) {
      components_expect_same(&wanted, &all.c, RESULT_DX, shape.rows);
    } else if (i == 1) {
      components_expect_same(&wanted, &all.c, RESULT_DD, shape.rows);
    }
  }
  close_all(&all);
}

static void no_rows_are_no_launch(void **state) {
  const struct components_shape shape = whole_shape();
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  all.tensors.rows = 0;
  apply(&all);
  turn(&all);
  assert_int_equal(0, host_device_calls().launches);
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(all.engine, &stats);
  assert_int_equal(2, stats.components_applies);
  assert_int_equal(0, stats.traffic_shapes);
  close_all(&all);
}

/* What a plan says is what was loaded: of the way back one kernel, till the others are there. */
static void plans_are_of_the_kernels_that_there_are(void **state) {
  static const char forward[] =
      "components v1 | work=apply d_in=16 d_out=8 components=24 dtype=bf16 math=exact | "
      "weights=plain mask=elements bias=1 delta=1 tile=64 | sm_90 | batch<=8 seq<=1 rows<=40";
  static const char back[] =
      "components v1 | work=apply d_in=16 d_out=8 components=24 dtype=bf16 math=exact | "
      "weights=turned mask=elements bias=0 delta=1 tile=64 | sm_90 | batch<=8 seq<=1 rows<=40";
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
  assert_int_equal(2, host_device_calls().launches); /* over no rows */
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
    assert_int_equal(2, host_device_replay(capture, NULL));
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
      {{.d_in = 5, .d_out = 9, .components = 7, .dtype = STG_F32},
       NO_KERNEL("dtype=f32 math=exact")},
      {{.d_in = 5, .d_out = 9, .components = 7, .dtype = STG_F32, .tf32 = true},
       NO_KERNEL("dtype=f32 math=tf32")},
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

#define NO_SUMS(gradient)                                                                          \
  "stg_components_back: " gradient                                                                 \
  ": there is no kernel of work=weights for sm_90; STG_BACKEND_CPU has it"

static void gradients_of_sums_are_refused_by_name(void **state) {
  const struct components_shape shape = whole_shape();
  stg_error error = STG_ERROR_INIT;
  struct comp all;
  (void)state;
  open_all(&all, &shape, 0);
  components_renew(&all.c);
  give(&all); /* all of them */
  struct {
    void **gradient;
    const char *message;
  } sums[] = {{&all.grads.dv, NO_SUMS("dv")},
              {&all.grads.du, NO_SUMS("du")},
              {&all.grads.dm, NO_SUMS("dm")},
              {&all.grads.dbias, NO_SUMS("dbias")},
              {&all.grads.ddelta, NO_SUMS("ddelta")}};
  for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
    must_say(STG_E_UNSUPPORTED, sums[i].message,
             stg_components_back(all.components, &all.tensors, &all.grads, NULL, &error), &error);
    assert_int_equal(0, host_device_calls().launches);
    *sums[i].gradient = NULL;
  }
  turn(&all);
  assert_int_equal(1, host_device_calls().launches);
  close_all(&all);
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
      cmocka_unit_test(each_way_is_one_launch_with_the_bits_of_the_backend),
      cmocka_unit_test(what_is_not_wanted_is_not_written),
      cmocka_unit_test(no_rows_are_no_launch),
      cmocka_unit_test(plans_are_of_the_kernels_that_there_are),
      cmocka_unit_test_setup_teardown(what_was_called_warms, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(replays_follow_the_device),
      cmocka_unit_test(a_capture_that_holds_nothing_is_refused),
      cmocka_unit_test(what_no_kernel_is_of_is_refused_by_name),
      cmocka_unit_test(gradients_of_sums_are_refused_by_name),
      cmocka_unit_test(a_lost_device_is_said),
      cmocka_unit_test(memory_that_runs_out_leaves_nothing),
      cmocka_unit_test(without_a_compiler_it_is_not_warm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
