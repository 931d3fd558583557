// pieces.cuh: heads by pieces of 16 bytes, or of a single element where pairs do not come in whole
// ones of those; wherever the head stands. Knows no angle.
//
// Of no more than 16 bytes: neighbouring threads have neighbouring pieces, and what a warp reads or
// writes at once is then whole sectors.

template <bool Wide, class D> struct stg_piece {
  typedef stg_raw16 raw;
  static constexpr int elements = 16 / sizeof(typename D::element);
};
template <class D> struct stg_piece<false, D> {
  typedef typename D::element raw;
  static constexpr int elements = 1;
};

// A scalar as a tensor would hold it.
template <class D> __device__ __forceinline__ void stg_narrow_one(float x, unsigned short &e) {
  e = (unsigned short)(D::narrow2(x, 0.0f) & 0xffffu);
}
template <class D> __device__ __forceinline__ void stg_narrow_one(float x, unsigned &e) {
  e = __float_as_uint(x);
}
template <class D> __device__ __forceinline__ float stg_rounded(float x) {
  typename D::element e;
  stg_narrow_one<D>(x, e);
  return D::widen(e);
}

template <class D, class Raw>
__device__ __forceinline__ void stg_widen_piece(const Raw &r, float (&f)[8]) {
  stg_widen<D>(r, f);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_widen_piece(const Raw &r, float (&f)[4]) {
  f[0] = D::widen(r.w.x), f[1] = D::widen(r.w.y), f[2] = D::widen(r.w.z), f[3] = D::widen(r.w.w);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_widen_piece(const Raw &r, float (&f)[1]) {
  f[0] = D::widen(r);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_narrow_piece(const float (&f)[8], Raw &r) {
  stg_narrow<D>(f, r);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_narrow_piece(const float (&f)[4], Raw &r) {
  stg_narrow_one<D>(f[0], r.w.x), stg_narrow_one<D>(f[1], r.w.y);
  stg_narrow_one<D>(f[2], r.w.z), stg_narrow_one<D>(f[3], r.w.w);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_narrow_piece(const float (&f)[1], Raw &r) {
  stg_narrow_one<D>(f[0], r);
}

// Elements that stand `step` apart.
template <class D>
__device__ __forceinline__ void stg_load_apart(const typename D::element *at, long long step,
                                               stg_raw16 &r) {
  constexpr int n = stg_piece<true, D>::elements;
  alignas(16) typename D::element e[n]; // read as whole words below
#pragma unroll
  for (int j = 0; j < n; j++) {
    e[j] = at[j * step];
  }
  r = *(const stg_raw16 *)e;
}
template <class D>
__device__ __forceinline__ void stg_load_apart(const typename D::element *at, long long step,
                                               typename D::element &r) {
  r = *at;
}
template <class D>
__device__ __forceinline__ void stg_store_apart(typename D::element *at, long long step,
                                                const stg_raw16 &r) {
  const typename D::element *e = (const typename D::element *)&r;
#pragma unroll
  for (int j = 0; j < stg_piece<true, D>::elements; j++) {
    at[j * step] = e[j];
  }
}
template <class D>
__device__ __forceinline__ void stg_store_apart(typename D::element *at, long long step,
                                                const typename D::element &r) {
  *at = r;
}

// By its address alone the compiler does not know that it is no shared memory.
__device__ __forceinline__ void stg_store_global(uint4 *p, const stg_raw16 &r) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(r.w.x), "r"(r.w.y),
               "r"(r.w.z), "r"(r.w.w));
}

// Where an item of a head begins: in a packed row or in a tensor.
template <class G> struct stg_home {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_piece<G::wide, data> piece;
  element *first; // of its first piece
  int step;       // from an element to the next

  // The piece `ahead` of the first. `Whole`: by 16 bytes, where elements follow each other.
  template <bool Whole>
  __device__ __forceinline__ void load(int ahead, typename piece::raw &r) const {
    element *const at = first + ahead * piece::elements * step;
    if constexpr (Whole && G::wide) {
      if (step == 1) {
        stg_load_now((const uint4 *)at, r);
        return;
      }
    }
    stg_load_apart<data>(at, step, r);
  }
  template <bool Whole>
  __device__ __forceinline__ void store(int ahead, const typename piece::raw &r) const {
    element *const at = first + ahead * piece::elements * step;
    if constexpr (Whole && G::wide) {
      if (step == 1) {
        stg_store_global((uint4 *)at, r);
        return;
      }
    }
    stg_store_apart<data>(at, step, r);
  }
};
