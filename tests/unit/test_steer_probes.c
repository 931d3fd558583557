/*
 * test_steer_probes.c: what ops read of a row and give out, on the CPU backend; the cases are in
 * support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_probes_cases(steer_env_cpu);
}
