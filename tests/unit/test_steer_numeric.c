/*
 * test_steer_numeric.c: ranges, cancellation, signs of zero, rows that are not finite, on the CPU
 * backend; the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_numeric_cases(steer_env_cpu);
}
