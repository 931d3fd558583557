/*
 * components_timing.h: what kernels of the components family take, and their rate.
 */
#ifndef STG_TESTS_GPU_COMPONENTS_TIMING_H
#define STG_TESTS_GPU_COMPONENTS_TIMING_H

/** A test of the group of components_device.h: with STG_TEST_TIME=1 it prints a line for each work
 * of each shape that has a target, with STG_TEST_TIME=all also for others, in each tile; with
 * STG_TEST_TIME=once it launches the former once, for a profiler; else it is skipped. It
 * asserts nothing of the times. */
void prints_times_where_asked_to(void **state);

#endif
