/*
 * launches.h: what launches of a kernel take that follow each other.
 */
#ifndef STG_TESTS_GPU_LAUNCHES_H
#define STG_TESTS_GPU_LAUNCHES_H

#include "tests/gpu/gpu_test.h"

#define LAUNCHES_MAX_SETS 8

/* Launches that follow each other: of one kernel, over each set of arguments in turn. */
struct launches {
  const struct gpu *gpu;
  const struct stg_module *module;
  struct stg_launch_dims dims;
  void *args[LAUNCHES_MAX_SETS];
  size_t n_sets;
};

/* Shortest ones, in microseconds: of launches one by one, as nodes of a graph that wait for each
 * other, and as a host captures them. */
struct times {
  double stream, nodes, captured;
};

struct times launches_time(const struct launches *launches);

#endif
