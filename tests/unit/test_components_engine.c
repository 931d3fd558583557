/*
 * test_components_engine.c: components through the public API on the CPU: the bits of the backend,
 * whatever stands for a default, plans, counters and traffic; and memory that runs out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/declared.h"
#include "engine/engine.h"
#include "runtime/base/alloc.h"
#include "tests/support/components_objects.h"

#define RESULTS COMPONENTS_RESULTS

static stg_components *create(stg_engine *engine, const stg_components_desc *desc) {
  stg_error error = STG_ERROR_INIT;
  stg_components *components = NULL;
  must(stg_components_create(engine, desc, &components, &error), &error);
  return components;
}

static void destroy(stg_components *components) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_destroy(components, &error), &error);
}

static void close_engine(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  must(stg_engine_destroy(engine, &error), &error);
}

static int64_t rows_of(const struct components_case *c, size_t k) {
  const struct components_result result = components_result(c, k);
  return result.data != NULL ? result.rows : 0;
}

/* Run the case by the backend itself, and again through the API: no byte differs. */
static void expect_bits(stg_engine *engine, const struct components_shape *shape,
                        const int32_t *valid, int64_t sequence) {
  struct attn_bed bed;
  struct components_case wanted;
  stg_error error = STG_ERROR_INIT;
  attn_open(&bed, 7);
  components_open(&bed, shape, &wanted);
  wanted.inputs.rows.valid = valid;
  wanted.inputs.rows.sequence = sequence;
  components_run(&wanted);
  struct components_case c = wanted;
  components_renew(&c);
  const stg_components_desc desc = comp_desc(&shape->geometry);
  stg_components *components = create(engine, &desc);
  const stg_components_tensors tensors = comp_tensors(&c);
  stg_components_grads grads = comp_grads(&c);
  comp_give_work(&bed, components, &tensors, &grads);
  must(stg_components_apply(components, &tensors, NULL, &error), &error);
  must(stg_components_back(components, &tensors, &grads, NULL, &error), &error);
  for (size_t k = 0; k < RESULTS; k++) {
    if (rows_of(&wanted, k) > 0) {
      components_expect_same(&wanted, &c, k, rows_of(&wanted, k));
    }
  }
  components_expect_gaps(&c);
  destroy(components);
  attn_close(&bed);
}

static void calls_give_the_bits_of_the_backend(void **state) {
  static const int64_t shares[] = {1, 4, 0};
  static const int32_t valid[] = {3, 0, 2};
  static const stg_dtype types[] = {STG_F32, STG_BF16, STG_F16};
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  for (size_t i = 0; i < 36; i++) {
    struct components_shape shape = components_shape(5, 7, 9, 11);
    shape.share = shares[i % 3];
    shape.geometry.mask = (enum stg_components_mask)(i / 3 % 3);
    shape.geometry.dtype = types[i / 9 % 3];
    shape.geometry.tf32 = i >= 27;
    shape.geometry.bias = i % 2 == 0;
    shape.geometry.delta = i % 4 < 2;
    expect_bits(engine, &shape, i % 5 == 0 ? valid : NULL, 4);
  }
  close_engine(engine);
}

/* Strides of 0 are packed, and a share beyond all rows is theirs. */
static void zeros_stand_for_what_is_packed(void **state) {
  static const float x[] = {1, 2, 3, 4}, v[] = {1, 0, 2, 1}, u[] = {1, -1}, m[] = {2, 3};
  float y[2] = {0}, dx[4] = {0}, dm[2] = {0};
  struct stg_components_geometry g = {.d_in = 2, .d_out = 1, .components = 2, .dtype = STG_F32};
  stg_error error = STG_ERROR_INIT;
  (void)state;
  g.mask = STG_COMPONENTS_MASK_DTYPE;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  const stg_components_desc desc = comp_desc(&g);
  stg_components *components = create(engine, &desc);
  stg_components_tensors tensors = {.struct_size = sizeof tensors,
                                    .rows = 2,
                                    .x = x,
                                    .v = v,
                                    .u = u,
                                    .mask = m,
                                    .mask_share = 9,
                                    .y = y};
  stg_components_grads grads = {.struct_size = sizeof grads, .dy = x, .dx = dx, .dm = dm};
  struct attn_bed bed;
  attn_open(&bed, 1);
  must(stg_components_apply(components, &tensors, NULL, &error), &error);
  /* t = [5, 2], [11, 4]; y = 2 t0 - 3 t1 */
  assert_true(y[0] == 4 && y[1] == 10);
  comp_give_work(&bed, components, &tensors, &grads);
  must(stg_components_back(components, &tensors, &grads, NULL, &error), &error);
  /* g = dy [1, -1], h = dy [2, -3]; dx = h V^T; dm = the sum of g t */
  assert_true(dx[0] == 2 && dx[1] == 1 && dx[2] == 4 && dx[3] == 2);
  assert_true(dm[0] == 27 && dm[1] == -10);
  destroy(components);
  attn_close(&bed);
  close_engine(engine);
}

