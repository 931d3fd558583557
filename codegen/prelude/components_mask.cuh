// components_mask.cuh: which rows of a tile there are, and their masks in shared memory.

#define STG_MASK_NONE 0
#define STG_MASK_ELEMENTS 1
#define STG_MASK_BYTES 2 // 0 is 0, all others are 1

// What a block knows of each of its rows.
template <class G> struct stg_components_rows {
  long long mask[G::tile]; // where its row of the mask begins, in elements; -1: padding
  float d[G::tile];        // 0 in padding

  __device__ __forceinline__ bool is_live(int r) const {
    return mask[r] >= 0;
  }

  // Of the arguments of a work, rows from `first` on, and before `end`. Ends before the block
  // meets.
  template <class Args> __device__ __forceinline__ void find(const Args &a, int first, int end) {
    typedef typename G::data data;
    for (int r = threadIdx.x; r < G::tile; r += G::threads) {
      const int row = first + r;
      bool live = row < end;
      if (live && a.valid != nullptr) {
        live = row % a.sequence < __ldg(a.valid + row / a.sequence);
      }
      const long long at =
          G::mask == STG_MASK_NONE ? 0 : (long long)(row / a.share) * a.mask_stride;
      mask[r] = live ? at : -1;
      d[r] = G::delta && live ? data::widen(((const typename data::element *)a.d)[row]) : 0.0f;
    }
  }
};

// Masks of two neighbours; `at`: where elements have them in shared memory.
template <class G> __device__ __forceinline__ void stg_mask_pair(unsigned at, float &a, float &b) {
  if constexpr (G::mask == STG_MASK_ELEMENTS) {
    stg_operands<typename G::data>::load_pair(at, a, b);
  } else {
    const unsigned both = stg_load_half(at);
    a = (both & 0xffu) != 0 ? 1.0f : 0.0f;
    b = both >> 8 != 0 ? 1.0f : 0.0f;
  }
}
