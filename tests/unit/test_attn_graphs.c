/*
 * test_attn_graphs.c: blocks as graphs: what serves where there is no graph; warm-up; and captures
 * of a host, which follow lengths. On a device of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/device.h"
#include "tests/support/attn_objects.h"
#include "tests/support/host_device.h"
#include "tests/support/temp_folder.h"

static const int32_t all_of_them[] = {2, 0, 1};

static void synchronize(const struct objects *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_stream_synchronize(stg_mem_device(all->engine), NULL, &error), &error);
}

static void open_block(struct objects *all) {
  obj_open(all, STG_BACKEND_CUDA);
  obj_open_block(all);
}

/* Numbers in the packed rows, so that results differ from zeros. */
static void draw(const struct objects *all) {
  for (size_t i = 0; i < OBJ_MAX_ROWS * OBJ_PACKED; i++) {
    all->qkv[i] = (float)(i * 37 % 101) / 50 - 1; /* device memory is heap */
  }
}

static const int32_t *lengths(const struct objects *all) {
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_kv_get_tensors(all->kv, &tensors);
  return tensors.len;
}

static void a_full_cache_says_which_row(void **state) {
  stg_kv_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const uint32_t seqs[] = {0, 1};
  const int32_t lens[] = {OBJ_CAPACITY, OBJ_CAPACITY - 1};
  struct objects all;
  (void)state;
  open_block(&all);
  must(stg_kv_set_len(all.kv, seqs, lens, 2, NULL, &error), &error);
  obj_step(&all, all_of_them, 3); /* row 1 is of sequence 0 */
  obj_step(&all, all_of_them, 3);
  must_say(STG_E_KV_FULL,
           "row 1 of sequence 0 had no room in a KV cache of 16 positions; 6 rows were refused",
           stg_kv_status(all.kv, NULL, &report, &error), &error);
  assert_int_equal(6, report.full_rows);
  assert_int_equal(1, report.full_row);
  assert_int_equal(0, report.full_seq);
  assert_int_equal(-1, report.bad_row);
  must(stg_kv_status(all.kv, NULL, &report, &error), &error); /* it began anew */
  assert_int_equal(0, report.full_rows);
  assert_int_equal(-1, report.full_row);
  assert_int_equal(6, obj_stats(&all).kv_rows_refused);
  assert_int_equal(OBJ_CAPACITY, lengths(&all)[0]);
  assert_int_equal(OBJ_CAPACITY, lengths(&all)[1]);
  obj_close(&all);
}

/* A sequence as long as one can be: its next row is at a position that there is, and has no room.
 */
static void the_longest_sequence_is_full_and_its_next_row_not_bad(void **state) {
  static const int32_t first[] = {0};
  const uint32_t seq = 0;
  const int32_t len = INT32_MAX - 1;
  stg_kv_desc desc = obj_kv_desc();
  (void)state;
  desc.capacity = len;
  desc.block = 1024;
  desc.n_blocks = 1;
  for (int backend = STG_BACKEND_CUDA; backend <= STG_BACKEND_CPU; backend++) {
    stg_kv_report report = {.struct_size = sizeof report};
    stg_error error = STG_ERROR_INIT;
    struct objects all;
    obj_open_of(&all, obj_engine((stg_backend)backend, STG_LAUNCH_DEFAULT), &desc);
    obj_open_block(&all);
    must(stg_kv_set_len(all.kv, &seq, &len, 1, NULL, &error), &error);
    obj_step(&all, first, 1);
    must_say(STG_E_KV_FULL,
             "row 0 of sequence 0 had no room in a KV cache of 2147483646 positions, or no "
             "block; 2 rows were refused",
             stg_kv_status(all.kv, NULL, &report, &error), &error);
    assert_int_equal(0, report.bad_rows);
    assert_int_equal(len, lengths(&all)[0]);
    obj_close(&all);
  }
}

