/*
 * test_stress.c: eight threads on one engine of the CPU backend; the case is in support/.
 */
#include "tests/support/steer_stress.h"

int main(void) {
  return steer_stress_cases(steer_env_cpu);
}
