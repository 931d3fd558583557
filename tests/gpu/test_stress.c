/*
 * test_stress.c: eight threads on one engine on CUDA; the case is in support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_stress.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip : steer_stress_cases(steer_env_cuda);
}
