// rows.cuh: the rows of a tile: brought to shared memory while the tile before is at work, then
// held in registers as the float32 state that ops see and change; or where a row is too long for
// that, read again where it is needed.

template <class G> struct stg_rows {
  typedef typename G::data data;
  typedef typename data::raw raw;
  typedef typename data::element element;
  static constexpr int pieces = sizeof(raw) / sizeof(uint4);
  static constexpr int held_rows = G::held ? G::rows : 1;
  static constexpr int held_chunks = G::held ? G::chunks_per_thread : 1;
  static constexpr bool adds_hidden = G::pair && !G::epilogue; // an update is of hidden alone

  const stg_steer_args &a;
  uint4 *stage;      // [stages, tensors, rows, chunks_per_thread, pieces, threads]: each its own
  const bool direct; // whole chunks, all of them aligned
  int first;         // the tile's first row in the tensors
  int size;          // rows of the tile
  int turn;          // its stage
  float x[held_rows][held_chunks][8]; // the state

  __device__ __forceinline__ stg_rows(const stg_steer_args &args, uint4 *memory)
      : a(args), stage(memory), direct((args.flags & STG_ALIGNED) != 0) {
  }

  __device__ __forceinline__ element *at(const void *tensor, int r) const {
    return (element *)tensor + (long long)(first + r) * a.row_stride;
  }
  static __device__ __forceinline__ uint4 *chunk_of(element *row, int i) {
    return (uint4 *)(row + (threadIdx.x + i * G::threads) * 8);
  }
  __device__ __forceinline__ uint4 *slot(int in_stage, int number, int r, int i) const {
    const int tensor = in_stage * (G::pair ? 2 : 1) + number;
    const int chunk = (tensor * G::rows + r) * G::chunks_per_thread + i;
    return stage + chunk * pieces * G::threads + threadIdx.x;
  }

  // Begin to bring `count` rows from `row` on to a stage; they are there after the next wait.
  __device__ __forceinline__ void bring(int to, int row, int count) const {
    if (G::held && direct) {
      bring_tensor(a.hidden, to, 0, row, count);
      if constexpr (G::pair) {
        bring_tensor(a.residual, to, 1, row, count);
      }
    }
  }
  __device__ __forceinline__ void bring_tensor(const void *tensor, int to, int number, int row,
                                               int count) const {
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      if (r < count) {
        element *from = (element *)tensor + (long long)(row + r) * a.row_stride;
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
#pragma unroll
            for (int p = 0; p < pieces; p++) {
              stg_copy_async(slot(to, number, r, i) + p * G::threads, chunk_of(from, i) + p);
            }
          }
        }
      }
    }
  }

  // Rows that are not aligned or end within a chunk bounce: element by element between the tensor
  // and [tensors, rows, padded] in place of the stages.
  __device__ __forceinline__ element *bounced(int number, int r) const {
    return (element *)stage + (number * G::rows + r) * G::padded;
  }
  __device__ __forceinline__ void bounce_in(const void *tensor, int number) const {
#pragma unroll 1
    for (int k = threadIdx.x; k < size * G::padded; k += G::threads) {
      const int r = k / G::padded, e = k % G::padded;
      bounced(number, 0)[k] = e < G::hidden ? at(tensor, r)[e] : 0;
    }
  }
  __device__ __forceinline__ void bounce_out(void *tensor, int number, unsigned mask) const {
#pragma unroll 1
    for (int k = threadIdx.x; k < size * G::padded; k += G::threads) {
      const int r = k / G::padded, e = k % G::padded;
      if (e < G::hidden && (mask >> r & 1u)) {
        at(tensor, r)[e] = bounced(number, 0)[k];
      }
    }
  }

  // Chunk i of row r as it was given, where it was brought or bounced; generic addresses serve
  // both. What would be beyond the tile is its last row again.
  __device__ __forceinline__ void given(int number, int r, int i, raw &to) const {
    const int from = r < size ? r : size - 1;
    const uint4 *p = !direct ? chunk_of(bounced(number, from), i) : slot(turn, number, from, i);
    take(p, direct ? G::threads : 1, to);
  }
  static __device__ __forceinline__ void take(const uint4 *from, int, stg_raw16 &x) {
    x.w = from[0];
  }
  static __device__ __forceinline__ void take(const uint4 *from, int apart, stg_raw32 &x) {
    x.lo = from[0], x.hi = from[apart];
  }

  static __device__ __forceinline__ void add(const raw &g, float (&f)[8]) {
    float e[8];
    stg_widen<data>(g, e);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      f[j] += e[j];
    }
  }

  // The tile is `count` rows from `row` on, which were brought to a stage.
  __device__ __forceinline__ void arrive(int from, int row, int count) {
    first = row;
    size = count;
    turn = from;
    if (G::held && !direct) {
      __syncthreads(); // the rows before have left
      bounce_in(a.hidden, 0);
      if (G::pair) {
        bounce_in(a.residual, 1);
      }
      __syncthreads();
    }
  }

  // Take the state into registers.
  __device__ __forceinline__ void take() {
    if constexpr (G::held) {
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            raw g;
            given(0, r, i, g);
            stg_widen<data>(g, x[r][i]);
            if constexpr (G::pair) {
              given(1, r, i, g);
              add(g, x[r][i]);
            }
            stg_keep(x[r][i]);
          }
        }
      }
    }
  }

  // Chunks of rows that are not held.
  __device__ __forceinline__ void read(const void *tensor, int r, int i, raw &to) const {
    stg_load_chunk<G>(at(tensor, r), threadIdx.x + i * G::threads, direct, to);
  }
  __device__ __forceinline__ void read_state(int r, int i, float (&f)[8]) const {
    raw g;
    read(a.hidden, r, i, g);
    stg_widen<data>(g, f);
    if constexpr (G::pair) {
      read(a.residual, r, i, g);
      add(g, f);
    }
  }

  // What the vectors are added to: a*state, or where hidden is added at the end, (a-1)*state.
  static __device__ __forceinline__ void begin(float (&f)[8], float scale) {
    if (adds_hidden) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = scale != 1.0f ? (scale - 1.0f) * f[j] : 0.0f;
      }
    } else if (scale != 1.0f) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] *= scale;
      }
    }
  }

  // The updated chunk goes out.
  __device__ __forceinline__ void finish(int r, int i, float (&f)[8]) const {
    if constexpr (adds_hidden && G::held) {
      raw g;
      given(0, r, i, g);
      add(g, f);
    } else if constexpr (adds_hidden) {
      raw g;
      read(a.hidden, r, i, g);
      add(g, f);
    }
    store(a.out, 0, r, i, f);
  }

  __device__ __forceinline__ void store(void *tensor, int number, int r, int i,
                                        const float (&f)[8]) const {
    raw g;
    stg_narrow<data>(f, g);
    if constexpr (G::held) {
      element *to = direct ? at(tensor, r) : bounced(number, r);
      stg_store_wide(chunk_of(to, i), g);
    } else {
      stg_store_chunk<G>(at(tensor, r), threadIdx.x + i * G::threads, direct, g);
    }
  }

  // The rows of `mask` are stored: those that bounced go out.
  __device__ __forceinline__ void end_store(unsigned mask) const {
    if (G::held && !direct) {
      __syncthreads();
      bounce_out(a.out, 0, mask);
      if (G::epilogue) {
        bounce_out(a.residual, 1, mask);
      }
    }
  }

  // Out of place: rows that nothing changes are stored as they are.
  __device__ __forceinline__ void copy(unsigned mask) const {
#pragma unroll 1
    for (unsigned left = mask; left != 0; left &= left - 1) {
      const int r = __ffs(left) - 1;
#pragma unroll 1
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (stg_has_chunk<G>(i)) {
          raw g;
          read(a.hidden, r, i, g);
          stg_store_chunk<G>(at(a.out, r), threadIdx.x + i * G::threads, direct, g);
        }
      }
    }
  }
};
