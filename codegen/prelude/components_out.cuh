// components_out.cuh: what a block of work=apply sums, and what comes of the sums: y, or turned dx
// and dd.

// A thread's place, worked out where it stands; row and column are of the second product.
template <class G> struct stg_components_place {
  const int warp = stg_thread_here() / STG_LANES;
  const unsigned lane = (unsigned)stg_thread_here() % STG_LANES;
  const int row = warp / G::warps_n * G::warp_rows, column = warp % G::warps_n * G::warp_columns;

  // What it has of a row: of m and half, row `r`, columns c(n) and the one behind.
  __device__ __forceinline__ int row_of(int m, int half) const {
    return row + m * 16 + half * 8 + (int)lane / 4;
  }
  __device__ __forceinline__ int column_of(int n) const {
    return column + n * 8 + (int)lane % 4 * 2;
  }
};

template <class G> struct stg_components_sums {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_layout<G> layout;
  typedef stg_operands<data> operands;
  typedef stg_components_place<G> place;
  static constexpr unsigned bytes = sizeof(element);
  static constexpr int tiles = G::warp_rows / 16;
  static constexpr int columns = G::warp_columns / 16;

  const stg_components_apply_args &a;
  stg_components_rows<G> &rows;
  float *const dd;       // of each of them
  const unsigned memory; // of the block
  const stg_components_bring<G> from;
  float acc[tiles][2 * columns][4];

  __device__ __forceinline__ stg_components_sums(const stg_components_apply_args &args,
                                                 stg_components_rows<G> &of_rows, float *of_dd,
                                                 unsigned shared)
      : a(args), rows(of_rows), dd(of_dd), memory(shared), from{args, of_rows, shared} {
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int n = 0; n < 2 * columns; n++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          acc[m][n][j] = 0.0f;
        }
      }
    }
  }

  __device__ __forceinline__ void scale_by_d() {
    const place at;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const float d = rows.d[at.row_of(m, half)];
#pragma unroll
        for (int n = 0; n < 2 * columns; n++) {
          acc[m][n][2 * half] = __fmul_rn(acc[m][n][2 * half], d);
          acc[m][n][2 * half + 1] = __fmul_rn(acc[m][n][2 * half + 1], d);
        }
      }
    }
  }

  // dd: sums of 16 columns, which are added in their order, from a warp to the next.
  __device__ __forceinline__ void sum_dd() {
#pragma unroll 1
    for (int w = 0; w < G::warps_n; w++) {
      if (w == place().warp % G::warps_n) {
#pragma unroll
        for (int i = 0; i < 2 * tiles; i++) {
          if (from.first_row() + place().row + i * 8 < a.rows) { // as below
            add_to_dd(i / 2, i % 2);
          }
        }
      }
      __syncthreads();
    }
    for (int r = threadIdx.x; r < G::tile && from.first_row() + r < a.rows; r += G::threads) {
      operands::store((element *)a.dd + from.first_row() + r, rows.is_live(r) ? dd[r] : 0.0f);
    }
  }
  __device__ __forceinline__ void add_to_dd(int m, int half) {
    const place at;
    const int r = at.row_of(m, half);
    const int end = rows.is_live(r) ? G::out : 0;
    const element *const x = (const element *)a.x + (long long)(from.first_row() + r) * a.x_stride;
    float sum = at.column == 0 ? 0.0f : dd[r];
#pragma unroll
    for (int n = 0; n < 2 * columns; n += 2) {
      if (at.column + n * 8 >= G::out) { // a branch, so that loads of x do not pile up in registers
        continue;
      }
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int c = at.column_of(n + j / 2) + j % 2;
        if (c < end) {
          part = __fmaf_rn(data::widen(x[c]), acc[m][n + j / 2][2 * half + j % 2], part);
        }
      }
      part += __shfl_xor_sync(STG_ALL, part, 1);
      part += __shfl_xor_sync(STG_ALL, part, 2);
      sum += part;
    }
    __syncwarp();
    if (at.lane % 4 == 0) {
      dd[r] = sum;
    }
  }

  // As the tensors' type has them, two neighbours at a time.
  __device__ __forceinline__ void store_pairs() const {
    const bool aligned = from.is_aligned(STG_ALIGNED_OUT);
    const place at;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int r = at.row_of(m, half);
        const bool live = rows.is_live(r);
        element *const to = (element *)a.out + (long long)(from.first_row() + r) * a.out_stride;
#pragma unroll
        for (int n = 0; n < 2 * columns; n++) {
          const int c = at.column_of(n);
          if (from.first_row() + r >= a.rows || c >= G::out) {
            continue;
          }
          float y[2];
#pragma unroll
          for (int j = 0; j < 2; j++) {
            y[j] = acc[m][n][2 * half + j];
            if (G::bias && c + j < G::out) {
              y[j] += data::widen(((const element *)a.bias)[c + j]);
            }
            y[j] = live ? y[j] : 0.0f;
          }
          if (c + 1 < G::out) {
            operands::store_two(to + c, y[0], y[1], aligned);
          } else {
            operands::store(to + c, y[0]);
          }
        }
      }
    }
  }

  // By way of shared memory, which no warp reads any more, so that rows go out in whole pieces.
  __device__ __forceinline__ void store_pieces() const {
    constexpr int pieces = layout::strip_pieces, pitch = stg_pitch_of(pieces);
    const place at;
    const unsigned strip = memory + at.warp * layout::strip_bytes;
    const unsigned mine = strip + (at.lane / 4 * pitch) * 16u + at.lane % 4 * 4u;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
      const bool live[2] = {rows.is_live(at.row_of(m, 0)), rows.is_live(at.row_of(m, 1))};
#pragma unroll
      for (int n = 0; n < 2 * columns; n++) {
        float bias[2] = {0.0f, 0.0f};
        if constexpr (G::bias) {
#pragma unroll
          for (int j = 0; j < 2; j++) {
            const int c = at.column_of(n) + j;
            bias[j] = c < G::out ? data::widen(((const element *)a.bias)[c]) : 0.0f;
          }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float y[2] = {acc[m][n][2 * half], acc[m][n][2 * half + 1]};
          if constexpr (G::bias) {
            y[0] += bias[0], y[1] += bias[1];
          }
          stg_store_word(mine + half * (8u * pitch * 16u) + n * 16u,
                         live[half] ? data::narrow2(y[0], y[1]) : 0);
        }
      }
      __syncwarp();
      const int top = from.first_row() + at.row + m * 16;
      element *const to = (element *)a.out + (long long)top * a.out_stride + at.column;
      const int left = G::out - at.column, n = left < G::warp_columns ? left : G::warp_columns;
      if (from.is_aligned(STG_ALIGNED_OUT)) {
        stg_put_pieces<pieces>(strip, to, a.out_stride, a.rows - top, n);
      } else {
        stg_put_words<pieces>(strip, to, a.out_stride, a.rows - top, n);
      }
      __syncwarp();
    }
  }

  __device__ __forceinline__ void store() const {
    if constexpr (bytes == 2) {
      store_pieces();
    } else {
      store_pairs();
    }
  }

  // Delta's product is done. False: dd alone is wanted.
  __device__ __forceinline__ bool end_delta() {
    if (G::turned && a.dd != nullptr) {
      sum_dd();
      if (a.out == nullptr) {
        stg_copy_wait_but<0>();
        return false;
      }
    }
    scale_by_d();
    return true;
  }

  // The rows, and as many chunks as are on their way ahead. False: there is nothing to do.
  __device__ __forceinline__ bool start() {
    stg_wait_for_earlier_launches();
    stg_let_next_launch_begin();
    if (from.first_row() >= a.rows) { // a launch of no rows has a block, and perhaps no matrices
      return false;
    }
    rows.find(a, from.first_row(), a.rows);
    __syncthreads();
    from.bring_in();
    stg_copy_commit();
#pragma unroll 1
    for (int n = 0; n < G::stages - 1; n++) {
      from.bring(n);
    }
    stg_copy_wait_but<G::stages - 1>();
    __syncthreads();
    if (!from.is_aligned(STG_ALIGNED_IN) && from.settle_in()) {
      __syncthreads();
    }
    if constexpr (operands::rounds) { // those who read them have met by then
      from.round_in();
    }
    return true;
  }
};
