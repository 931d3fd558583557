/*
 * test_steer_uploads.c: what slots bring goes to the device in few copies, and is there in time for
 * steps that are issued far ahead of it; every row held against the oracle.
 */
#include "engine/steer.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 4096
#define ROWS 256
#define SLOTS 64
/* That one test uses: what they show and what two frames name fits the record pool. */
#define USED 40
#define AHEAD 8
#define BUSY_WORDS ((size_t)16 * 1024 * 1024)
#define BUSY_FILLS 40

/* A table, two frames on streams of their own, and memory to keep the device busy with. */
struct fixture {
  struct steer_bed *bed;
  struct stg_device *device;
  stg_frame *frames[2];
  stg_stream streams[2];
  uint64_t busy;
  uint64_t vectors; /* made so far */
};

static void open_fixture(void **state, struct fixture *ret) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .max_rows = ROWS,
                               .max_slots = SLOTS,
                               .max_vectors = 256};
  stg_error error = STG_ERROR_INIT;
  *ret = (struct fixture){.bed = steer_bed_create(*state, &desc)};
  ret->device = stg_mem_device(ret->bed->engine);
  ret->frames[0] = ret->bed->frame;
  check_ok(stg_frame_create(ret->bed->steer, &ret->frames[1], &error), &error);
  for (int i = 0; i < 2; i++) {
    check_ok(stg_stream_create(ret->device, &ret->streams[i], &error), &error);
  }
  check_ok(stg_device_alloc(ret->device, BUSY_WORDS * sizeof(uint32_t), &ret->busy, &error),
           &error);
}

static void close_fixture(struct fixture *f) {
  stg_frame_destroy(f->frames[1]);
  steer_bed_destroy(f->bed);
  stg_device_free(f->device, f->busy);
  for (int i = 0; i < 2; i++) {
    stg_stream_destroy(f->device, f->streams[i]);
  }
}

static stg_vector new_vector(struct fixture *f) {
  return steer_bed_direction(f->bed, 9000 + f->vectors++, 1);
}

/* A millisecond of work or so: what is queued behind it is in flight for as long. */
static void keep_busy(const struct fixture *f, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  for (int k = 0; k < BUSY_FILLS; k++) {
    check_ok(stg_fill_u32(f->device, f->busy, (uint32_t)k, BUSY_WORDS, stream, &error), &error);
  }
}

/* Rows of every slot in turn, and of none. */
static struct steer_batch *batch_of(struct fixture *f, int frame, uint64_t seed) {
  struct steer_batch *batch =
      steer_batch_create(f->bed, &(struct steer_layout){.rows = ROWS, .out_of_place = true});
  batch->frame = f->frames[frame];
  batch->stream = f->streams[frame];
  steer_batch_fill(batch, seed, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    batch->row_map[r] = (int32_t)((r + (int64_t)seed) % (USED + 1)) - 1;
  }
  steer_batch_send(batch);
  return batch;
}

/* The three operators that serving uses most, and one that reads dots of its vectors. */
static void set_slot(struct fixture *f, uint32_t slot, stg_vector v, uint32_t k) {
  const stg_op_call calls[] = {steer_add(v, (float)(k % 9) - 4), steer_cap_max(v, 1),
                               steer_ablate(v, (float)(k % 3)), steer_keep_norm(v, 2)};
  steer_bed_set(f->bed, slot, calls + k % 3, 1 + (k / 3) % 2);
}

/* Of the first op that set_slot gave for this `k`: its scale, or its max. */
static void change_param(struct fixture *f, uint32_t slot, uint32_t k, float value) {
  steer_bed_params(f->bed, slot, 0, 0, (const float[]){value, value}, k % 3 == 1 ? 2 : 1);
}

static uint64_t copies(const struct fixture *f) {
  return f->bed->steer->uploads.copies;
}

static void many_slots_are_sent_in_two_copies(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct steer_batch *batch = batch_of(&f, 0, 1);
  for (uint32_t slot = 0; slot < USED; slot++) {
    set_slot(&f, slot, new_vector(&f), slot);
  }
  assert_int_equal(0, copies(&f));
  steer_batch_expect_ok(batch);
  assert_int_equal(2, copies(&f)); /* vectors, records */
  steer_batch_expect_ok(batch);
  assert_int_equal(2, copies(&f)); /* nothing new */
  for (uint32_t slot = 0; slot < USED; slot++) {
    change_param(&f, slot, slot, -1);
  }
  steer_batch_expect_ok(batch);
  assert_int_equal(3, copies(&f)); /* records */
  steer_batch_destroy(batch);
  close_fixture(&f);
}

