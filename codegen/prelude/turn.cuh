// turn.cuh: the angles of a row, and pairs that are turned by them. Products and sums are rounded
// where codegen/rope.h says, so that the bits are the CPU's. Knows neither layouts nor caches.

// ---- angles ----

// What a row's pairs are turned by, by pieces as elements are. The pairs of a piece of 8 stand in two
// vectors of 4, and the first vectors of all pieces before the second ones: lanes that read
// neighbouring pieces at once then read neighbouring vectors, as they do of pieces of 4.
template <class G> struct stg_angles {
  static constexpr int pairs = G::rot / 2;
  static constexpr int chunks = (pairs + 7) / 8;
  static constexpr bool by_4 = stg_piece<G::wide, typename G::data>::elements == 4;
  static constexpr int of_thread = (pairs + G::threads - 1) / G::threads;
  float4 cosine[2 * chunks], sine[2 * chunks];
  float4 q_scale[G::xpos ? 2 * chunks : 1], k_scale[G::xpos ? 2 * chunks : 1];

  static __device__ __forceinline__ float &at(float4 *vectors, int pair) {
    const int vector = by_4 ? pair / 4 : pair % 8 / 4 * chunks + pair / 8;
    return ((float *)vectors)[vector * 4 + pair % 4];
  }
  static __device__ __forceinline__ void read(const float4 *vectors, int chunk, float (&f)[8]) {
    const float4 lo = vectors[chunk], hi = vectors[chunks + chunk];
    f[0] = lo.x, f[1] = lo.y, f[2] = lo.z, f[3] = lo.w;
    f[4] = hi.x, f[5] = hi.y, f[6] = hi.z, f[7] = hi.w;
  }
  static __device__ __forceinline__ void read(const float4 *vectors, int vector, float (&f)[4]) {
    const float4 v = vectors[vector];
    f[0] = v.x, f[1] = v.y, f[2] = v.z, f[3] = v.w;
  }
  static __device__ __forceinline__ void read(float4 *vectors, int pair, float (&f)[1]) {
    f[0] = at(vectors, pair);
  }

  // This thread's pairs: frequencies that no launch writes.
  static __device__ __forceinline__ void ask(const stg_rope_args &a, float (&inv)[of_thread]) {
#pragma unroll
    for (int k = 0; k < of_thread; k++) {
      const int i = threadIdx.x + k * G::threads;
      inv[k] = !G::table && i < pairs ? a.inv_freq[i] : 0.0f;
    }
  }

  // Set them for a row. All threads may read them behind the next barrier.
  __device__ __forceinline__ void set(const stg_rope_args &a, const float (&inv)[of_thread],
                                      int position, int centre) {
#pragma unroll
    for (int k = 0; k < of_thread; k++) {
      const int i = threadIdx.x + k * G::threads;
      if (i < pairs) {
        float s, c;
        if constexpr (G::table) {
          const float *row = a.table + (long long)position * (2 * pairs);
          c = row[i], s = row[pairs + i];
        } else {
          stg_math_sincos((float)position * inv[k], &s, &c);
        }
        at(G::swapped ? sine : cosine, i) = stg_rounded<typename G::trig>(c);
        at(G::swapped ? cosine : sine, i) = stg_rounded<typename G::trig>(s);
        if constexpr (G::xpos) {
          const float power = (float)(position - centre) / a.xpos_base;
          const float log_scale = a.log_scale[i];
          at(q_scale, i) = stg_rounded<typename G::trig>(stg_math_exp(power * log_scale));
          at(k_scale, i) = stg_rounded<typename G::trig>(stg_math_exp(-power * log_scale));
        }
      }
    }
  }
};

// Where the scale of xPos is 1: half the largest position that the call has of the sequence. A map
// that does not say it costs every block a look at all rows.
template <class G>
__device__ __forceinline__ int stg_centre(const stg_rope_args &a, const stg_row_entry &entry,
                                          int position) {
  __shared__ int largest;
  if (entry.pos == 0) {
    return position / 2; // the only row of its sequence
  }
  if (entry.largest != 0) {
    return *entry.largest / 2;
  }
  if (threadIdx.x == 0) {
    largest = position;
  }
  __syncthreads();
  int mine = position;
  for (int row = threadIdx.x; row < a.rows.rows; row += G::threads) {
    const stg_row_entry other = stg_row_entry_of(a.rows, row);
    if (other.seq == entry.seq) {
      const long long p = stg_row_position(a.rows, other);
      mine = stg_is_position(p) && p > mine ? (int)p : mine;
    }
  }
  atomicMax(&largest, mine);
  __syncthreads();
  return largest / 2;
}

// ---- turning ----

// Round to the tensors' type what eager rounds: every product.
template <class G, int N> __device__ __forceinline__ void stg_round_product(float (&f)[N]) {
  if constexpr (G::each_op) {
    typename stg_piece<(N > 1), typename G::data>::raw r;
    stg_narrow_piece<typename G::data>(f, r);
    stg_widen_piece<typename G::data>(r, f);
  }
}

template <class G, int N>
__device__ __forceinline__ void stg_multiply(const float (&x)[N], const float (&y)[N],
                                             float (&to)[N]) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    to[j] = x[j] * y[j];
  }
  stg_round_product<G>(to);
}

// The pairs (x, y) of an item; back: the transpose of that. `x_scale` and `y_scale` are read with
// xPos alone. What crosses over to the other element has the scale of where it arrives.
template <class G, int N>
__device__ __forceinline__ void stg_turn(float (&x)[N], float (&y)[N], const float (&cosine)[N],
                                         const float (&sine)[N], const float (&x_scale)[N],
                                         const float (&y_scale)[N]) {
  float x_straight[N], y_straight[N], x_across[N], y_across[N];
  if constexpr (G::xpos && G::backward) {
    stg_multiply<G>(x, x_scale, x);
    stg_multiply<G>(y, y_scale, y);
  }
  stg_multiply<G>(x, cosine, x_straight);
  stg_multiply<G>(y, cosine, y_straight);
  stg_multiply<G>(x, sine, x_across);
  stg_multiply<G>(y, sine, y_across);
  if constexpr (G::xpos && !G::backward) {
    stg_multiply<G>(x_straight, x_scale, x_straight);
    stg_multiply<G>(y_straight, y_scale, y_straight);
    stg_multiply<G>(x_across, y_scale, x_across);
    stg_multiply<G>(y_across, x_scale, y_across);
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    x[j] = G::backward ? x_straight[j] + y_across[j] : x_straight[j] - y_across[j];
    y[j] = G::backward ? y_straight[j] - x_across[j] : y_straight[j] + x_across[j];
  }
}

// Where neighbours are pairs, two pieces hold x0 y0 x1 y1 ...: take them apart, put them together.
template <int N> __device__ __forceinline__ void stg_unzip(float (&a)[N], float (&b)[N]) {
  float both[2 * N];
#pragma unroll
  for (int j = 0; j < N; j++) {
    both[j] = a[j], both[N + j] = b[j];
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    a[j] = both[2 * j], b[j] = both[2 * j + 1];
  }
}
template <int N> __device__ __forceinline__ void stg_zip(float (&a)[N], float (&b)[N]) {
  float both[2 * N];
#pragma unroll
  for (int j = 0; j < N; j++) {
    both[2 * j] = a[j], both[2 * j + 1] = b[j];
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    a[j] = both[j], b[j] = both[N + j];
  }
}
__device__ __forceinline__ void stg_unzip(float (&a)[1], float (&b)[1]) {
}
__device__ __forceinline__ void stg_zip(float (&a)[1], float (&b)[1]) {
}
