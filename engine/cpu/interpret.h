/*
 * cpu/interpret.h: run a whole-chain scalar program on the numbers of one row.
 */
#ifndef STG_ENGINE_CPU_INTERPRET_H
#define STG_ENGINE_CPU_INTERPRET_H

#include "engine/cpu/steer.h"

/* What a program asks of its row. Dots that it never reads may hold anything. */
struct stg_cpu_facts {
  const struct stg_cpu_chain *chain;
  const float *state;                          /* padded, see lanes.h */
  const float *vectors[STG_CHAIN_MAX_VECTORS]; /* padded */
  size_t padded;
  float dots[STG_CHAIN_MAX_VECTORS]; /* state . vectors[i] */
  float squares;                     /* state . state */
};

/* Which of the facts a program reads. */
struct stg_cpu_reads {
  uint32_t dots; /* bit i */
  bool squares;
};

struct stg_cpu_reads stg_cpu_program_reads(const struct stg_program *program);

/** Compute every value of the chain's program into ret_values[n_instrs]; booleans are 0 and 1. */
void stg_cpu_interpret(const struct stg_cpu_facts *facts, float *ret_values);

#endif
