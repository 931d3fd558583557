/*
 * cache/occupancy.c: the arithmetic of the hardware's limits.
 *
 * Limits of a multiprocessor are those of the CUDA C++ Programming Guide, "Compute Capabilities",
 * table "Technical Specifications per Compute Capability": resident warps and blocks, shared
 * memory, and what all from sm_80 on have in common. How registers and shared memory are handed out
 * (granularities, four partitions, the KiB that the system takes of each block) is that of
 * cuda_occupancy.h of CUDA 13.0. A device test holds all of it against the driver.
 */
#include "tools/cache/occupancy.h"

#include <stddef.h>

#include "runtime/base/intmath.h"

#define WARP_THREADS 32
#define MAX_BLOCK_THREADS 1024
#define REGISTERS 65536
#define REGISTER_UNIT 256
#define PARTITIONS 4 /* each with a quarter of the registers, for warps of its own */
#define SHARED_UNIT 128
#define SYSTEM_SHARED_BYTES 1024 /* of each block */

struct limits {
  uint32_t sm, warps, blocks, shared_kib;
};

static const struct limits table[] = {
    {80, 64, 32, 164},  {86, 48, 16, 100},  {87, 48, 16, 164},  {89, 48, 24, 100},
    {90, 64, 32, 228},  {100, 64, 32, 228}, {103, 64, 32, 228}, {110, 48, 24, 228},
    {120, 48, 24, 100}, {121, 48, 24, 100},
};

static const struct limits *find(uint32_t sm) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (table[i].sm == sm) {
      return &table[i];
    }
  }
  return NULL;
}

/* Warps are given registers in whole units, from the partition that they run on. */
static size_t blocks_by_registers(const struct stg_occupancy_ask *ask, size_t warps) {
  const size_t per_warp = stg_round_up((size_t)ask->registers * WARP_THREADS, REGISTER_UNIT);
  if (per_warp == 0) {
    return SIZE_MAX;
  }
  return REGISTERS / PARTITIONS / per_warp * PARTITIONS / warps;
}

static size_t blocks_by_shared_memory(const struct stg_occupancy_ask *ask, size_t shared_kib) {
  const size_t asked = (size_t)ask->static_bytes + ask->dynamic_bytes + SYSTEM_SHARED_BYTES;
  return shared_kib * 1024 / stg_round_up(asked, SHARED_UNIT);
}

bool stg_occupancy_of(const struct stg_occupancy_ask *ask, struct stg_occupancy *ret) {
  const struct limits *limits = find(ask->sm);
  if (limits == NULL || ask->threads == 0) {
    return false;
  }
  const size_t warps = stg_ceil_div(ask->threads, WARP_THREADS);
  const size_t by[] = {
      blocks_by_registers(ask, warps),
      blocks_by_shared_memory(ask, limits->shared_kib),
      ask->threads > MAX_BLOCK_THREADS ? 0 : limits->warps / warps,
      limits->blocks,
  };
  size_t least = SIZE_MAX;
  for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
    least = by[i] < least ? by[i] : least;
  }
  *ret = (struct stg_occupancy){
      .blocks = (uint32_t)least, .warps = (uint32_t)(least * warps), .max_warps = limits->warps};
  for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
    ret->limits |= by[i] == least ? 1u << i : 0u;
  }
  return true;
}

double stg_occupancy_percent(const struct stg_occupancy *occupancy) {
  return 100.0 * occupancy->warps / occupancy->max_warps;
}

void stg_occupancy_print_limits(unsigned limits, struct stg_strbuf *out) {
  static const char *const names[] = {"registers", "shared memory", "threads", "blocks"};
  const char *between = "";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if ((limits & 1u << i) != 0) {
      stg_strbuf_printf(out, "%s%s", between, names[i]);
      between = " and ";
    }
  }
}
