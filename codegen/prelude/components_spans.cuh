// components_spans.cuh: how many spans rows have.

// codegen/components.h has the same. A call has up to 2^31 - 1 rows: their sum with a span may be
// more.
__device__ constexpr int stg_components_spans_of(int rows, int span) {
  return rows > 0 ? (rows - 1) / span + 1 : 0;
}
static_assert(stg_components_spans_of(2147483647, 268435456) == 8, "of as many rows as can be");
static_assert(stg_components_spans_of(64, 32) == 2 && stg_components_spans_of(65, 32) == 3 &&
                  stg_components_spans_of(0, 32) == 0,
              "the last one may be short");
