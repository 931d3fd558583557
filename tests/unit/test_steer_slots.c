/*
 * test_steer_slots.c: slots, parameters, frames and layers over time, on the CPU backend; the cases
 * are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_slots_cases(steer_env_cpu);
}
