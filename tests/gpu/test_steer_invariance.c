/*
 * test_steer_invariance.c: a row has the same bits in any company, on CUDA; the cases are in
 * support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_cases.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip : steer_invariance_cases(steer_env_cuda);
}
