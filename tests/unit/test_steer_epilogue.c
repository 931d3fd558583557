/*
 * test_steer_epilogue.c: the RMSNorm behind the chain, on the CPU backend; the cases are in
 * support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_epilogue_cases(steer_env_cpu) + steer_epilogue_invariance_cases(steer_env_cpu);
}
