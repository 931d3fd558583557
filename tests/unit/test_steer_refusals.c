/*
 * test_steer_refusals.c: what is refused, on the CPU backend; the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_refusal_cases(steer_env_cpu);
}