static void no_rows_leave_sums_of_nothing(void **state) {
  float v[4] = {1, 2, 3, 4}, u[2] = {1, 2}, dv[4] = {9, 9, 9, 9}, du[2] = {9, 9};
  const struct stg_components_geometry g = {
      .d_in = 2, .d_out = 1, .components = 2, .dtype = STG_F32, .mask = STG_COMPONENTS_MASK_DTYPE};
  const stg_components_desc desc = comp_desc(&g);
  const stg_components_tensors tensors = {.struct_size = sizeof tensors, .v = v, .u = u};
  const stg_components_grads grads = {.struct_size = sizeof grads, .dv = dv, .du = du};
  stg_error error = STG_ERROR_INIT;
  size_t bytes = 1;
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  stg_components *components = create(engine, &desc);
  must(stg_components_apply(components, &tensors, NULL, &error), &error);
  must(stg_components_work_bytes(components, 0, 0, &bytes, &error), &error);
  assert_int_equal(0, bytes);
  must(stg_components_back(components, &tensors, &grads, NULL, &error), &error);
  assert_true(dv[0] == 0 && dv[3] == 0 && du[0] == 0 && du[1] == 0);
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  assert_int_equal(2, stats.components_applies);
  assert_int_equal(0, stats.traffic_shapes);
  destroy(components);
  close_engine(engine);
}

#define PLAN "d_in=5 d_out=9 components=7 dtype=f32"
#define TEXT " math=exact | "
#define TAIL " | cpu | batch<=8 seq<=1 rows<=16"
#define FORWARD "components v1 | work=apply " PLAN TEXT "weights=plain mask=elements bias=1 delta=0"
#define BACK "components v1 | work=apply " PLAN TEXT "weights=turned mask=elements bias=0 delta=0"

static void plans_say_which_kernels_follow_each_other(void **state) {
  static const char back[] =
      BACK " tile=64 + components v1 | work=weights " PLAN TEXT "mask=elements bias=1 delta=0"
           " + components v1 | work=sum " PLAN " | bias=1 delta=0" TAIL;
  struct components_shape shape = components_shape(5, 7, 9, 11);
  stg_plan_info info = {.struct_size = sizeof info}, again = info;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  shape.geometry.bias = true;
  stg_components_desc desc = comp_desc(&shape.geometry);
  desc.max_rows = 5000;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  stg_components *components = create(engine, &desc);
  must(stg_components_plan(components, 9, false, &info, &error), &error);
  assert_string_equal(FORWARD " tile=64" TAIL, info.signature);
  assert_string_equal("cpu", info.source);
  assert_int_equal(-1, info.tier);
  assert_int_equal(16, info.row_bucket);
  must(stg_components_plan(components, 16, false, &again, &error), &error);
  assert_ptr_equal(info.signature, again.signature);
  must(stg_components_plan(components, 16, true, &again, &error), &error);
  assert_string_equal(back, again.signature);
  assert_string_equal(FORWARD " tile=64" TAIL, info.signature);
  destroy(components);
  close_engine(engine);
}

/* Which tile a declaration has. */
static void the_tile_follows_from_the_rows(void **state) {
  static const struct {
    uint32_t tile;
    int64_t max_rows;
    const char *text;
  } cases[] = {{0, 0, " tile=128 "},   {0, 4224, " tile=32 "},  {0, 4225, " tile=64 "},
               {0, 8448, " tile=64 "}, {0, 8449, " tile=128 "}, {32, 8449, " tile=32 "},
               {128, 1, " tile=128 "}};
  const struct components_shape shape = components_shape(5, 7, 9, 11);
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_components_desc desc = comp_desc(&shape.geometry);
    stg_plan_info info = {.struct_size = sizeof info};
    stg_error error = STG_ERROR_INIT;
    desc.tile = cases[i].tile;
    desc.max_rows = cases[i].max_rows;
    stg_components *components = create(engine, &desc);
    must(stg_components_plan(components, 1, false, &info, &error), &error);
    assert_non_null(strstr(info.signature, cases[i].text));
    destroy(components);
  }
  close_engine(engine);
}

