/*
 * test_plan_parts.c: kernels of several families that are launched together: their signature, plan,
 * graph and recipe, warmed from a manifest. On a device of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/steer_decl.h"
#include "engine/warm_plan.h"
#include "runtime/base/alloc.h"
#include "runtime/disk_recipe.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/fake_family.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tier_bed.h"

#define STEER                                                                                      \
  "steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | tile=decode "         \
  "epilogue=none windows=0 counters=0 probes=0"
#define KERNELS "fake v1 | number=1 + " STEER " + fake v1 | number=2"
#define SHAPE " | batch<=8 seq<=1 rows<=4"
#define SIGNATURE KERNELS SHAPE

/* In place of the library's table: a second family, which it does not have. */
const struct stg_family *stg_family_find(const char *text) {
  return strncmp(text, "fake ", 5) == 0    ? &fake_family
         : strncmp(text, "steer ", 6) == 0 ? &stg_family_steer
                                           : NULL;
}

static const struct stg_graph_shape shape = {.batch = 8, .seq = 1, .rows = 4};

/* Three kernels: a fake one, that of a table, another fake one. */
struct parts {
  struct bed bed;
  struct stg_no_rows no_rows;
  struct stg_kernel_set *sets[3];
  struct stg_plan_parts parts;
};

static void open_sets(struct parts *p) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .ops = only_add,
                               .n_ops = 1};
  const struct fake_decl first = fake_decl(1), last = fake_decl(2);
  struct stg_steer_decl decl;
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_decl_init(&desc, p->bed.engine->ops, &decl, &error), &error);
  ok(stg_kernels_open(p->bed.engine, &first.base, &p->sets[0], &error), &error);
  ok(stg_kernels_open(p->bed.engine, &decl.base, &p->sets[1], &error), &error);
  ok(stg_kernels_open(p->bed.engine, &last.base, &p->sets[2], &error), &error);
  stg_steer_decl_finish(&decl);
  p->parts = (struct stg_plan_parts){.sets = {p->sets[0], p->sets[1], p->sets[2]}, .count = 3};
  ok(stg_no_rows_init(p->bed.engine, &p->no_rows, &error), &error);
}

static void open_parts(struct parts *p) {
  open_bed(&p->bed, STG_COMPILE_BLOCK, 1, 8);
  open_sets(p);
}

static void close_parts(struct parts *p) {
  stg_no_rows_finish(p->bed.engine, &p->no_rows);
  for (int i = 0; i < 3; i++) {
    stg_kernels_close(p->sets[i]);
  }
  close_bed(&p->bed);
}

static struct stg_plan *plan_of_parts(struct parts *p) {
  struct stg_plan *plan = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_plan_acquire(p->bed.engine->plans, &p->parts, &shape, STG_TILE_DECODE, &plan, &error),
     &error);
  return plan;
}

static const struct stg_kernel *serving(const struct parts *p) {
  return stg_kernels_of_variant(p->sets[1], STG_TILE_DECODE);
}

static void a_signature_of_several_reads_back(void **state) {
  (void)state;
  struct stg_op_table *ops = NULL;
  struct stg_arena arena = {0};
  struct stg_parsed parsed;
  struct stg_strbuf again = {0};
  stg_error error = STG_ERROR_INIT;
  ok(stg_op_table_create(&ops, &error), &error);
  ok(stg_signature_parse(SIGNATURE, ops, &arena, &parsed, &error), &error);
  assert_int_equal(3, parsed.n_parts);
  assert_ptr_equal(&fake_family, parsed.parts[2].decl->family);
  assert_int_equal(4, parsed.shape.rows);
  stg_parsed_print(&parsed, &again);
  assert_string_equal(SIGNATURE, stg_strbuf_text(&again));
  stg_strbuf_finish(&again);
  stg_arena_finish(&arena);
  stg_op_table_destroy(ops);
}

#define FAKE "fake v1 | number=1"
#define PREFILL                                                                                    \
  "steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | tile=prefill "        \
  "epilogue=none windows=0 counters=0 probes=0"

