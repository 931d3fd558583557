/*
 * steer_cases.h: the case groups of the steer family, for any backend.
 *
 * Each runs as one cmocka group on the engine that `open` makes (steer_env_cpu, steer_env_cuda) and
 * returns the number of failed tests, for main. They use the public API and hostmem.h alone.
 */
#ifndef STG_TESTS_SUPPORT_STEER_CASES_H
#define STG_TESTS_SUPPORT_STEER_CASES_H

#include "tests/support/steer_env.h"

/** Faults that shipped systems had, one test each. */
int steer_semantics_cases(CMFixtureFunction open);
/** Requests given by their lengths, without slots. */
int steer_once_cases(CMFixtureFunction open);
/** Every op, dtype, state, alignment and odd size, in random chains. */
int steer_sweep_cases(CMFixtureFunction open);
/** A row's bits depend on the row and its chain alone. */
int steer_invariance_cases(CMFixtureFunction open);
/** Ranges, cancellation, signs of zero, rows that hold NaN and Inf. */
int steer_numeric_cases(CMFixtureFunction open);
/** Slots, parameters, frames and layers over time. */
int steer_slots_cases(CMFixtureFunction open);
/** The RMSNorm behind the chain: what it computes, for which rows, and what is refused. */
int steer_epilogue_cases(CMFixtureFunction open);
/** A row's bits depend on the row and its chain alone, behind the epilogue too. */
int steer_epilogue_invariance_cases(CMFixtureFunction open);
/** Slots that act in a phase or at some positions alone. */
int steer_windows_cases(CMFixtureFunction open);
/** Windows and positions that cannot be. */
int steer_window_refusal_cases(CMFixtureFunction open);
/** What is counted of each slot's rows. */
int steer_counters_cases(CMFixtureFunction open);
/** What ops read of a row and give out. */
int steer_probes_cases(CMFixtureFunction open);
/** What is refused, and that nothing happens then. */
int steer_refusal_cases(CMFixtureFunction open);

#endif
