/*
 * bench/driver_release.h: the release of the installed driver, such as "580.159.04". The version
 * that CUDA tells is that of CUDA, which many releases share.
 */
#ifndef STG_TOOLS_BENCH_DRIVER_RELEASE_H
#define STG_TOOLS_BENCH_DRIVER_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

/* Where the kernel's module says which it is. */
#define STG_DRIVER_VERSION_FILE "/proc/driver/nvidia/version"

/**
 * Find the release in the file: its first word of digits with dots between them. False, and nothing
 * written, where there is no file, no such word, or no room for it.
 */
bool stg_bench_driver_release(const char *path, char *ret_release, size_t size);

#endif