static void what_cannot_be_launched_together_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {FAKE " + " FAKE " + " FAKE " + " FAKE " + " FAKE SHAPE,
       "column 85: more than 4 kernels that are launched together"},
      {FAKE " + " SHAPE, "column 22: expected the name of a family of kernels, found ' | batch<=8"},
      {FAKE "+" SHAPE, "column 19: expected ' | batch<=', found '+ | batch<=8"},
      {FAKE " + " PREFILL SHAPE, "tile=prefill with seq<=1: seq<=1 is decode, more is prefill"},
      {"fake v1 | number=01 + " FAKE SHAPE, "column 18: is '01 + fake"},
  };
  struct stg_op_table *ops = NULL;
  struct stg_arena arena = {0};
  assert_int_equal(STG_OK, stg_op_table_create(&ops, NULL));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    expect(STG_E_FORMAT, cases[i].message,
           stg_signature_parse(cases[i].text, ops, &arena, &parsed, &error), &error);
  }
  stg_arena_finish(&arena);
  stg_op_table_destroy(ops);
}

static void a_plan_has_the_texts_and_keys_of_all_its_kernels(void **state) {
  (void)state;
  struct parts p;
  open_parts(&p);
  struct stg_plan *plan = plan_of_parts(&p);
  char wanted[512];
  snprintf(wanted, sizeof wanted, KERNELS " | %s" SHAPE, p.bed.engine->arch);
  assert_string_equal(wanted, stg_plan_signature(plan, serving(&p)));
  assert_int_equal(1, plan->varying);
  struct stg_key keys[3];
  for (unsigned i = 0; i < 3; i++) {
    keys[i] = stg_plan_kernel(plan, i, serving(&p))->key;
  }
  const struct stg_key graph = plan->graph_keys[STG_TIER_DECLARED][STG_TILE_DECODE];
  assert_true(stg_key_equal(graph, stg_graph_key(keys, 3, &shape)));
  keys[2] = keys[0];
  assert_false(stg_key_equal(graph, stg_graph_key(keys, 3, &shape)));
  assert_false(stg_key_equal(graph, stg_graph_key(keys, 2, &shape)));
  stg_plan_release(p.bed.engine->plans, plan);
  close_parts(&p);
}

/* Plans that share kernels, but for the last, are two; and a set takes those that it is in. */
static void plans_go_with_any_of_their_sets(void **state) {
  (void)state;
  struct parts p;
  stg_error error = STG_ERROR_INIT;
  open_parts(&p);
  const struct stg_plan_parts two = {.sets = {p.sets[0], p.sets[1]}, .count = 2};
  struct stg_plan *three = plan_of_parts(&p), *again = plan_of_parts(&p), *other = NULL;
  assert_ptr_equal(three, again);
  assert_true(stg_plan_is(three, &p.parts, &shape, STG_TILE_DECODE));
  assert_false(stg_plan_is(three, &two, &shape, STG_TILE_DECODE));
  ok(stg_plan_acquire(p.bed.engine->plans, &two, &shape, STG_TILE_DECODE, &other, &error), &error);
  assert_ptr_not_equal(three, other);
  stg_plan_release(p.bed.engine->plans, three);
  stg_plan_release(p.bed.engine->plans, again);
  stg_plan_release(p.bed.engine->plans, other);
  assert_int_equal(2, stats_of(&p.bed).plans_live);
  stg_kernels_close(p.sets[2]);
  p.sets[2] = NULL;
  assert_int_equal(1, stats_of(&p.bed).plans_live);
  close_parts(&p);
}

