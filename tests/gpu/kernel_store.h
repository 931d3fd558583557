/*
 * kernel_store.h: cubins in a folder, so that a run on a device need not compile what was compiled
 * before. STG_TEST_CUBINS names it; without that nothing is kept.
 */
#ifndef STG_TESTS_GPU_KERNEL_STORE_H
#define STG_TESTS_GPU_KERNEL_STORE_H

#include "tests/gpu/gpu_test.h"

/** The cubin of a request, to be freed: from the folder, or compiled and kept there. */
void *kernel_store_get(const struct stg_kernel_request *request);

#endif
