/*
 * prove/output.h: the proofs of a pool as a file.
 */
#ifndef STG_TOOLS_PROVE_OUTPUT_H
#define STG_TOOLS_PROVE_OUTPUT_H

#include "tools/prove/run.h"

/**
 * Write a safetensors file, all float32: logp, depth and outcome (stg_outcome) of the candidates;
 * of the groups rank, first (the query among the candidates, its corruptions behind it), query (of
 * the workload) and side (0: head, 1: tail).
 */
STG_NODISCARD stg_status stg_prove_output_write(const struct stg_prove_done *done, const char *path,
                                                stg_error *reterr);

#endif
