/*
 * test_recipes.c: recipes of the graphs that an engine makes: which are written, when, and by whom.
 * On a device of the host, whose compiler does what a test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "codegen/decode_kernel.h"
#include "codegen/prover_args.h"
#include "codegen/rope_args.h"
#include "codegen/rope_text.h"
#include "codegen/steer.h"
#include "engine/family.h"
#include "engine/recipe_nodes.h"
#include "engine/recipes.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tier_bed.h"

#include "runtime/disk_recipe.h"

#define GRAPHS "v1/graphs"
#define MANY (STG_RECIPES_MAX + 100)

/* On the test's folder. */
static stg_options options_of(void **state, stg_compile_mode mode) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_path = *state;
  options.pack_path = "";
  options.compile = mode;
  options.compile_threads = 1;
  return options;
}

static void open_here(struct bed *bed, void **state, stg_compile_mode mode) {
  const stg_options options = options_of(state, mode);
  open_bed_with(bed, &options);
}

static void step_rows(stg_frame *frame, int64_t rows) {
  static const int32_t map[MANY];
  const stg_step args = {.struct_size = sizeof args, .rows = rows, .row_map = map, .longest = 1};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
}

/* Recipes there are; each must be good and under its name. */
struct found {
  size_t count;
  const char *wanted; /* the hex of a graph's key, or NULL */
  bool has_wanted;
};

static stg_status look(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct found *found = user;
  struct stg_arena arena = {0};
  struct stg_recipe recipe;
  char hex[STG_KEY_HEX_CHARS + 1];
  ok(stg_disk_recipe_read(item->path, &arena, &recipe, reterr), reterr);
  stg_key_hex(recipe.key, hex);
  found->has_wanted =
      found->has_wanted || (found->wanted != NULL && strcmp(found->wanted, hex) == 0);
  found->count++;
  assert_int_equal(recipe.n_nodes, 1);
  assert_string_equal(recipe.nodes[0].kernel, "stg_steer");
  stg_arena_finish(&arena);
  return STG_OK;
}

static struct found find_in(void **state, const char *wanted) {
  struct found found = {.wanted = wanted};
  stg_error error = STG_ERROR_INIT;
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_ONLY, NULL);
  ok(stg_disk_recipe_walk(cache, look, &found, &error), &error);
  stg_disk_cache_close(cache);
  return found;
}

/* Until the engine's threads have written so many, and no temporary file is left; half a minute. */
static void wait_for_files(void **state, size_t count) {
  for (int i = 0;
       count_files(temp_path(state, GRAPHS)) < count || count_files(temp_path(state, "v1/tmp")) > 0;
       i++) {
    assert_true(i < 60000);
    pause_a_bit();
  }
}

static void each_graph_is_written_once(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_BACKGROUND);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  stg_steer *steer = open_table(&bed, only_add, 1);
  wait_for_rest(&bed);
  stg_frame *frames[] = {open_frame(steer), open_frame(steer)};
  char keys[3][33];
  for (int round = 0; round < 3; round++) {
    static const int64_t rows[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
      step_rows(frames[round % 2], rows[i]);
      memcpy(keys[i], plan_of(frames[round % 2]).graph_key, sizeof keys[0]);
    }
  }
  wait_for_files(state, 3);
  for (int i = 0; i < 3; i++) {
    const struct found found = find_in(state, keys[i]);
    assert_int_equal(3, found.count);
    assert_true(found.has_wanted);
  }
  assert_int_equal(0, stats_of(&bed).compiles_refused);
  stg_frame_destroy(frames[0]);
  stg_frame_destroy(frames[1]);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(3, count_files(temp_path(state, GRAPHS)));
}

/* A kernel that takes over launches the same graph by another key. */
static void each_tier_has_a_recipe(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_BACKGROUND);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  char general[33];
  char declared[33];
  step(frame);
  assert_int_equal(0, plan_of(frame).tier);
  memcpy(general, plan_of(frame).graph_key, sizeof general);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 1);
  wait_for_rest(&bed);
  step(frame);
  assert_int_equal(1, plan_of(frame).tier);
  memcpy(declared, plan_of(frame).graph_key, sizeof declared);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(2, find_in(state, NULL).count);
  assert_true(find_in(state, general).has_wanted);
  assert_true(find_in(state, declared).has_wanted);
}

/* The only thread of the engine is kept busy: nothing is on disk, whatever is stepped. */
static void a_step_writes_nothing_itself(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_BACKGROUND);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  host_device_wait_for_compiles(1);
  step_rows(frame, 1);
  step_rows(frame, 2);
  step_rows(frame, 4);
  assert_int_equal(0, count_files(temp_path(state, "v1")));
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_files(state, 3);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* Nothing was compiled, so there are none, and none is started for this. */
static void without_threads_they_are_written_at_the_end(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_BACKGROUND);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  step(frame);
  assert_int_equal(0, stats_of(&bed).compile_threads);
  stg_frame_destroy(frame);
  close_table(steer);
  assert_int_equal(0, count_files(temp_path(state, GRAPHS)));
  close_bed(&bed);
  assert_int_equal(1, find_in(state, NULL).count);
}