/* Rows on the device, which the host does not look at. */
static void a_bad_sequence_on_the_device_is_told(void **state) {
  static const int32_t seq[] = {1, 7, -1};
  const stg_rows_step step = {.struct_size = sizeof step, .rows = 3, .seq = seq, .on_device = true};
  stg_kv_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  open_block(&all);
  must(stg_rows_step_set(all.rows, &step, NULL, &error), &error);
  must(stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  must(obj_try_layer(&all, 1, &error), &error);
  must_say(STG_E_BAD_SLOT,
           "row 1 was of sequence 7, of which there are 3, or at no position; 1 such rows were not "
           "appended",
           stg_kv_status(all.kv, NULL, &report, &error), &error);
  assert_int_equal(1, report.bad_rows);
  assert_int_equal(1, report.bad_row);
  assert_int_equal(7, report.bad_seq);
  assert_int_equal(1, lengths(&all)[1]);
  obj_close(&all);
}

/* What K and V, lengths and out are after three steps. */
struct left {
  float out[OBJ_MAX_ROWS * OBJ_ROW];
  int32_t len[OBJ_BATCH];
};

static struct left run_three(struct objects *all) {
  struct left left;
  memset(&left, 0, sizeof left);
  draw(all);
  for (int i = 0; i < 3; i++) {
    obj_step(all, all_of_them, 3);
  }
  synchronize(all);
  memcpy(left.out, all->out, 3 * OBJ_ROW * sizeof(float));
  memcpy(left.len, lengths(all), sizeof left.len);
  return left;
}

static void without_graphs_the_bits_are_the_same(void **state) {
  static const struct {
    stg_launch_mode mode;
    bool refuse_new, refuse_updates;
    uint64_t fallbacks;
  } ways[] = {
      {STG_LAUNCH_PLAIN, false, false, 0},
      {STG_LAUNCH_GRAPH, true, false, 6},
      {STG_LAUNCH_GRAPH, false, true, 0},
  };
  struct objects all;
  (void)state;
  open_block(&all);
  const struct left wanted = run_three(&all);
  assert_int_equal(3, wanted.len[0]);
  assert_true(wanted.out[0] != 0);
  obj_close(&all);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    obj_open_on(&all, obj_engine(STG_BACKEND_CUDA, ways[i].mode));
    obj_open_block(&all);
    host_device_refuse_graphs(ways[i].refuse_new, ways[i].refuse_updates);
    const struct left left = run_three(&all);
    host_device_refuse_graphs(false, false);
    assert_memory_equal(&wanted, &left, sizeof wanted);
    assert_int_equal(ways[i].fallbacks, obj_stats(&all).graph_fallbacks);
    obj_close(&all);
  }
}

#define ROPE                                                                                       \
  "rope v1 | work=rotate heads=4 kv_heads=2 dim=8 dtype=f32 | layout=concat rot=8 pairs=half "     \
  "round=final trig=f32 angles=computed xpos=none | sink=dense order=rows dir=forward"
#define DECODE                                                                                     \
  "decode v1 | heads=4 kv_heads=2 dim=8 dtype=f32 | cache=dense chunk=256 window=0 mask=0 "        \
  "loose=0 order=rows"
#define SHAPE "batch<=8 seq<=1 rows<=4"

static void a_plan_names_all_its_kernels(void **state) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  open_block(&all);
  must_say(STG_E_NOT_FOUND, "stg_block_plan: the block has had no step",
           stg_block_plan(all.block, &info, &error), &error);
  obj_step(&all, all_of_them, 3);
  must(stg_block_plan(all.block, &info, &error), &error);
  assert_string_equal(ROPE " + " DECODE " | sm_90 | " SHAPE, info.signature);
  assert_int_equal(0, info.tier);
  assert_int_equal(4, info.row_bucket);
  assert_int_equal(8, info.batch_bucket);
  obj_close(&all);
}

