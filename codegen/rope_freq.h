/*
 * rope_freq.h: what the angles of a rotation come from: inverse frequencies and the logarithms of
 * xPos, computed in float64 and rounded once.
 */
#ifndef STG_CODEGEN_ROPE_FREQ_H
#define STG_CODEGEN_ROPE_FREQ_H

#include <stdint.h>

/* How the frequencies are stretched for positions beyond those of the training. */
enum stg_rope_scaling {
  STG_ROPE_SCALING_NONE,
  STG_ROPE_SCALING_LINEAR, /* all of them by `factor` */
  STG_ROPE_SCALING_LLAMA3, /* low ones by `factor`, high ones not, a ramp between */
};

struct stg_rope_freq {
  double base; /* > 0: frequency i of rot/2 is base^(-2i/rot) */
  enum stg_rope_scaling scaling;
  double factor; /* > 0 */
  /* llama3: wave lengths above original/low_freq are stretched, those below original/high_freq are
   * not; low_freq < high_freq. */
  double low_freq, high_freq;
  int64_t original; /* positions of the training */
};

/* The angles of a launch. All borrowed. The angle of pair i at position p is p * inv_freq[i] in
 * float32; its cosine and sine are read from `table` where there is one. */
struct stg_rope_angles {
  const float *inv_freq;   /* [rot/2]; not read with a table */
  const float *log_scale;  /* [rot/2]; with xPos */
  float xpos_base;         /* with xPos: positions to a power of 1 */
  const float *table;      /* [table_positions, 2, rot/2], cosines before sines; NULL: none */
  int64_t table_positions; /* at least a cache's capacity */
};

/** Fill ret_inv_freq[rot/2]. */
void stg_rope_inv_freq(const struct stg_rope_freq *freq, uint32_t rot, float *ret_inv_freq);

/** Fill ret_log_scale[rot/2] with log((2i + 0.4*rot) / (1.4*rot)): the scale of xPos at power 1. */
void stg_rope_log_scale(uint32_t rot, float *ret_log_scale);

#endif
