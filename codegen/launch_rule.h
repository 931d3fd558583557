/*
 * launch_rule.h: how a generated kernel is launched, of whichever family.
 *
 * block.x = threads; grid.x = rows / rows_per_block, rounded up. Dynamic shared memory: a stage,
 * then what the caller's arguments ask for. A stage may be of two sizes: with few blocks each has a
 * multiprocessor to itself, and room for more.
 */
#ifndef STG_CODEGEN_LAUNCH_RULE_H
#define STG_CODEGEN_LAUNCH_RULE_H

#include <stdbool.h>
#include <stdint.h>

struct stg_launch_rule {
  uint32_t threads;
  uint32_t rows_per_block;   /* that a block works on at a time */
  uint32_t resident_blocks;  /* that a multiprocessor is to hold at once */
  uint32_t stage_bytes;      /* of the stage, for many blocks */
  uint32_t wide_stage_bytes; /* for no more blocks than there are multiprocessors */
  uint32_t staged; /* of what a family has there one by one, how many; of steer: vectors */
  uint32_t wide_staged;
};

/** Dynamic shared memory of a stage; `wide`: of a launch of no more blocks than there are
 * multiprocessors. */
static inline uint32_t stg_launch_stage_bytes(const struct stg_launch_rule *rule, bool wide) {
  return wide ? rule->wide_stage_bytes : rule->stage_bytes;
}

#endif
