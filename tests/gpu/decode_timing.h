/*
 * decode_timing.h: what launches of the decode family take, beside the bytes that they read.
 */
#ifndef STG_TESTS_GPU_DECODE_TIMING_H
#define STG_TESTS_GPU_DECODE_TIMING_H

/** A test: with STG_TEST_TIME=1 it prints a line for each shape, and is skipped otherwise. It
 * asserts nothing of the times. */
void prints_times_where_asked_to(void **state);
/** Without a device: compile what the survey times, of the architecture that STG_DECODE_PREPARE
 * says, to STG_TEST_CUBINS. */
void prepares_what_is_timed_where_asked_to(void **state);

#endif