/* Else the same one would take all the room before they are written. */
static void a_graph_is_noted_at_its_first_step_alone(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_NEVER);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  for (int i = 0; i < MANY; i++) {
    step_rows(frame, 1);
  }
  step_rows(frame, 2);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(2, find_in(state, NULL).count);
}

static void a_warm_up_leaves_them_too(void **state) {
  struct bed bed;
  open_here(&bed, state, STG_COMPILE_NEVER);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  step(frame);
  const char *path = temp_path(state, "traffic.json");
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_save(bed.engine, path, &error), &error);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(1, count_files(temp_path(state, GRAPHS)));
  char *json = NULL;
  size_t size = 0;
  ok(stg_file_read(path, 1 << 20, &json, &size, &error), &error);
  char *recipes = stg_path_join(*state, "again");
  stg_options options = options_of(state, STG_COMPILE_NEVER);
  options.cache_path = recipes;
  open_bed_with(&bed, &options);
  ok(stg_warm(bed.engine, "m.json", json, size, NULL, NULL, &error), &error);
  close_bed(&bed);
  assert_int_equal(1, count_files(temp_path(state, "again/" GRAPHS)));
  stg_free(recipes);
  stg_free(json);
}

static void none_is_written_where_nothing_is(void **state) {
  for (int i = 0; i < 4; i++) {
    struct bed bed;
    stg_options options = options_of(state, STG_COMPILE_BLOCK);
    options.cache_mode = i == 0 ? STG_CACHE_READ_ONLY : i == 1 ? STG_CACHE_OFF : STG_CACHE_DEFAULT;
    options.backend = i == 2 ? STG_BACKEND_CPU : STG_BACKEND_CUDA;
    options.launch = i == 3 ? STG_LAUNCH_PLAIN : STG_LAUNCH_DEFAULT;
    open_bed_with(&bed, &options);
    stg_steer *steer = open_table(&bed, only_add, 1);
    stg_frame *frame = open_frame(steer);
    step(frame);
    stg_frame_destroy(frame);
    close_table(steer);
    close_bed(&bed);
  }
  assert_int_equal(0, count_files(temp_path(state, GRAPHS)));
}

static void what_waits_is_bounded(void **state) {
  static int64_t buckets[MANY];
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  for (int i = 0; i < MANY; i++) {
    buckets[i] = i + 1;
  }
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = MANY,
                               .ops = only_add,
                               .n_ops = 1,
                               .row_buckets = buckets,
                               .n_row_buckets = MANY};
  open_here(&bed, state, STG_COMPILE_NEVER);
  ok(stg_steer_create(bed.engine, &desc, &steer, &error), &error);
  stg_frame *frame = open_frame(steer);
  for (int rows = 1; rows <= MANY; rows++) {
    step_rows(frame, rows);
  }
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(STG_RECIPES_MAX, count_files(temp_path(state, GRAPHS)));
}

/* Every argument of a kernel is a slot, in their order and without a gap. */
static void the_slots_are_the_arguments_of_the_kernel(void **state) {
  (void)state;
  const struct {
    const struct stg_family *family;
    const char *kernel;
    size_t bytes, alignment;
  } kernels[] = {
#define KERNEL(family, kernel, args) {&(family), kernel, sizeof(args), _Alignof(args)}
      KERNEL(stg_family_steer, "", struct stg_steer_args),
      KERNEL(stg_family_rope, stg_rope_kernel_name(STG_ROPE_ROTATE), struct stg_rope_args),
      KERNEL(stg_family_rope, stg_rope_kernel_name(STG_ROPE_TRANSPOSE), struct stg_transpose_args),
      KERNEL(stg_family_rope, stg_rope_kernel_name(STG_ROPE_ADVANCE), struct stg_advance_args),
      KERNEL(stg_family_decode, "", struct stg_decode_args),
      KERNEL(stg_family_prover, "", struct stg_prover_args),
      KERNEL(stg_family_components, stg_components_kernel_name(STG_COMPONENTS_APPLY),
             struct stg_components_apply_args),
      KERNEL(stg_family_components, stg_components_kernel_name(STG_COMPONENTS_WEIGHTS),
             struct stg_components_weights_args),
      KERNEL(stg_family_components, stg_components_kernel_name(STG_COMPONENTS_SUM),
             struct stg_components_sum_args),
#undef KERNEL
  };
  for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
    const struct stg_args_form form = kernels[k].family->args_of(kernels[k].kernel);
    size_t end = 0;
    assert_true(form.n_slots <= STG_MAX_ARGS_SLOTS);
    for (size_t i = 0; i < form.n_slots; i++) {
      const struct stg_recipe_slot *slot = &form.slots[i];
      assert_true(slot->offset == end || (slot->offset > end && slot->offset - end < slot->bytes));
      end = slot->offset + slot->bytes;
    }
    assert_int_equal(kernels[k].bytes, form.bytes);
    assert_true(form.bytes - end < kernels[k].alignment);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)
      CASE(each_graph_is_written_once),
      CASE(each_tier_has_a_recipe),
      CASE(a_step_writes_nothing_itself),
      CASE(without_threads_they_are_written_at_the_end),
      CASE(a_graph_is_noted_at_its_first_step_alone),
      CASE(a_warm_up_leaves_them_too),
      CASE(none_is_written_where_nothing_is),
      CASE(what_waits_is_bounded),
      cmocka_unit_test(the_slots_are_the_arguments_of_the_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
