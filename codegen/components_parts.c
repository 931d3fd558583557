/*
 * components_parts.c: see components_args.h.
 */
#include "codegen/components_args.h"
#include "runtime/base/intmath.h"

#define PART_UNIT ((size_t)4) /* floats of 16 bytes */

/* Append `count` matrices of rows * columns. */
static bool append(struct stg_components_parts *parts, size_t count, size_t rows, size_t columns,
                   size_t *ret_at) {
  size_t floats;
  if (!stg_mul_size(rows, columns, &floats) || !stg_mul_size(floats, count, &floats) ||
      floats > SIZE_MAX / 8) {
    return false;
  }
  *ret_at = parts->floats;
  return stg_add_size(parts->floats, stg_round_up(floats, PART_UNIT), &parts->floats);
}

bool stg_components_parts_of(const struct stg_components_geometry *geometry, int64_t rows,
                             int64_t share, bool shared_dm,
                             struct stg_components_parts *ret_parts) {
  const size_t spans = (size_t)stg_components_spans(geometry->components, rows);
  const size_t groups = (size_t)stg_components_groups(rows, share);
  const size_t d_in = geometry->d_in;
  const size_t d_out = geometry->d_out;
  const size_t components = geometry->components;
  struct stg_components_parts parts = {0};
  if (!append(&parts, spans, d_in, components, &parts.dv) ||
      !append(&parts, spans, components, d_out, &parts.du) ||
      !append(&parts, geometry->delta ? spans : 0, d_out, d_in, &parts.ddelta) ||
      !append(&parts, geometry->bias ? spans : 0, 1, d_out, &parts.dbias) ||
      !append(&parts, shared_dm ? spans + groups : 0, 1, components, &parts.dm)) {
    return false;
  }
  *ret_parts = parts;
  return true;
}
