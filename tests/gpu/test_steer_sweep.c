/*
 * test_steer_sweep.c: random chains over dtypes, states, alignments and odd sizes, on CUDA; the
 * cases are in support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_cases.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip : steer_sweep_cases(steer_env_cuda);
}
