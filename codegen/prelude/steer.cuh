// steer.cuh: the steer kernel, written once for every geometry and set of ops.
//
// The generated text supplies a struct G with the literal extents and the switch over ops; this
// file does the rest. It includes nothing: NVRTC compiles header-free text three times faster.
//
// A block owns a tile of G::rows rows; its G::threads threads share every row. Which thread holds
// which element depends on the hidden size alone, sums run in one fixed order, and absent work is
// skipped by uniform branches, so a row's bits do not depend on its batch mates, its place or the
// tile.
//
// Stages: (1) look up each row's chain and bring it to shared memory; (2) load the rows; (3) one
// reduction for all dots of all chains in the tile; (4) one warp per row runs its chain on scalars,
// lane i holding coefficient i; (5) one rank-k update, one store. Between two loads that depend on
// each other lie some hundred cycles, so the path to the first dot has three: map, chain, vector.

// The launch's arguments. `flags`: 1 in place, 2 every row is 16-byte aligned.
struct stg_steer_args {
  const void *hidden;    // [rows, row_stride]
  void *out;             // [rows, row_stride]
  const void *residual;  // [rows, row_stride], or null
  const int *row_map;    // header [4], then [rows]: record in 16-byte units, -1 unsteered, -2 padding
  const int *table;      // [slots] record of a slot or -1, for a map of slots
  const uint4 *records;  // [records, layers, chain_words]
  const void *bank;      // [vectors, G::padded]
  unsigned *report;      // [0] rows with a bad slot, [1] one such slot, [2] rows not finite
  long long row_stride;  // elements
  int rows;
  unsigned slots;
  unsigned layer;
  unsigned chain_words;  // room of one chain, a multiple of 4
  unsigned flags;
};

// row_map[0]: 0 the map holds records, 1 it holds slots (a map that was written on the device).
#define STG_MAP_HEADER 4

// A chain in device memory, in 32-bit words: header[4], vector rows[n_vectors rounded up to 4],
// ops[12 each], gram[n*n]. Header: n_ops | n_vectors << 8 | wants_norm << 16 (0: no chain); mask of
// vectors whose dot is read; word of the first op | word of gram << 16; words in all.
#define STG_OP_WORDS 12
#define STG_LANES 32
#define STG_ALL 0xffffffffu
#define STG_NORM_SLOT 32  // where a row's h.h stands beside its dots

// ---- 8-element chunks of a row, as stored and as float ----

struct stg_raw16 {
  uint4 w;
};
struct stg_raw32 {
  uint4 lo, hi;
};

struct stg_bf16 {
  typedef stg_raw16 raw;
  typedef unsigned short element;
  static __device__ __forceinline__ float widen(element e) { return __uint_as_float((unsigned)e << 16); }
  static __device__ __forceinline__ void widen2(unsigned w, float &a, float &b) {
    a = __uint_as_float(w << 16);
    b = __uint_as_float(w & 0xffff0000u);
  }
  static __device__ __forceinline__ unsigned narrow2(float a, float b) {
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};

struct stg_f16 {
  typedef stg_raw16 raw;
  typedef unsigned short element;
  static __device__ __forceinline__ float widen(element e) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(e));
    return f;
  }
  static __device__ __forceinline__ void widen2(unsigned w, float &a, float &b) {
    a = widen((element)(w & 0xffffu));
    b = widen((element)(w >> 16));
  }
  static __device__ __forceinline__ unsigned narrow2(float a, float b) {
    unsigned w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};

struct stg_f32 {
  typedef stg_raw32 raw;
  typedef unsigned element;
  static __device__ __forceinline__ float widen(element e) { return __uint_as_float(e); }
};

template <class D>
__device__ __forceinline__ void stg_widen(const stg_raw16 &r, float (&f)[8]) {
  D::widen2(r.w.x, f[0], f[1]);
  D::widen2(r.w.y, f[2], f[3]);
  D::widen2(r.w.z, f[4], f[5]);
  D::widen2(r.w.w, f[6], f[7]);
}