/* Calls are counted by the rows' bucket, either way by its own signature. */
static void calls_are_in_the_traffic(void **state) {
  static const int64_t buckets[] = {4, 11};
  struct components_shape shape = components_shape(5, 7, 9, 11);
  struct components_case c;
  struct attn_bed bed;
  struct stg_arena arena = {0};
  struct stg_traffic_count **counts = NULL;
  size_t n_counts = 0, backward = 0;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  attn_open(&bed, 3);
  components_open(&bed, &shape, &c);
  stg_components_desc desc = comp_desc(&shape.geometry);
  desc.row_buckets = buckets;
  desc.n_row_buckets = 2;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  stg_components *components = create(engine, &desc);
  stg_components_tensors tensors = comp_tensors(&c);
  stg_components_grads grads = comp_grads(&c);
  comp_give_work(&bed, components, &tensors, &grads);
  must(stg_components_apply(components, &tensors, NULL, &error), &error);
  must(stg_components_apply(components, &tensors, NULL, &error), &error);
  must(stg_components_back(components, &tensors, &grads, NULL, &error), &error);
  must(stg_traffic_list(engine->traffic, &arena, &counts, &n_counts, &error), &error);
  assert_int_equal(2, n_counts);
  for (size_t i = 0; i < n_counts; i++) {
    const bool is_back = strstr(counts[i]->kernel, " + components v1 | work=sum ") != NULL;
    assert_int_equal(is_back ? 1 : 2, atomic_load(&counts[i]->steps));
    assert_int_equal(11, counts[i]->shape.rows);
    assert_null(strstr(counts[i]->kernel, "cpu"));
    backward += is_back;
  }
  assert_int_equal(1, backward);
  must_say(STG_E_CAPACITY, "rows: 12 is more than the largest bucket 11",
           (tensors.rows = 12, stg_components_apply(components, &tensors, NULL, &error)), &error);
  stg_arena_finish(&arena);
  destroy(components);
  close_engine(engine);
  attn_close(&bed);
}

/* Every allocation of a life fails in turn: nothing is left, and nothing was written. */
static void memory_that_runs_out_leaves_nothing(void **state) {
  static const int64_t buckets[] = {16};
  struct components_shape shape = components_shape(5, 7, 9, 11);
  struct components_case c;
  struct attn_bed bed;
  size_t failures = 0;
  bool done = false;
  (void)state;
  attn_open(&bed, 3);
  shape.geometry.delta = true;
  components_open(&bed, &shape, &c);
  stg_components_desc desc = comp_desc(&shape.geometry);
  desc.row_buckets = buckets;
  desc.n_row_buckets = 1;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  stg_components *kept = create(engine, &desc); /* a size that the next calls ask for */
  const stg_components_tensors tensors = comp_tensors(&c);
  stg_components_grads grads = comp_grads(&c);
  comp_give_work(&bed, kept, &tensors, &grads);
  destroy(kept);
  for (size_t nth = 1; !done; nth++) {
    stg_components *components = NULL;
    stg_plan_info info = {.struct_size = sizeof info};
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = stg_components_create(engine, &desc, &components, &error);
    if (status == STG_OK) {
      status = stg_components_plan(components, 11, true, &info, &error);
    }
    if (status == STG_OK) {
      status = stg_components_apply(components, &tensors, NULL, &error);
    }
    if (status == STG_OK) {
      status = stg_components_back(components, &tensors, &grads, NULL, &error);
    }
    done = status == STG_OK;
    stg_alloc_fail_at(0);
    if (!done) {
      assert_int_equal(STG_E_NO_MEMORY, status);
      assert_non_null(strstr(error.message, "memory"));
      failures++;
    }
    destroy(components);
    assert_int_equal(0, atomic_load(&engine->alive[STG_OBJECT_COMPONENTS]));
  }
  assert_true(failures > 10);
  close_engine(engine);
  attn_close(&bed);
}

