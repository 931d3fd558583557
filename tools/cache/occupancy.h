/*
 * cache/occupancy.h: how many blocks of a kernel one multiprocessor holds at a time, without a
 * device.
 */
#ifndef STG_TOOLS_CACHE_OCCUPANCY_H
#define STG_TOOLS_CACHE_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/strbuf.h"

/* What a block takes, and where. */
struct stg_occupancy_ask {
  uint32_t sm;                          /* 90 for sm_90 and sm_90a */
  uint32_t threads;                     /* of a block */
  uint32_t registers;                   /* of a thread */
  uint32_t static_bytes, dynamic_bytes; /* shared memory of a block */
};

/* What no further block has room in; bits, for several may end at once. */
enum {
  STG_LIMIT_REGISTERS = 1 << 0,
  STG_LIMIT_SHARED_MEMORY = 1 << 1,
  STG_LIMIT_THREADS = 1 << 2,
  STG_LIMIT_BLOCKS = 1 << 3
};

struct stg_occupancy {
  uint32_t blocks; /* 0: not even one */
  uint32_t warps, max_warps;
  unsigned limits; /* STG_LIMIT_ */
};

/** False for an architecture that is not known here, and for a block without threads. */
bool stg_occupancy_of(const struct stg_occupancy_ask *ask, struct stg_occupancy *ret);
/** Of the warps that there is room for. */
double stg_occupancy_percent(const struct stg_occupancy *occupancy);
/** Append "registers and threads". */
void stg_occupancy_print_limits(unsigned limits, struct stg_strbuf *out);

#endif