template <class D>
__device__ __forceinline__ void stg_widen(const stg_raw32 &r, float (&f)[8]) {
  f[0] = __uint_as_float(r.lo.x), f[1] = __uint_as_float(r.lo.y);
  f[2] = __uint_as_float(r.lo.z), f[3] = __uint_as_float(r.lo.w);
  f[4] = __uint_as_float(r.hi.x), f[5] = __uint_as_float(r.hi.y);
  f[6] = __uint_as_float(r.hi.z), f[7] = __uint_as_float(r.hi.w);
}

template <class D>
__device__ __forceinline__ void stg_narrow(const float (&f)[8], stg_raw16 &r) {
  r.w.x = D::narrow2(f[0], f[1]);
  r.w.y = D::narrow2(f[2], f[3]);
  r.w.z = D::narrow2(f[4], f[5]);
  r.w.w = D::narrow2(f[6], f[7]);
}

template <class D>
__device__ __forceinline__ void stg_narrow(const float (&f)[8], stg_raw32 &r) {
  r.lo.x = __float_as_uint(f[0]), r.lo.y = __float_as_uint(f[1]);
  r.lo.z = __float_as_uint(f[2]), r.lo.w = __float_as_uint(f[3]);
  r.hi.x = __float_as_uint(f[4]), r.hi.y = __float_as_uint(f[5]);
  r.hi.z = __float_as_uint(f[6]), r.hi.w = __float_as_uint(f[7]);
}

__device__ __forceinline__ void stg_load_wide(const uint4 *p, stg_raw16 &r) { r.w = *p; }
__device__ __forceinline__ void stg_load_wide(const uint4 *p, stg_raw32 &r) { r.lo = p[0], r.hi = p[1]; }
__device__ __forceinline__ void stg_store_wide(uint4 *p, const stg_raw16 &r) { *p = r.w; }
__device__ __forceinline__ void stg_store_wide(uint4 *p, const stg_raw32 &r) { p[0] = r.lo, p[1] = r.hi; }
__device__ __forceinline__ void stg_bank_wide(const uint4 *p, stg_raw16 &r) { r.w = __ldg(p); }
__device__ __forceinline__ void stg_bank_wide(const uint4 *p, stg_raw32 &r) { r.lo = __ldg(p), r.hi = __ldg(p + 1); }

// Chunk `chunk` of a row: 16-byte accesses where rows are aligned and the chunk is whole, elements otherwise.
// Elements past the row read as +0 and are not stored. Only whole-chunk kernels (G::tail == 0) skip the test.
template <class G>
__device__ __forceinline__ void stg_load_chunk(const void *row, int chunk, bool aligned,
                                               typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int first = chunk * 8;
  if (aligned && (G::tail == 0 || first + 8 <= G::hidden)) {
    stg_load_wide((const uint4 *)((const element *)row + first), r);
    return;
  }
  element e[8];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    e[j] = first + j < G::hidden ? ((const element *)row)[first + j] : (element)0;
  }
  r = *(const typename G::data::raw *)e;
}

template <class G>
__device__ __forceinline__ void stg_store_chunk(void *row, int chunk, bool aligned,
                                                const typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int first = chunk * 8;
  if (aligned && (G::tail == 0 || first + 8 <= G::hidden)) {
    stg_store_wide((uint4 *)((element *)row + first), r);
    return;
  }
  const element *e = (const element *)&r;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    if (first + j < G::hidden) {
      ((element *)row)[first + j] = e[j];
    }
  }
}

// Chunk `chunk` of a bank vector; the bank is padded with zeros to whole chunks and always aligned.
template <class G>
__device__ __forceinline__ void stg_bank_chunk(const stg_steer_args &a, unsigned vector, int chunk,
                                               typename G::bank::raw &raw) {
  typedef typename G::bank::element element;
  const element *row = (const element *)a.bank + (unsigned long long)vector * G::padded;
  stg_bank_wide((const uint4 *)(row + chunk * 8), raw);
}

// ---- scalars: NaN stays NaN, which min and max of CUDA would drop ----

__device__ __forceinline__ float stg_min(float a, float b) { return b < a ? b : a; }
__device__ __forceinline__ float stg_max(float a, float b) { return b > a ? b : a; }
__device__ __forceinline__ float stg_clamp(float p, float lo, float hi) { return p < lo ? lo : p > hi ? hi : p; }

