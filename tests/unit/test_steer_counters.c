/*
 * test_steer_counters.c: what is counted of each slot's rows, on the CPU backend; the cases are in
 * support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_counters_cases(steer_env_cpu);
}