/* K and V of the host's that stand anywhere have a kernel that takes them so. */
static void lent_memory_need_not_be_aligned(void **state) {
  static float memory[2 * OBJ_LAYERS * OBJ_BATCH * OBJ_KV_HEADS * OBJ_CAPACITY * OBJ_DIM + 2];
  static const struct {
    size_t shift;
    const char *said;
  } cases[] = {{0, "loose=0"}, {1, "loose=1"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_plan_info info = {.struct_size = sizeof info};
    stg_kv_desc desc = obj_kv_desc();
    stg_error error = STG_ERROR_INIT;
    struct objects all;
    const size_t begin = (16 - (uintptr_t)memory % 16) % 16 / sizeof(float);
    obj_open(&all, STG_BACKEND_CUDA);
    must(stg_rows_destroy(all.rows, &error), &error);
    must(stg_attend_destroy(all.attend, &error), &error);
    must(stg_rope_destroy(all.rope, &error), &error);
    must(stg_kv_destroy(all.kv, &error), &error);
    desc.k = desc.v = memory + begin + cases[i].shift;
    must(stg_kv_create(all.engine, &desc, &all.kv, &error), &error);
    const stg_rope_desc rope = obj_rope_desc(all.kv);
    const stg_attend_desc attend = obj_attend_desc(all.kv);
    const stg_rows_desc rows = obj_rows_desc(all.kv);
    must(stg_rope_create(all.engine, &rope, &all.rope, &error), &error);
    must(stg_attend_create(all.engine, &attend, &all.attend, &error), &error);
    must(stg_rows_create(all.engine, &rows, &all.rows, &error), &error);
    obj_open_block(&all);
    obj_step(&all, all_of_them, 3);
    must(stg_block_plan(all.block, &info, &error), &error);
    assert_non_null(strstr(info.signature, cases[i].said));
    synchronize(&all);
    obj_close(&all);
  }
}

/* What was stepped is written, and warms another engine: its first step makes no graph. */
static void what_was_stepped_warms(void **state) {
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(state, "traffic.json");
  struct objects all;
  char *json = NULL;
  size_t bytes = 0;
  open_block(&all);
  obj_step(&all, all_of_them, 3);
  must(stg_traffic_save(all.engine, path, &error), &error);
  obj_close(&all);
  must(stg_file_read(path, 1 << 20, &json, &bytes, &error), &error);
  assert_non_null(strstr(json, ROPE " + " DECODE " | " SHAPE));
  assert_non_null(strstr(json, ROPE " + " DECODE " + rope v1 | work=advance | " SHAPE));
  stg_engine *engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
  must(stg_warm(engine, path, json, bytes, NULL, &report, &error), &error);
  stg_free(json);
  assert_int_equal(2, report.graphs);
  obj_open_on(&all, engine);
  obj_open_block(&all);
  const stg_stats before = obj_stats(&all);
  obj_step(&all, all_of_them, 3);
  assert_int_equal(before.graphs_created, obj_stats(&all).graphs_created);
  assert_int_equal(before.plans_live, obj_stats(&all).plans_live);
  assert_int_equal(OBJ_LAYERS, obj_stats(&all).graph_launches - before.graph_launches);
  obj_close(&all);
}

/* One captured step follows lengths and rows that are set between replays. */
static void replays_follow_rows_and_lengths(void **state) {
  static const int32_t one[] = {-1, 2};
  const uint32_t seqs[] = {0};
  const int32_t lens[] = {5};
  stg_error error = STG_ERROR_INIT;
  struct objects eager, all;
  (void)state;
  open_block(&all);
  obj_open_on(&eager, all.engine);
  obj_open_block(&eager);
  draw(&eager);
  draw(&all);
  obj_set_rows(&all, all_of_them, 3);
  must(stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  const uint64_t capture = host_device_begin_capture();
  must(obj_try_layer(&all, 0, &error), &error);
  must(obj_try_layer(&all, 1, &error), &error);
  host_device_end_capture();
  for (int i = 0; i < 6; i++) {
    const bool is_other = i % 3 == 2;
    const int32_t *seq = is_other ? one : all_of_them;
    const int64_t rows = is_other ? 2 : 3;
    if (i == 4) {
      must(stg_kv_set_len(all.kv, seqs, lens, 1, NULL, &error), &error);
      must(stg_kv_set_len(eager.kv, seqs, lens, 1, NULL, &error), &error);
    }
    obj_set_rows(&all, seq, rows);
    assert_int_equal(2 + 3, host_device_replay(capture, NULL));
    obj_step(&eager, seq, rows);
    synchronize(&all);
    synchronize(&eager);
    assert_memory_equal(lengths(&eager), lengths(&all), OBJ_BATCH * sizeof(int32_t));
    if (i != 4 && i != 5) { /* where no length jumped over positions that nobody wrote */
      assert_memory_equal(eager.out, all.out, 3 * OBJ_ROW * sizeof(float));
    }
  }
  host_device_drop_graph(capture);
  obj_close_on(&eager);
  obj_close(&all);
}

#define ALIVE(call, what)                                                                          \
  call ": 1 host graphs that were captured with the " what " are alive; destroy them first"

static void a_graph_of_the_host_keeps_what_it_uses(void **state) {
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  open_block(&all);
  obj_set_rows(&all, all_of_them, 3);
  must(stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  const uint64_t capture = host_device_begin_capture();
  must(obj_try_layer(&all, 1, &error), &error);
  host_device_end_capture();
  assert_int_equal(3, obj_stats(&all).host_graphs_live); /* of rope, attend and rows */
  stg_block_destroy(all.block);
  all.block = NULL;
  must_say(STG_E_BUSY, ALIVE("stg_rows_destroy", "rows"), stg_rows_destroy(all.rows, &error),
           &error);
  must_say(STG_E_BUSY, ALIVE("stg_rope_destroy", "rope"), stg_rope_destroy(all.rope, &error),
           &error);
  must_say(STG_E_BUSY, ALIVE("stg_attend_destroy", "attend"),
           stg_attend_destroy(all.attend, &error), &error);
  must_say(STG_E_BUSY, "stg_kv_destroy: 3 objects use the KV cache; destroy them first",
           stg_kv_destroy(all.kv, &error), &error);
  must_say(STG_E_BUSY, "stg_engine_destroy: 1 KV caches are alive; destroy them first",
           stg_engine_destroy(all.engine, &error), &error);
  assert_int_equal(3, host_device_drop_graph(capture));
  obj_close(&all);
}

static void who_is_used_by_a_block_stays(void **state) {
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  open_block(&all);
  must_say(STG_E_BUSY, "stg_rope_destroy: 1 objects use the rope; destroy them first",
           stg_rope_destroy(all.rope, &error), &error);
  must_say(STG_E_BUSY, "stg_attend_destroy: 1 objects use the attend; destroy them first",
           stg_attend_destroy(all.attend, &error), &error);
  obj_close(&all);
}

static void a_capture_wants_everything_ready(void **state) {
  stg_error error = STG_ERROR_INIT;
  const uint32_t seqs[] = {0};
  const int32_t lens[] = {0};
  struct objects all;
  (void)state;
  open_block(&all);
  obj_set_rows(&all, all_of_them, 3);
  const stg_attend_tensors attend = obj_attend_tensors(&all, 0);
  host_device_say_capturing(true);
  must_say(STG_E_NOT_WARM,
           "stg_attend_apply: there is no workspace yet for this attend and rows of 12; apply it "
           "once before the capture",
           stg_attend_apply(all.attend, all.rows, &attend, NULL, &error), &error);
  must_say(STG_E_CAPTURING,
           "stg_rows_step_set: the stream is capturing; step before the capture begins",
           obj_try_rows(&all, all_of_them, 3, &error), &error);
  must_say(STG_E_CAPTURING,
           "stg_block_step: the stream is capturing; step before the capture begins",
           stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  must_say(STG_E_CAPTURING,
           "stg_kv_set_len: the stream is capturing; call before the capture begins",
           stg_kv_set_len(all.kv, seqs, lens, 1, NULL, &error), &error);
  must_say(STG_E_CAPTURING, "stg_kv_status: the stream is capturing; ask when it has ended",
           stg_kv_status(all.kv, NULL, NULL, &error), &error);
  host_device_say_capturing(false);
  must(stg_attend_apply(all.attend, all.rows, &attend, NULL, &error), &error);
  host_device_say_capturing(true);
  must(stg_attend_apply(all.attend, all.rows, &attend, NULL, &error), &error);
  host_device_refuse_pins(true);
  host_device_say_capturing(false);
  host_device_say_capturing(true);
  must_say(STG_E_CUDA, "attend: cuGraphRetainUserObject failed: a test said so",
           stg_attend_apply(all.attend, all.rows, &attend, NULL, &error), &error);
  assert_int_equal(stg_attend_apply(all.attend, all.rows, &attend, NULL, NULL), STG_E_CUDA);
  host_device_refuse_pins(false);
  host_device_say_capturing(false);
  obj_close(&all);
}

static void a_failed_copy_asks_for_a_new_step(void **state) {
  stg_error error = STG_ERROR_INIT;
  const uint32_t seqs[] = {0};
  const int32_t lens[] = {1};
  struct objects all;
  (void)state;
  open_block(&all);
  obj_set_rows(&all, all_of_them, 3);
  host_device_fail_copies(1);
  must_say(STG_E_CUDA, "cuMemcpyHtoDAsync failed: a test said so",
           obj_try_rows(&all, all_of_them, 3, &error), &error);
  must_say(STG_E_CUDA, "cuMemcpyHtoDAsync failed: a test said so",
           stg_kv_set_len(all.kv, seqs, lens, 1, NULL, &error), &error);
  host_device_fail_copies(0);
  must_say(STG_E_INVALID, "stg_block_step: the rows have had no step",
           stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
  obj_step(&all, all_of_them, 3);
  obj_close(&all);
}

static void without_a_compiler_it_is_not_warm(void **state) {
  static const struct host_compiler refusing = {.missing = "rope v1", .refused = "rope v1"};
  const stg_kv_desc desc = obj_kv_desc();
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = NULL;
  stg_kv *kv = NULL;
  (void)state;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.compile = STG_COMPILE_NEVER;
  host_device_set_compiler(&refusing);
  must(stg_engine_create(&options, &engine, &error), &error);
  must_say(STG_E_NOT_WARM, "kernel 'rope v1 | work=advance | sm_90' is in no cache",
           stg_kv_create(engine, &desc, &kv, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  options.compile = STG_COMPILE_BACKGROUND;
  must(stg_engine_create(&options, &engine, &error), &error);
  must_say(STG_E_COMPILE, "NVRTC refuses it: a test said so",
           stg_kv_create(engine, &desc, &kv, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  host_device_set_compiler(&(struct host_compiler){.missing = "rope v1"});
  must(stg_engine_create(&options, &engine, &error), &error);
  must(stg_kv_create(engine, &desc, &kv, &error), &error); /* compiled, and waited for */
  must(stg_kv_destroy(kv, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
}

static void what_is_held_is_counted(void **state) {
  struct objects all;
  size_t bytes = 0;
  const stg_kv_desc desc = obj_kv_desc();
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
  obj_open_on(&all, engine);
  must(stg_kv_bytes(engine, &desc, &bytes, &error), &error);
  const size_t tensor = (size_t)OBJ_LAYERS * OBJ_BATCH * OBJ_KV_HEADS * OBJ_CAPACITY * OBJ_DIM * 4;
  assert_int_equal(2 * tensor + OBJ_BATCH * sizeof(int32_t) + 24, bytes);
  assert_int_equal(bytes + OBJ_DIM * sizeof(float), obj_stats(&all).kv_bytes);
  const uint64_t frames = obj_stats(&all).frame_bytes;
  assert_true(frames > 0);
  obj_open_block(&all);
  obj_step(&all, all_of_them, 3);
  assert_true(obj_stats(&all).kv_bytes > bytes + OBJ_DIM * sizeof(float)); /* a workspace */
  assert_int_equal(frames, obj_stats(&all).frame_bytes);
  obj_close_on(&all);
  assert_int_equal(0, obj_stats(&all).kv_bytes);
  assert_int_equal(0, obj_stats(&all).frame_bytes);
  must(stg_engine_destroy(engine, &error), &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_full_cache_says_which_row),
      cmocka_unit_test(the_longest_sequence_is_full_and_its_next_row_not_bad),
      cmocka_unit_test(a_bad_sequence_on_the_device_is_told),
      cmocka_unit_test(without_graphs_the_bits_are_the_same),
      cmocka_unit_test(a_plan_names_all_its_kernels),
      cmocka_unit_test(lent_memory_need_not_be_aligned),
      cmocka_unit_test_setup_teardown(what_was_stepped_warms, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(replays_follow_rows_and_lengths),
      cmocka_unit_test(a_graph_of_the_host_keeps_what_it_uses),
      cmocka_unit_test(who_is_used_by_a_block_stays),
      cmocka_unit_test(a_capture_wants_everything_ready),
      cmocka_unit_test(a_failed_copy_asks_for_a_new_step),
      cmocka_unit_test(without_a_compiler_it_is_not_warm),
      cmocka_unit_test(what_is_held_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