// ---- sums over a warp, in one fixed order ----

// Lane l gets the sum of acc[l / (32/R)] over all lanes. The tree (lanes 16 apart first) is the same for every R.
template <int R>
__device__ __forceinline__ float stg_fold(float (&acc)[R], int lane) {
  int apart = 16;
#pragma unroll
  for (int n = R; n > 1; n >>= 1) {
    const bool upper = (lane & apart) != 0;
#pragma unroll
    for (int j = 0; j < n / 2; j++) {
      const float keep = upper ? acc[j + n / 2] : acc[j];
      const float send = upper ? acc[j] : acc[j + n / 2];
      acc[j] = keep + __shfl_xor_sync(STG_ALL, send, apart);
    }
    apart >>= 1;
  }
#pragma unroll
  for (; apart > 0; apart >>= 1) {
    acc[0] += __shfl_xor_sync(STG_ALL, acc[0], apart);
  }
  return acc[0];
}

__device__ __forceinline__ float stg_warp_sum(float x) {
  float acc[1] = {x};
  return stg_fold<1>(acc, 0);
}

// ---- one row's chain, run by one warp: lane i holds coefficient i and the dot of the state with vector i ----

struct stg_chain_run {
  const stg_steer_args *args;
  const unsigned *words;  // the chain, in shared memory
  const float *gram;      // [n, n]
  const void *hidden_row;
  const void *residual_row;
  unsigned n;              // vectors
  unsigned first;          // first vector of the current op
  const unsigned *params;  // of the current op
  unsigned lane;
  float a;   // state = a*h + sum c_i v_i
  float c;   // c_lane
  float d;   // state . v_lane
  float d0;  // h . v_lane
  float n0;  // h . h
};

__device__ __forceinline__ float stg_param(const stg_chain_run &run, unsigned k) {
  return __uint_as_float(run.params[k]);
}

__device__ __forceinline__ float stg_dot(const stg_chain_run &run, unsigned k) {
  return __shfl_sync(STG_ALL, run.d, run.first + k);
}

__device__ __forceinline__ float stg_gram(const stg_chain_run &run, unsigned i, unsigned j) {
  return run.gram[(run.first + i) * run.n + run.first + j];
}

// The norm taken from the updated row itself: the warp walks the row again. Rare: only where the Gram form cancels.
template <class G>
__device__ __noinline__ float stg_norm2_from_row(const void *bank, const void *hidden_row, const void *residual_row,
                                                 const unsigned *vectors, unsigned n, float a, float c) {
  typedef typename G::data::element element;
  typedef typename G::bank::element bank_element;
  float sum = 0.0f;
#pragma unroll 1
  for (int base = 0; base < G::hidden; base += STG_LANES) {
    const int e = base + threadIdx.x % STG_LANES;
    const bool inside = e < G::hidden;
    float h = inside ? G::data::widen(((const element *)hidden_row)[e]) : 0.0f;
    if (G::pair && inside) {
      h += G::data::widen(((const element *)residual_row)[e]);
    }
    float f = a * h;
#pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
      const float ci = __shfl_sync(STG_ALL, c, i);
      const unsigned long long at = (unsigned long long)vectors[i] * G::padded + e;
      const float v = inside ? G::bank::widen(((const bank_element *)bank)[at]) : 0.0f;
      f = __fmaf_rn(ci, v, f);
    }
    sum = __fmaf_rn(f, f, sum);
  }
  return stg_warp_sum(sum);
}

