/*
 * test_steer_windows.c: slots that act in a phase or at some positions alone, on the CPU backend;
 * the cases are in support/.
 */
#include "tests/support/steer_cases.h"

int main(void) {
  return steer_windows_cases(steer_env_cpu) + steer_window_refusal_cases(steer_env_cpu);
}
