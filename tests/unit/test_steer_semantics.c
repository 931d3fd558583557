/*
 * test_steer_semantics.c: what chains of ops, mixtures, pairs and padding mean, on the CPU backend;
 * the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_semantics_cases(steer_env_cpu);
}