/* All nodes over no rows, on the engine's stream. */
static void launch(struct parts *p, struct stg_plan *plan, struct stg_exec *exec) {
  struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
  struct stg_idle_args args[STG_PLAN_MAX_PARTS];
  const struct stg_plan_launch how = {.exec = exec, .stream = p->bed.engine->stream};
  const size_t count =
      stg_plan_idle(p->bed.engine, plan, serving(p), p->no_rows.row_map, nodes, args);
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(3, count);
  host_device_reset_calls();
  ok(stg_plan_launch(p->bed.engine, &how, nodes, count, &error), &error);
  ok(stg_stream_synchronize(p->bed.engine->device, p->bed.engine->stream, &error), &error);
  assert_int_equal(3, host_device_calls().launches);
  assert_non_null(strstr(host_device_launched(), "number=2"));
}

static void one_graph_launches_all_of_them(void **state) {
  (void)state;
  struct parts p;
  open_parts(&p);
  struct stg_plan *plan = plan_of_parts(&p);
  struct stg_exec *exec =
      stg_exec_acquire(p.bed.engine->plans, plan, serving(&p), p.bed.engine->stream);
  assert_non_null(exec);
  launch(&p, plan, exec);
  launch(&p, plan, exec);
  assert_int_equal(2, stats_of(&p.bed).graph_launches);
  assert_int_equal(1, stats_of(&p.bed).graphs_created);
  assert_int_equal(0, stats_of(&p.bed).plain_launches);
  host_device_refuse_graphs(false, true); /* an update: the graph is made anew, whole */
  launch(&p, plan, exec);
  assert_int_equal(2, stats_of(&p.bed).graphs_created);
  host_device_refuse_graphs(true, true); /* and that: each goes out plainly */
  launch(&p, plan, exec);
  assert_int_equal(3, stats_of(&p.bed).graph_launches);
  assert_int_equal(3, stats_of(&p.bed).plain_launches);
  assert_int_equal(1, stats_of(&p.bed).graph_fallbacks);
  host_device_refuse_graphs(false, false);
  launch(&p, plan, NULL);
  assert_int_equal(6, stats_of(&p.bed).plain_launches);
  stg_exec_release(p.bed.engine->plans, exec);
  stg_plan_release(p.bed.engine->plans, plan);
  close_parts(&p);
}

static void a_capture_has_a_node_for_each(void **state) {
  (void)state;
  struct parts p;
  struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
  struct stg_idle_args args[STG_PLAN_MAX_PARTS];
  stg_error error = STG_ERROR_INIT;
  open_parts(&p);
  struct stg_plan *plan = plan_of_parts(&p);
  const struct stg_plan_launch how = {.stream = p.bed.engine->stream};
  const size_t count =
      stg_plan_idle(p.bed.engine, plan, serving(&p), p.no_rows.row_map, nodes, args);
  const uint64_t capture = host_device_begin_capture();
  ok(stg_plan_capture(p.bed.engine, &how, nodes, count, &error), &error);
  host_device_end_capture();
  assert_int_equal(3, host_device_replay(capture, p.bed.engine->stream));
  ok(stg_stream_synchronize(p.bed.engine->device, p.bed.engine->stream, &error), &error);
  (void)host_device_drop_graph(capture);
  stg_plan_release(p.bed.engine->plans, plan);
  close_parts(&p);
}

static const char manifest[] =
    "{\"steergraph\": 1, \"user_ops\": {}, \"manifest\": [{\"signature\": \"" SIGNATURE
    "\", \"count\": 7}]}";

struct seen {
  size_t count;
};

static stg_status look(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct seen *seen = user;
  struct stg_arena arena = {0};
  struct stg_recipe recipe;
  ok(stg_disk_recipe_read(item->path, &arena, &recipe, reterr), reterr);
  assert_int_equal(3, recipe.n_nodes);
  assert_string_equal("stg_fake", recipe.nodes[0].kernel);
  assert_string_equal("stg_steer", recipe.nodes[1].kernel);
  assert_string_equal("stg_fake", recipe.nodes[2].kernel);
  assert_false(stg_key_equal(recipe.nodes[0].key, recipe.nodes[2].key));
  assert_int_equal(2, recipe.n_edges);
  assert_true(recipe.edges[1].from == 1 && recipe.edges[1].to == 2);
  assert_int_equal(2 + stg_family_steer.args_of("").n_slots, recipe.n_slots);
  assert_int_equal(1, recipe.slots[1].node);
  assert_int_equal(2, recipe.slots[recipe.n_slots - 1].node);
  assert_string_equal("row_map", recipe.slots[recipe.n_slots - 1].name);
  stg_arena_finish(&arena);
  seen->count++;
  return STG_OK;
}