// Squared norm of a*h + sum c_i v_i: a^2 n + 2a sum c_i d_i + sum c_i c_j G_ij, floored at 0. When the terms cancel so
// far that fewer than 14 of float's bits could be left, the row itself is asked.
template <class G>
__device__ __noinline__ float stg_norm2_of(const void *bank, const void *hidden_row, const void *residual_row,
                                           const unsigned *words, float a, float c, float d0, float n0) {
  const unsigned lane = threadIdx.x % STG_LANES;
  const unsigned n = words[0] >> 8 & 0xffu;
  const float *gram = (const float *)(words + (words[2] >> 16));
  const float base = a * a * n0;
  float q = 0.0f, abs_q = 0.0f;
#pragma unroll 1
  for (unsigned i = 0; i < n; i++) {
    const float ci = __shfl_sync(STG_ALL, c, i);
    const float g = lane < n ? gram[i * n + lane] : 0.0f;
    q = __fmaf_rn(ci, g, q);
    abs_q += fabsf(ci * g);
  }
  const float ad = 2.0f * a * d0;
  const float sum = base + stg_warp_sum(c * (ad + q));
  const float terms = base + stg_warp_sum(fabsf(c) * (fabsf(ad) + abs_q));
  if (!(terms <= 1024.0f * sum)) {  // NaN too
    return stg_norm2_from_row<G>(bank, hidden_row, residual_row, words + 4, n, a, c);
  }
  return sum;
}

// The same of s*state + sum t_m v_(first+m), for the op at hand.
template <class G>
__device__ __forceinline__ float stg_norm2(const stg_chain_run &run, float s, float t0, float t1, float t2, float t3) {
  const unsigned own = run.lane - run.first;  // wraps for earlier vectors
  const float a = s * run.a;
  const float earlier = run.lane < run.first ? s * run.c : 0.0f;
  const float c = own == 0 ? t0 : own == 1 ? t1 : own == 2 ? t2 : own == 3 ? t3 : earlier;
  if (__ballot_sync(STG_ALL, c != 0.0f) == 0) {
    return a * a * run.n0;
  }
  return stg_norm2_of<G>(run.args->bank, run.hidden_row, run.residual_row, run.words, a, c, run.d0, run.n0);
}

// What an op does to the state: h = scale*h + sum t_m v_m. The generated switch fills it.
struct stg_edit {
  bool scales;
  unsigned mask;  // bit m: t[m] is set
  float scale;
  float t[4];
};

__device__ __forceinline__ void stg_apply_edit(stg_chain_run &run, const stg_edit &edit) {
  if (edit.scales) {
    run.a *= edit.scale;
    // later vectors have no part in the state yet: their 0 stays 0 where the scale is not finite
    run.c = run.lane < run.first ? run.c * edit.scale : run.c;
    run.d *= edit.scale;
  }
#pragma unroll
  for (unsigned m = 0; m < 4; m++) {
    if (edit.mask >> m & 1u) {
      const float g = run.lane < run.n ? run.gram[(run.first + m) * run.n + run.lane] : 0.0f;
      run.d = __fmaf_rn(edit.t[m], g, run.d);
      run.c = run.lane == run.first + m ? edit.t[m] : run.c;
    }
  }
}

// ---- the tile ----

// What the warps of a block tell each other. Coefficient slot 32 is a; `used` has bit i where c_i is
// not 0. The chains of the tile's rows stand behind it: [G::rows, chain_words].
template <class G>
struct stg_tile {
  float part[G::threads / STG_LANES][G::rows][STG_NORM_SLOT + 1];
  float coef[G::rows][STG_NORM_SLOT + 1];
  unsigned used[G::rows];
};

// The rows of the tile: in registers where they fit, otherwise read again where they are needed.
template <class G, bool held = G::held>
struct stg_rows;

template <class G>
struct stg_rows<G, true> {
  typename G::data::raw x[G::rows][G::chunks_per_thread];
  typename G::data::raw y[G::pair ? G::rows : 1][G::pair ? G::chunks_per_thread : 1];

  __device__ __forceinline__ void load(const stg_steer_args &a, long long row0, unsigned mask,
                                       bool aligned) {
    typedef typename G::data::element element;
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      if (!(mask >> r & 1u)) {
        continue;
      }
      const long long at = (row0 + r) * a.row_stride;
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        const int chunk = threadIdx.x + i * G::threads;
        if (chunk < G::chunks) {
          stg_load_chunk<G>((const element *)a.hidden + at, chunk, aligned, x[r][i]);
          if (G::pair) {
            stg_load_chunk<G>((const element *)a.residual + at, chunk, aligned, y[r][i]);
          }
        }
      }
    }
  }
  __device__ __forceinline__ void hidden(const stg_steer_args &, long long, bool, int r, int i,
                                         typename G::data::raw &raw) const {
    raw = x[r][i];
  }
  __device__ __forceinline__ void residual(const stg_steer_args &, long long, bool, int r, int i,
                                           typename G::data::raw &raw) const {
    raw = y[G::pair ? r : 0][G::pair ? i : 0];
  }
};