static void steer_once(struct fixture *f, struct steer_batch *batch, uint64_t expected_copies) {
  enum { REQUESTS = 32 };
  stg_op_call calls[REQUESTS];
  stg_chain chains[REQUESTS];
  int64_t lengths[REQUESTS];
  stg_error error = STG_ERROR_INIT;
  for (uint32_t k = 0; k < REQUESTS; k++) {
    calls[k] = steer_add(new_vector(f), (float)k - 7);
    chains[k] = (stg_chain){.ops = &calls[k], .n_ops = 1};
    lengths[k] = ROWS / REQUESTS;
    batch->chains[k] = steer_bed_chain(f->bed, &calls[k], 1);
    steer_batch_map(batch, k * lengths[k], (k + 1) * lengths[k], (int32_t)k);
  }
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(batch),
                         .rows = ROWS,
                         .n_requests = REQUESTS,
                         .lengths = lengths,
                         .chains = chains};
  const uint64_t before = copies(f);
  check_ok(stg_steer_once(f->bed->steer, &once, batch->stream, &error), &error);
  assert_int_equal(expected_copies, copies(f) - before);
}

/* All new, one call after the other, none waited for. */
static void one_shots_send_their_chains_together(void **state) {
  enum { SHOTS = 4 };
  struct fixture f;
  struct steer_batch *batches[SHOTS];
  open_fixture(state, &f);
  for (int k = 0; k < SHOTS; k++) {
    batches[k] = batch_of(&f, k % 2, 30 + (uint64_t)k);
  }
  for (int k = 0; k < SHOTS; k++) {
    keep_busy(&f, batches[k]->stream);
    steer_once(&f, batches[k], 2);
  }
  for (int k = 0; k < SHOTS; k++) {
    steer_batch_fetch(batches[k]);
    steer_batch_check(batches[k]);
    steer_batch_destroy(batches[k]);
  }
  close_fixture(&f);
}

/* Before each step some slots get new vectors, some known ones, some other numbers, some nothing,
 * while the steps before it wait behind other work. */
static void replace_slots(struct fixture *f, uint32_t turn, const stg_vector *known, uint32_t n) {
  for (uint32_t i = 0; i < 12; i++) {
    const uint32_t slot = (turn * 7 + i * 5) % USED, k = turn + i;
    if (i == 11) {
      steer_bed_clear(f->bed, slot);
    } else {
      set_slot(f, slot, i < 4 ? new_vector(f) : known[(k * 3) % n], k);
    }
    if (i == 3 || i == 7) {
      change_param(f, slot, k, (float)k * 0.25F);
    }
  }
}

static void slots_replaced_while_two_streams_are_behind_never_tear_a_step(void **state) {
  struct fixture f;
  stg_vector known[USED];
  struct steer_batch *batches[2][AHEAD];
  open_fixture(state, &f);
  for (uint32_t slot = 0; slot < USED; slot++) {
    known[slot] = new_vector(&f);
    set_slot(&f, slot, known[slot], slot);
  }
  for (int i = 0; i < 2 * AHEAD; i++) {
    batches[i % 2][i / 2] = batch_of(&f, i % 2, 100 + (uint64_t)i);
  }
  for (uint32_t k = 0; k < 2 * AHEAD; k++) {
    struct steer_batch *batch = batches[k % 2][k / 2];
    replace_slots(&f, k, known, USED);
    keep_busy(&f, batch->stream);
    steer_batch_step(batch);
    steer_batch_apply(batch);
  }
  /* no step sees this */
  for (uint32_t slot = 0; slot < USED; slot++) {
    set_slot(&f, slot, known[0], 4);
  }
  for (int i = 0; i < 2 * AHEAD; i++) {
    steer_batch_fetch(batches[i % 2][i / 2]);
    steer_batch_check(batches[i % 2][i / 2]);
    steer_batch_destroy(batches[i % 2][i / 2]);
  }
  close_fixture(&f);
}

/* Slots are set while the stream captures; the replay shows them after the next step. */
static void a_replay_follows_slots_that_were_set_in_the_capture(void **state) {
  struct fixture f;
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  open_fixture(state, &f);
  struct steer_batch *batch = batch_of(&f, 1, 60);
  steer_batch_step(batch);
  check_ok(stg_capture_begin(f.device, batch->stream, &error), &error);
  for (uint32_t slot = 0; slot < USED; slot++) {
    set_slot(&f, slot, new_vector(&f), slot);
  }
  steer_batch_apply(batch);
  check_ok(stg_capture_end(f.device, batch->stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  assert_int_equal(0, copies(&f));
  keep_busy(&f, batch->stream);
  steer_batch_step(batch);
  check_ok(stg_graph_launch(f.device, graph, batch->stream, &error), &error);
  assert_int_equal(2, copies(&f));
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  stg_graph_destroy(f.device, graph);
  steer_batch_destroy(batch);
  close_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_slots_are_sent_in_two_copies),
      cmocka_unit_test(one_shots_send_their_chains_together),
      cmocka_unit_test(slots_replaced_while_two_streams_are_behind_never_tear_a_step),
      cmocka_unit_test(a_replay_follows_slots_that_were_set_in_the_capture),
  };
  return cmocka_run_group_tests_name("steer uploads", tests, steer_env_cuda, steer_env_close);
}