/* The sets of all kernels are made, a plan of them, its graph, and the graph's recipe. */
static void a_manifest_warms_them_together(void **state) {
  struct parts p;
  struct seen seen = {0};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_warm_report report = {.struct_size = sizeof report};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_path = *state;
  options.pack_path = "";
  options.compile = STG_COMPILE_BLOCK;
  open_bed_with(&p.bed, &options);
  ok(stg_warm(p.bed.engine, "m.json", manifest, sizeof manifest - 1, NULL, &report, &error),
     &error);
  assert_int_equal(1, report.done);
  assert_int_equal(1, report.graphs);
  assert_int_equal(4, report.kernels_memory); /* two of the table, and two of one each */
  open_sets(&p);                              /* what a host opens next is there */
  struct stg_plan *plan = plan_of_parts(&p);
  assert_int_equal(1, stats_of(&p.bed).plans_live);
  struct stg_exec *exec =
      stg_exec_acquire(p.bed.engine->plans, plan, serving(&p), p.bed.engine->stream);
  launch(&p, plan, exec);
  assert_int_equal(1, stats_of(&p.bed).graphs_created);
  stg_exec_release(p.bed.engine->plans, exec);
  stg_plan_release(p.bed.engine->plans, plan);
  close_parts(&p);
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_ONLY, NULL);
  ok(stg_disk_recipe_walk(cache, look, &seen, &error), &error);
  stg_disk_cache_close(cache);
  assert_int_equal(1, seen.count);
}

static void one_kernel_that_fails_fails_the_signature(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_warm_report report = {.struct_size = sizeof report};
  host_device_set_compiler(&(struct host_compiler){.missing = "number=2", .refused = "number=2"});
  open_bed(&bed, STG_COMPILE_BLOCK, 1, 8);
  ok(stg_warm(bed.engine, "m.json", manifest, sizeof manifest - 1, NULL, &report, &error), &error);
  assert_int_equal(0, report.done);
  assert_int_equal(1, report.failed);
  assert_int_equal(1, report.kernels_failed);
  assert_int_equal(0, stats_of(&bed).plans_live);
  close_bed(&bed);
}

/* What was stepped is saved as one signature, which is what a manifest has. */
static void steps_are_counted_together(void **state) {
  (void)state;
  struct parts p;
  char text[2048];
  size_t needed = 0;
  stg_error error = STG_ERROR_INIT;
  open_parts(&p);
  struct stg_plan *plan = plan_of_parts(&p);
  stg_plan_count_step(p.bed.engine->plans, plan);
  stg_plan_count_step(p.bed.engine->plans, plan);
  const char *path = temp_path(state, "m.json");
  ok(stg_traffic_save(p.bed.engine, path, &error), &error);
  char *saved = NULL;
  ok(stg_file_read(path, sizeof text, &saved, &needed, &error), &error);
  assert_non_null(strstr(saved, "\"" SIGNATURE "\""));
  stg_free(saved);
  stg_plan_release(p.bed.engine->plans, plan);
  close_parts(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)
      CASE(a_signature_of_several_reads_back),
      CASE(what_cannot_be_launched_together_is_refused),
      CASE(a_plan_has_the_texts_and_keys_of_all_its_kernels),
      CASE(plans_go_with_any_of_their_sets),
      CASE(one_graph_launches_all_of_them),
      CASE(a_capture_has_a_node_for_each),
      CASE(a_manifest_warms_them_together),
      CASE(one_kernel_that_fails_fails_the_signature),
      CASE(steps_are_counted_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