template <class G>
struct stg_rows<G, false> {
  __device__ __forceinline__ void load(const stg_steer_args &, long long, unsigned, bool) {}
  __device__ __forceinline__ void hidden(const stg_steer_args &a, long long row0, bool aligned, int r,
                                         int i, typename G::data::raw &raw) const {
    typedef typename G::data::element element;
    const long long at = (row0 + r) * a.row_stride;
    stg_load_chunk<G>((const element *)a.hidden + at, threadIdx.x + i * G::threads, aligned, raw);
  }
  __device__ __forceinline__ void residual(const stg_steer_args &a, long long row0, bool aligned, int r,
                                           int i, typename G::data::raw &raw) const {
    typedef typename G::data::element element;
    const long long at = (row0 + r) * a.row_stride;
    stg_load_chunk<G>((const element *)a.residual + at, threadIdx.x + i * G::threads, aligned, raw);
  }
};

// Up to G::group vectors whose chunks are asked for together: one wait instead of several.
template <class G>
struct stg_vector_group {
  unsigned v[G::group];
  unsigned count;

  // Take the lowest bits of `left`.
  __device__ __forceinline__ unsigned take(unsigned left) {
    count = 0;
#pragma unroll
    for (int k = 0; k < G::group; k++) {
      v[k] = 0;
      if (left != 0) {
        v[k] = __ffs(left) - 1;
        left &= left - 1;
        count = k + 1;
      }
    }
    return left;
  }
  __device__ __forceinline__ void load(const stg_steer_args &a, const unsigned *words, int chunk,
                                       typename G::bank::raw (&raw)[G::group]) const {
#pragma unroll
    for (int k = 0; k < G::group; k++) {
      if (k < count) {
        stg_bank_chunk<G>(a, words[4 + v[k]], chunk, raw[k]);
      }
    }
  }
};

// One block's work, stage by stage.
template <class G>
struct stg_steer_block {
  typedef typename G::data data;
  typedef typename data::raw raw;
  typedef typename data::element element;

  const stg_steer_args &a;
  stg_tile<G> &tile;
  unsigned *staged;  // [G::rows, chain_words]
  stg_rows<G> rows;
  long long row0;
  int lane, warp;
  bool aligned;
  int record;  // of row `lane`: in 16-byte units, -1 unsteered, -2 padding

  __device__ __forceinline__ stg_steer_block(const stg_steer_args &args, stg_tile<G> &shared,
                                             unsigned *chains)
      : a(args), tile(shared), staged(chains), row0((long long)blockIdx.x * G::rows),
        lane(threadIdx.x % STG_LANES), warp(threadIdx.x / STG_LANES),
        aligned((args.flags & 2u) != 0), record(-2) {}

  // A map that was written on the device holds slots: translate, and report what is no slot.
  __device__ __forceinline__ void translate() {
    if (record >= 0 && (unsigned)record < a.slots) {
      record = a.table[record];
    } else if (record >= 0 || record < -2) {
      if (warp == 0) {
        atomicAdd(a.report, 1u);
        a.report[1] = (unsigned)record;
      }
      record = -1;
    }
  }

  // Stage 1. Every warp looks the rows up for itself, lane r for row r: no barrier.
  __device__ __forceinline__ void look_up() {
    const int holds_slots = a.row_map[0];
    if (lane < G::rows && row0 + lane < a.rows) {
      record = a.row_map[STG_MAP_HEADER + row0 + lane];
    }
    if (holds_slots) {
      translate();
    }
  }

  __device__ __forceinline__ unsigned *words_of(int r) const { return staged + r * a.chain_words; }

