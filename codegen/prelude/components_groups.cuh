// components_groups.cuh: dm of a mask whose rows several rows share: sums of each span, over the
// rows of each group that has some there.
//
// A block of 16 rows has a sum of each of its groups, by one tree: the first group's may go on from
// the block before, the last one's into the next, and those between are whole. Blocks are then
// added in their order. So the rows of a tile change no bit.

// Of the rows of a tile, in shared memory.
template <class G> struct stg_components_heads {
  float first[G::tile / 16][G::block];
  float last[G::tile / 16][G::block]; // where a block has two groups or more
};

template <class G> struct stg_components_groups {
  stg_components_heads<G> &heads;
  float *const to;            // a row of components for each span and group
  const int share, span, end; // of the rows, the span's number, and the row behind it
  const int begin;            // of the components
  // of the component begin + threadIdx.x
  float sum;
  int group;

  __device__ __forceinline__ stg_components_groups(stg_components_heads<G> &in_shared, float *parts,
                                                   int rows_share, int number, int end_row,
                                                   int first_component)
      : heads(in_shared), to(parts), share(rows_share), span(number), end(end_row),
        begin(first_component), sum(0.0f), group(-1) {
  }

  __device__ __forceinline__ float *row_of(int of_group) const {
    return to + (long long)(span + of_group) * G::components;
  }
  // The last row of the block of 16 that begins at `first`.
  __device__ __forceinline__ int last_of(int first) const {
    return first + 15 < end ? first + 15 : end - 1;
  }
  __device__ __forceinline__ float if_of(int of_group, int row, float x) const {
    return (unsigned)(row - of_group * share) < (unsigned)share ? x : 0.0f;
  }

  // By a warp: of the block of 16 rows from `first` on, the `number`th of its tile, components
  // begin + column and the one behind, of rows lane / 4 and lane / 4 + 8.
  __device__ __forceinline__ void take(int number, int first, int column, const float (&upper)[2],
                                       const float (&lower)[2]) const {
    if (first >= end) {
      return;
    }
    const int lane = threadIdx.x % STG_LANES, row = first + lane / 4;
    const int from = first / share, until = last_of(first) / share;
    for (int g = from; g <= until; g++) {
      float of[2];
#pragma unroll
      for (int j = 0; j < 2; j++) {
        of[j] = if_of(g, row, upper[j]) + if_of(g, row + 8, lower[j]);
        of[j] += __shfl_xor_sync(STG_ALL, of[j], 16);
        of[j] += __shfl_xor_sync(STG_ALL, of[j], 8);
        of[j] += __shfl_xor_sync(STG_ALL, of[j], 4);
      }
      if (lane >= 4) {
        continue;
      }
      const bool whole = g != from && g != until;
      float *const at = whole ? row_of(g) + begin + column
                              : (g == from ? heads.first : heads.last)[number] + column;
#pragma unroll
      for (int j = 0; j < 2; j++) {
        if (!whole || begin + column + j < G::components) {
          at[j] = of[j];
        }
      }
    }
  }

  __device__ __forceinline__ void store() const {
    const int component = begin + (int)threadIdx.x;
    if (group >= 0 && component < G::components) {
      row_of(group)[component] = sum;
    }
  }

  // By all, once the block has met: the blocks of the tile that begins at row `top`.
  __device__ __forceinline__ void add(int top) {
    if (threadIdx.x >= G::block) {
      return;
    }
    for (int i = 0; i < G::tile / 16 && top + i * 16 < end; i++) {
      const int first = top + i * 16;
      const int from = first / share, until = last_of(first) / share;
      if (from == group) {
        sum += heads.first[i][threadIdx.x];
      } else {
        store();
        sum = heads.first[i][threadIdx.x];
        group = from;
      }
      if (until != from) {
        store();
        sum = heads.last[i][threadIdx.x];
        group = until;
      }
    }
  }
};
