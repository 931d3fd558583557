/*
 * test_steer_once.c: the one-shot form, on the CPU backend; the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_once_cases(steer_env_cpu);
}
