/*
 * components_applied.c: see components_applied.h.
 */
#include "tests/gpu/components_applied.h"

#include "runtime/base/dtype.h"

struct components_shape applied_shape(const uint32_t sizes[4], size_t how) {
  struct components_shape shape = components_shape(sizes[0], sizes[1], sizes[2], sizes[3]);
  shape.geometry.dtype = how % 2 == 0 ? STG_BF16 : STG_F16;
  shape.geometry.mask = (enum stg_components_mask)(how / 2 % 3);
  shape.geometry.bias = how / 6 % 2 != 0;
  shape.geometry.delta = how / 12 % 2 != 0;
  return shape;
}

struct components_shape applied_float_shape(const uint32_t sizes[4], size_t how) {
  struct components_shape shape = applied_shape(sizes, how);
  shape.geometry.dtype = STG_F32;
  shape.geometry.tf32 = how % 2 == 0;
  return shape;
}

/* What apply does not compute is not there. */
static void leave_what_apply_has(struct components_case *c) {
  c->out.dv = c->out.du = c->out.dm = c->out.dbias = c->out.ddelta = NULL;
}

void applied_open(struct attn_bed *bed, const struct components_shape *shape,
                  struct components_case *ret) {
  components_open(bed, shape, ret);
  leave_what_apply_has(ret);
}

void applied_renew(struct components_case *c) {
  components_renew(c);
  leave_what_apply_has(c);
}

void applied_run(struct components_device *device, const struct components_case *c,
                 struct components_how how) {
  device->how = how;
  components_device_apply(device, c);
  components_device_turn(device, c);
  components_expect_gaps(c);
}

static void expect_ok(const struct components_case *c,
                      const struct stg_oracle_components_report *report) {
  if (!report->ok) {
    const struct stg_components_geometry *g = &c->geometry;
    fail_msg(
        "%u->%u->%u of %lld rows, %s, mask %d: %s[%lld][%lld] is the first of %llu violations; "
        "the worst is %g of its bound",
        g->d_in, g->components, g->d_out, (long long)c->inputs.rows.rows, stg_dtype_name(g->dtype),
        (int)g->mask, report->first_in, (long long)report->first_row,
        (long long)report->first_element, (unsigned long long)report->violations,
        report->worst_ratio);
  }
}

void applied_check(const struct components_case *c) {
  struct stg_oracle_components_report report = components_check(c);
  expect_ok(c, &report);
  report = components_check_back(c);
  expect_ok(c, &report);
}

void applied_run_well(struct components_device *device, const struct components_case *c,
                      struct components_how how) {
  applied_run(device, c, how);
  applied_check(c);
}

void applied_expect_same(const struct components_case *a, const struct components_case *b,
                         int64_t rows) {
  components_expect_same(a, b, APPLIED_Y, rows);
  components_expect_same(a, b, APPLIED_DX, rows);
  if (a->geometry.delta) {
    components_expect_same(a, b, APPLIED_DD, rows);
  }
}
