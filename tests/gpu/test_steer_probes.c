/*
 * test_steer_probes.c: what ops read of a row and give out, on CUDA: the cases in support/, and a
 * capture whose replays write the cells anew.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define HIDDEN 1024
#define ROWS 64

static void replays_write_the_cells_of_later_chains(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .max_rows = ROWS,
                               .max_slots = 4,
                               .max_chain = 8,
                               .probes = 3};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct stg_device *device = stg_mem_device(bed->engine);
  const stg_vector v = steer_bed_direction(bed, 801, 1), w = steer_bed_direction(bed, 802, 1);
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  check_ok(stg_stream_create(device, &batch->stream, &error), &error);
  steer_batch_fill(batch, 803, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    batch->row_map[r] = (int32_t)(r / 3 % 5) - 1;
  }
  steer_batch_step(batch);
  check_ok(stg_capture_begin(device, batch->stream, &error), &error);
  steer_batch_apply(batch);
  check_ok(stg_capture_end(device, batch->stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  for (uint32_t k = 0; k < 30; k++) {
    const stg_op_call calls[] = {steer_probe(v, k % 3), steer_add(w, (float)k),
                                 steer_probe(w, (k + 1) % 3), steer_ablate(v, 0),
                                 steer_probe(v, (k + k / 7) % 3)};
    steer_bed_set(bed, k % 4, calls, 1 + k % 5);
    steer_batch_send(batch);
    steer_batch_step(batch);
    check_ok(stg_graph_launch(device, graph, batch->stream, &error), &error);
    steer_batch_fetch(batch);
    steer_batch_check(batch);
  }
  stg_stream stream = batch->stream;
  stg_graph_destroy(device, graph);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  stg_stream_destroy(device, stream);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replays_write_the_cells_of_later_chains),
  };
  return steer_probes_cases(steer_env_cuda) +
         cmocka_run_group_tests_name("steer probes on the device", tests, steer_env_cuda,
                                     steer_env_close);
}
