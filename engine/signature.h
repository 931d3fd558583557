/*
 * signature.h: what all signatures have in common: buckets, the shape of a graph, its key. Text in,
 * text out: no device, no plan. What stands before the shape is a family's, as steer_signature.h.
 */
#ifndef STG_ENGINE_SIGNATURE_H
#define STG_ENGINE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/key.h"

/* Padded sizes, ascending. {NULL, 0} is the default series. */
struct stg_buckets {
  const int64_t *sizes;
  size_t count;
};

/** STG_E_INVALID unless a list of a host ascends within 1..max; `field` names it. */
STG_NODISCARD stg_status stg_buckets_check(const char *field, const int64_t *sizes, size_t count,
                                           int64_t max, stg_error *reterr);
/** Smallest row bucket >= rows: 1 2 4 8, by 8 to 64, by 16 to 128, by 32 to 256, then powers of
 * two. */
STG_NODISCARD stg_status stg_row_bucket(const struct stg_buckets *buckets, int64_t rows,
                                        int64_t *ret_bucket, stg_error *reterr);
/** Smallest batch bucket >= requests: powers of two from 8. STG_E_CAPACITY beyond a given list. */
STG_NODISCARD stg_status stg_batch_bucket(const struct stg_buckets *buckets, int64_t requests,
                                          int64_t *ret_bucket, stg_error *reterr);

/* Begins the text of a host's own work, which is no kernel's. */
#define STG_REGION_PREFIX "region v1 | "

/* Stands between kernels that are launched together. */
#define STG_SIGNATURE_BETWEEN " + "

/* The graph half of a signature: what a user thinks in. */
struct stg_graph_shape {
  int64_t batch, seq, rows;
};
/** " | batch<=32 seq<=64 rows<=2048" */
void stg_graph_shape_print(const struct stg_graph_shape *shape, struct stg_strbuf *out);
/** How many characters of a kernel's text stand before its architecture. */
size_t stg_signature_chars(const char *kernel, const char *arch);
/**
 * Append the texts of kernels that are launched together, each with its architecture, as one:
 * "steer v1 | ... + rope v1 | ... | sm_90"; of one kernel its text as it is.
 * @return how many characters stand before the architecture.
 */
size_t stg_signature_join(const char *const *kernels, size_t count, const char *arch,
                          struct stg_strbuf *out);
/** The graph key of kernels that are launched one after the other: XXH3-128 of
 * "kernel=<request key hex> batch<=.. seq<=.. rows<=.."; of several, runtime/recipe.h says. */
struct stg_key stg_graph_key(const struct stg_key *kernels, size_t count,
                             const struct stg_graph_shape *shape);

#endif
