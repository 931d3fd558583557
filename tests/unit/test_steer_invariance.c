/*
 * test_steer_invariance.c: a row has the same bits in any company, on the CPU backend; the cases
 * are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_invariance_cases(steer_env_cpu);
}
