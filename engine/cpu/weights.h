/*
 * cpu/weights.h: the weights of attention: scores to exponentials, with their sum.
 */
#ifndef STG_ENGINE_CPU_WEIGHTS_H
#define STG_ENGINE_CPU_WEIGHTS_H

#include <stddef.h>

/* Of one chunk of scores. */
struct stg_cpu_weights {
  float largest; /* of the scores that are no NaN; -Inf where there is none */
  float sum;
};

/** What weights are taken from: the largest score, or 0 where that is -Inf, so that none is NaN but
 * by a NaN. */
float stg_cpu_weight_base(float largest);

/**
 * Turn `count` scores into weights e^(score - base), in place, and zero the rest of the padded
 * buffer. The sum has one order that depends on the count alone.
 */
struct stg_cpu_weights stg_cpu_weights_of(float *scores, size_t count);

#endif