  // Bring the chains of this warp's rows to shared memory: the first words at once, what they say
  // is behind them after that.
  __device__ __forceinline__ void stage(unsigned steered) {
#pragma unroll 1
    for (int r = warp; r < G::rows; r += G::threads / STG_LANES) {
      if (!(steered >> r & 1u)) {
        continue;
      }
      const unsigned *from = (const unsigned *)(a.records + __shfl_sync(STG_ALL, record, r)) +
                             (unsigned long long)a.layer * a.chain_words;
      unsigned *to = words_of(r);
      const unsigned word = lane < a.chain_words ? __ldg(from + lane) : 0;
      const unsigned n = __shfl_sync(STG_ALL, word, 3);
      if (lane < a.chain_words) {
        to[lane] = word;
      }
#pragma unroll 1
      for (unsigned w = STG_LANES + lane; w < n; w += STG_LANES) {
        to[w] = __ldg(from + w);
      }
    }
  }

  // The rows of `todo` that share the record of its first row.
  __device__ __forceinline__ unsigned group(unsigned todo) const {
    const int first = __shfl_sync(STG_ALL, record, __ffs(todo) - 1);
    return __ballot_sync(STG_ALL, record == first) & todo;
  }

  // State chunk i of row r as the ops see it.
  __device__ __forceinline__ void state(int r, int i, float (&f)[8]) const {
    raw x;
    rows.hidden(a, row0, aligned, r, i, x);
    stg_widen<data>(x, f);
    if (G::pair) {
      float g[8];
      rows.residual(a, row0, aligned, r, i, x);
      stg_widen<data>(x, g);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] += g[j];
      }
    }
  }

  // Sum acc[k][r] over the warp and put it into the tile, for vectors v[0..count) of rows in `mask`.
  template <int N>
  __device__ __forceinline__ void put_sums(float (&acc)[N * G::rows], unsigned mask, const unsigned *v,
                                           unsigned count) {
    const float total = stg_fold<N * G::rows>(acc, lane);
    const int lanes_per_sum = STG_LANES / (N * G::rows);
    const int sum = lane / lanes_per_sum, k = sum / G::rows, r = sum % G::rows;
    if (lane % lanes_per_sum == 0 && k < count && (mask >> r & 1u)) {
      unsigned slot = v[0];
#pragma unroll
      for (int m = 1; m < N; m++) {
        slot = k == m ? v[m] : slot;
      }
      tile.part[warp][r][slot] = total;
    }
  }

  // Partial sums of state . v for the vectors of a group and the rows in `mask`.
  __device__ __forceinline__ void dot(unsigned mask, const stg_vector_group<G> &vectors,
                                      const unsigned *words) {
    float acc[G::group * G::rows];
#pragma unroll
    for (int s = 0; s < G::group * G::rows; s++) {
      acc[s] = 0.0f;
    }
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
      typename G::bank::raw w_raw[G::group];
      vectors.load(a, words, chunk, w_raw);
#pragma unroll
      for (int k = 0; k < G::group; k++) {
        if (k < vectors.count) {
          float w[8];
          stg_widen<typename G::bank>(w_raw[k], w);
#pragma unroll
          for (int r = 0; r < G::rows; r++) {
            if (mask >> r & 1u) {
              float f[8];
              state(r, i, f);
#pragma unroll
              for (int j = 0; j < 8; j++) {
                acc[k * G::rows + r] = __fmaf_rn(f[j], w[j], acc[k * G::rows + r]);
              }
            }
          }
        }
      }
    }
    put_sums<G::group>(acc, mask, vectors.v, vectors.count);
  }

  // Partial sums of state . state for the rows in `mask`.
  __device__ __forceinline__ void square(unsigned mask) {
    float acc[G::rows];
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      acc[r] = 0.0f;
    }
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (threadIdx.x + i * G::threads >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        if (mask >> r & 1u) {
          float f[8];
          state(r, i, f);
#pragma unroll
          for (int j = 0; j < 8; j++) {
            acc[r] = __fmaf_rn(f[j], f[j], acc[r]);
          }
        }
      }
    }
    const unsigned slot[1] = {STG_NORM_SLOT};
    put_sums<1>(acc, mask, slot, 1);
  }

  // Stage 3: all dots that any chain of the tile reads.
  __device__ __forceinline__ void dots(unsigned steered) {
#pragma unroll 1
    for (unsigned todo = steered; todo != 0;) {
      const unsigned *words = words_of(__ffs(todo) - 1);
      const unsigned mask = group(todo);
      todo &= ~mask;
#pragma unroll 1
      for (unsigned wanted = words[1]; wanted != 0;) {
        stg_vector_group<G> vectors;
        wanted = vectors.take(wanted);
        dot(mask, vectors, words);
      }
      if (words[0] >> 16 & 1u) {
        square(mask);
      }
    }
  }

  __device__ __forceinline__ float total(int r, int v) const {
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < G::threads / STG_LANES; w++) {
      sum += tile.part[w][r][v];
    }
    return sum;
  }

  // Stage 4 for row r, by this warp.
  __device__ __forceinline__ void run_chain(int r) {
    const unsigned *words = words_of(r);
    const unsigned head = words[0], wanted = words[1], at = words[2];
    const unsigned n_ops = head & 0xffu;
    const unsigned *op = words + (at & 0xffffu);
    stg_chain_run run;
    run.args = &a;
    run.words = words;
    run.gram = (const float *)(words + (at >> 16));
    run.hidden_row = (const element *)a.hidden + (row0 + r) * a.row_stride;
    run.residual_row = G::pair ? (const element *)a.residual + (row0 + r) * a.row_stride : 0;
    run.n = head >> 8 & 0xffu;
    run.lane = lane;
    run.a = 1.0f;
    run.c = 0.0f;
    run.d0 = wanted >> lane & 1u ? total(r, lane) : 0.0f;
    run.d = run.d0;
    run.n0 = head >> 16 & 1u ? total(r, STG_NORM_SLOT) : 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < n_ops; k++, op += STG_OP_WORDS) {
      run.first = op[1];
      run.params = op + 4;
      stg_edit edit;
      edit.scales = false;
      edit.mask = 0;
      G::run_op(op[0], run, edit);
      stg_apply_edit(run, edit);
    }
    const unsigned used = __ballot_sync(STG_ALL, run.c != 0.0f);
    const bool finite = fabsf(run.c) <= 3.402823466e38f && fabsf(run.a) <= 3.402823466e38f;
    if (__ballot_sync(STG_ALL, !finite) != 0 && lane == 0) {
      atomicAdd(a.report + 2, 1u);
    }
    tile.coef[r][lane] = run.c;
    if (lane == 0) {
      tile.coef[r][STG_NORM_SLOT] = run.a;
      tile.used[r] = used;
    }
  }

  // Stage 4. Returns the rows that their chains change.
  __device__ __forceinline__ unsigned run_chains(unsigned steered) {
#pragma unroll 1
    for (int r = warp; r < G::rows; r += G::threads / STG_LANES) {
      if (steered >> r & 1u) {
        run_chain(r);
      }
    }
    __syncthreads();
    const bool mine = lane < G::rows && (steered >> lane & 1u);
    const int row = mine ? lane : 0;
    return __ballot_sync(STG_ALL, mine && (tile.used[row] != 0 ||
                                           tile.coef[row][STG_NORM_SLOT] != 1.0f));
  }

  // What the vectors are added to: a*h, or in pair mode (a-1)*(h + residual), which `finish` adds to h.
  __device__ __forceinline__ void start(int r, int i, float (&f)[8]) {
    const float scale = tile.coef[r][STG_NORM_SLOT];
    state(r, i, f);
    if (G::pair) {
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

  __device__ __forceinline__ void finish(int r, int i, int chunk, float (&f)[8]) {
    raw x;
    if (G::pair) {
      float h[8];
      rows.hidden(a, row0, aligned, r, i, x);
      stg_widen<data>(x, h);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] += h[j];
      }
    }
    stg_narrow<data>(f, x);
    stg_store_chunk<G>((element *)a.out + (row0 + r) * a.row_stride, chunk, aligned, x);
  }

  // f[k] += c_v v for rows r.. of `mask` and the vectors in `used`, in their order.
  template <int W>
  __device__ __forceinline__ void add_vectors(float (&f)[W][8], int r, int chunk, unsigned mask,
                                              unsigned used, const unsigned *words) const {
#pragma unroll 1
    for (unsigned left = used; left != 0;) {
      stg_vector_group<G> vectors;
      typename G::bank::raw w_raw[G::group];
      left = vectors.take(left);
      vectors.load(a, words, chunk, w_raw);
#pragma unroll
      for (int m = 0; m < G::group; m++) {
        if (m < vectors.count) {
          float w[8];
          stg_widen<typename G::bank>(w_raw[m], w);
#pragma unroll
          for (int k = 0; k < W; k++) {
            const float c = mask >> (r + k) & 1u ? tile.coef[r + k][vectors.v[m]] : 0.0f;
            if (c != 0.0f) {
#pragma unroll
              for (int j = 0; j < 8; j++) {
                f[k][j] = __fmaf_rn(c, w[j], f[k][j]);
              }
            }
          }
        }
      }
    }
  }

  // Stage 5 for the rows of `mask`, which share a chain: rows by pairs, so that a vector serves two.
  __device__ __forceinline__ void update_group(unsigned mask, unsigned used, const unsigned *words) {
    const int width = G::rows > 1 ? 2 : 1;
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r += width) {
        if ((mask >> r & ((1u << width) - 1)) == 0) {
          continue;
        }
        float f[width][8];
#pragma unroll
        for (int k = 0; k < width; k++) {
          if (mask >> (r + k) & 1u) {
            start(r + k, i, f[k]);
          }
        }
        add_vectors(f, r, chunk, mask, used, words);
#pragma unroll
        for (int k = 0; k < width; k++) {
          if (mask >> (r + k) & 1u) {
            finish(r + k, i, chunk, f[k]);
          }
        }
      }
    }
  }

  // Stage 5: update and store what chains change.
  __device__ __forceinline__ void update(unsigned changed) {
#pragma unroll 1
    for (unsigned todo = changed; todo != 0;) {
      const unsigned *words = words_of(__ffs(todo) - 1);
      const unsigned mask = group(todo);
      todo &= ~mask;
      const unsigned mine = lane < G::rows && (mask >> lane & 1u) ? tile.used[lane] : 0;
      update_group(mask, __reduce_or_sync(STG_ALL, mine), words);
    }
  }

  // Out of place: rows that nothing changes are stored as they are.
  __device__ __forceinline__ void copy(unsigned mask) {
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        if (mask >> r & 1u) {
          raw x;
          rows.hidden(a, row0, aligned, r, i, x);
          stg_store_chunk<G>((element *)a.out + (row0 + r) * a.row_stride, chunk, aligned, x);
        }
      }
    }
  }

  // A record without a chain for this layer steers nothing.
  __device__ __forceinline__ unsigned drop_empty(unsigned steered) const {
    const bool empty = lane < G::rows && (steered >> lane & 1u) && words_of(lane)[0] == 0;
    return steered & ~__ballot_sync(STG_ALL, empty);
  }

  __device__ __forceinline__ void run() {
    look_up();
    const bool in_place = (a.flags & 1u) != 0;
    const unsigned live = __ballot_sync(STG_ALL, record != -2);
    unsigned steered = __ballot_sync(STG_ALL, record >= 0);
    if ((in_place ? steered : live) == 0) {
      return;
    }
    // one row: start its loads at once, needed or not; more: find out first, they are real traffic
    if (G::rows == 1) {
      rows.load(a, row0, in_place ? steered : live, aligned);
    }
    stage(steered);
    __syncthreads();
    steered = drop_empty(steered);
    if (G::rows > 1) {
      rows.load(a, row0, in_place ? steered : live, aligned);
    }
    unsigned changed = 0;
    if (steered != 0) {
      dots(steered);
      __syncthreads();
      changed = run_chains(steered);
      update(changed);
    }
    if (!in_place) {
      copy(live & ~changed);
    }
  }
};

template <class G>
__device__ __forceinline__ void stg_steer_run(const stg_steer_args &a) {
  extern __shared__ unsigned stg_chains[];
  __shared__ stg_tile<G> tile;
  stg_steer_block<G> block(a, tile, stg_chains);
  block.run();
}
