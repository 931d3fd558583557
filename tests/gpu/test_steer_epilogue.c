/*
 * test_steer_epilogue.c: the RMSNorm behind the chain, on CUDA; the cases are in
 * support/.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_cases.h"

int main(void) {
  int skip = skip_without_gpu();
  return skip != 0 ? skip
                   : steer_epilogue_cases(steer_env_cuda) +
                         steer_epilogue_invariance_cases(steer_env_cuda);
}
