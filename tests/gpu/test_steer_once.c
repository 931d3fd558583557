/*
 * test_steer_once.c: the one-shot form, on CUDA; the cases are in support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_cases.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip : steer_once_cases(steer_env_cuda);
}
