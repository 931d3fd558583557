/*
 * test_steer_semantics.c: what chains of ops, mixtures, pairs and padding mean, on CUDA; the cases
 * are in support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_cases.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip : steer_semantics_cases(steer_env_cuda);
}
