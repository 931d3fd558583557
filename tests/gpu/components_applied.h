/*
 * components_applied.h: cases of work=apply on a device, both ways: y, and turned dx and dd.
 */
#ifndef STG_TESTS_GPU_COMPONENTS_APPLIED_H
#define STG_TESTS_GPU_COMPONENTS_APPLIED_H

#include "tests/gpu/components_device.h"

/* Its results: places in components_result. */
enum { APPLIED_Y = 0, APPLIED_DX = 1, APPLIED_DD = 6 };

#define APPLIED_HOWS 24
/** A shape whose mask, dtype, bias and delta follow from `how`. */
struct components_shape applied_shape(const uint32_t sizes[4], size_t how);
/** The same of float32: in TF32, or of an odd `how` exact. */
struct components_shape applied_float_shape(const uint32_t sizes[4], size_t how);

/** A case of which what apply does not compute is not there; and other places for its results. */
void applied_open(struct attn_bed *bed, const struct components_shape *shape,
                  struct components_case *ret);
void applied_renew(struct components_case *c);

/** Both ways; and held against the oracle, which fails the test. */
void applied_run(struct components_device *device, const struct components_case *c,
                 struct components_how how);
void applied_check(const struct components_case *c);
void applied_run_well(struct components_device *device, const struct components_case *c,
                      struct components_how how);

/** Fail unless the first rows of both have the same bits. */
void applied_expect_same(const struct components_case *a, const struct components_case *b,
                         int64_t rows);

#endif
