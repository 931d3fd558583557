/*
 * test_steer_sweep.c: random chains over dtypes, states, alignments and odd sizes, on the CPU
 * backend; the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_sweep_cases(steer_env_cpu);
}