static void what_is_declared_has_the_kernels_of_the_object(void **state) {
  static const char *const texts[] = {"weights=plain", "weights=turned", "work=weights",
                                      "work=sum"};
  static const int64_t buckets[] = {3, 20};
  const struct stg_batch_sizes sizes = {.rows = 4, .requests = 2, .longest = 2};
  const struct components_shape shape = components_shape(5, 7, 9, 11);
  const struct stg_declared *declared = NULL;
  struct stg_explained_graph graph;
  struct stg_arena arena = {0};
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  stg_components_desc desc = comp_desc(&shape.geometry);
  desc.row_buckets = buckets;
  desc.n_row_buckets = 2;
  must(stg_declare_components(&desc, &arena, &declared, &error), &error);
  assert_int_equal(4, stg_declared_kernels(declared));
  for (size_t i = 0; i < 4; i++) {
    struct stg_explained kernel;
    must(stg_explain_kernel(engine, declared, i, "cpu", &arena, &kernel, &error), &error);
    assert_non_null(strstr(kernel.signature, texts[i]));
    assert_string_equal("components", stg_declared_family(declared, i));
  }
  must(stg_explain_graph(engine, declared, "cpu", &sizes, &arena, &graph, &error), &error);
  assert_int_equal(3, graph.n_kernels);
  assert_int_equal(1, graph.kernels[0]);
  assert_non_null(strstr(graph.signature, " | cpu | batch<=8 seq<=1 rows<=20"));
  desc.backward = false;
  must(stg_declare_components(&desc, &arena, &declared, &error), &error);
  assert_int_equal(1, stg_declared_kernels(declared));
  must(stg_explain_graph(engine, declared, "cpu", &sizes, &arena, &graph, &error), &error);
  assert_int_equal(1, graph.n_kernels);
  desc.d_out = 0;
  must_say(STG_E_INVALID, "d_out: 0 is not in 1..1048576",
           stg_declare_components(&desc, &arena, &declared, &error), &error);
  stg_arena_finish(&arena);
  close_engine(engine);
}

#define NO_KERNEL(what)                                                                            \
  "components: there is no kernel of " what " for sm_120; STG_BACKEND_CPU has it"

#define NO_EXACT_KERNEL                                                                            \
  NO_KERNEL("dtype=f32 math=exact d_in=256 d_out=256") ", and with math=tf32 there is one"

/* Which kernels of a declaration an architecture has, and in which words it has none. */
static void an_architecture_has_the_kernels_that_are_written(void **state) {
  static const struct {
    stg_dtype dtype;
    uint32_t d_in, d_out;
    const char *lacks[4]; /* NULL: it has one */
  } cases[] = {
      {STG_BF16, 5, 9, {NULL}},
      {STG_F16, 5, 512, {NULL}},
      {STG_F32, 5, 9, {NULL}},
      {STG_F32,
       512,
       512,
       {NO_KERNEL("dtype=f32 math=exact d_in=512 d_out=512"),
        NO_KERNEL("dtype=f32 math=exact d_in=512 d_out=512"),
        NO_KERNEL("dtype=f32 math=exact d_in=512 d_out=512"), NULL}},
      {STG_F32, 256, 256, {NO_EXACT_KERNEL, NO_EXACT_KERNEL, NO_EXACT_KERNEL, NULL}},
      {STG_BF16,
       5,
       513,
       {NO_KERNEL("d_out=513, above 512"), NO_KERNEL("d_out=513, above 512"),
        NO_KERNEL("d_out=513, above 512"), NO_KERNEL("d_out=513, above 512")}},
  };
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0] * 4; i++) {
    const char *const lacks = cases[i / 4].lacks[i % 4];
    struct components_shape shape = components_shape(cases[i / 4].d_in, 7, cases[i / 4].d_out, 11);
    const struct stg_declared *declared = NULL;
    struct stg_explained kernel;
    struct stg_arena arena = {0};
    stg_error error = STG_ERROR_INIT;
    shape.geometry.dtype = cases[i / 4].dtype;
    const stg_components_desc desc = comp_desc(&shape.geometry);
    must(stg_declare_components(&desc, &arena, &declared, &error), &error);
    const stg_status status =
        stg_explain_kernel(engine, declared, i % 4, "sm_120", &arena, &kernel, &error);
    if (lacks != NULL) {
      must_say(STG_E_UNSUPPORTED, lacks, status, &error);
    } else {
      must(status, &error);
      assert_non_null(strstr(kernel.signature, " | sm_120"));
      must_say(STG_E_INVALID, "components: 'sm_x' is no architecture",
               stg_explain_kernel(engine, declared, i % 4, "sm_x", &arena, &kernel, &error),
               &error);
    }
    stg_arena_finish(&arena);
  }
  close_engine(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_give_the_bits_of_the_backend),
      cmocka_unit_test(zeros_stand_for_what_is_packed),
      cmocka_unit_test(no_rows_leave_sums_of_nothing),
      cmocka_unit_test(plans_say_which_kernels_follow_each_other),
      cmocka_unit_test(the_tile_follows_from_the_rows),
      cmocka_unit_test(calls_are_in_the_traffic),
      cmocka_unit_test(memory_that_runs_out_leaves_nothing),
      cmocka_unit_test(what_is_declared_has_the_kernels_of_the_object),
      cmocka_unit_test(an_architecture_has_the_kernels_that_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
