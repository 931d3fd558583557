// baselines.cu: what steering costs without this library: kernels that an eager framework launches
// one after another, and hand-fused ones. Rows are bf16; arithmetic and temporaries are float32, and
// a row is rounded once, so that results may be compared with ours element by element.
// `width` is a multiple of 8, at most 8192; row kernels have 256 threads a block.
#define STG_THREADS 256
#define STG_MAX_CHUNKS 4

enum { STG_CAP, STG_ADD, STG_ABLATION };

static __device__ float stg_up(unsigned bits) {
  return __uint_as_float(bits << 16);
}

// To nearest even; no NaN comes here.
static __device__ unsigned stg_down(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

static __device__ float stg_block_sum(float x) {
  __shared__ float parts[STG_THREADS / 32];
  for (int step = 16; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, step);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    parts[threadIdx.x / 32] = x;
  }
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < STG_THREADS / 32; i++) {
    sum += parts[i];
  }
  return sum;
}

static __device__ float stg_clamp(float p, float lo, float hi) {
  return p < lo ? lo : p > hi ? hi : p;
}

static __device__ long long stg_thread() {
  return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

// Eager: one kernel per operator. Elementwise ones take four elements a thread.

extern "C" __global__ void stg_eager_mul(const ushort4 *h, const ushort4 *v, float4 *t,
                                         long long quads, int width_quads) {
  const long long i = stg_thread();
  if (i < quads) {
    const ushort4 a = h[i];
    const ushort4 b = v[i % width_quads];
    t[i] = make_float4(stg_up(a.x) * stg_up(b.x), stg_up(a.y) * stg_up(b.y),
                       stg_up(a.z) * stg_up(b.z), stg_up(a.w) * stg_up(b.w));
  }
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_eager_sum(const float4 *t, float *p, int width_quads) {
  const float4 *row = t + (long long)blockIdx.x * width_quads;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < width_quads; i += STG_THREADS) {
    const float4 x = row[i];
    sum += (x.x + x.y) + (x.z + x.w);
  }
  sum = stg_block_sum(sum);
  if (threadIdx.x == 0) {
    p[blockIdx.x] = sum;
  }
}

extern "C" __global__ void stg_eager_clamp(const float *p, float *q, int n, float lo, float hi) {
  const long long i = stg_thread();
  if (i < n) {
    q[i] = stg_clamp(p[i], lo, hi);
  }
}

extern "C" __global__ void stg_eager_sub(const float *q, const float *p, float *d, int n) {
  const long long i = stg_thread();
  if (i < n) {
    d[i] = q[i] - p[i];
  }
}

extern "C" __global__ void stg_eager_scale(const float *p, float *d, int n, float factor) {
  const long long i = stg_thread();
  if (i < n) {
    d[i] = factor * p[i];
  }
}

extern "C" __global__ void stg_eager_muladd(ushort4 *h, const float *d, const ushort4 *v,
                                            long long quads, int width_quads) {
  const long long i = stg_thread();
  if (i < quads) {
    const ushort4 a = h[i];
    const ushort4 b = v[i % width_quads];
    const float c = d[i / width_quads];
    h[i] = make_ushort4(stg_down(__fmaf_rn(c, stg_up(b.x), stg_up(a.x))),
                        stg_down(__fmaf_rn(c, stg_up(b.y), stg_up(a.y))),
                        stg_down(__fmaf_rn(c, stg_up(b.z), stg_up(a.z))),
                        stg_down(__fmaf_rn(c, stg_up(b.w), stg_up(a.w))));
  }
}

extern "C" __global__ void stg_eager_scale_vector(const ushort4 *v, float4 *t, int width_quads,
                                                  float scale) {
  const long long i = stg_thread();
  if (i < width_quads) {
    const ushort4 b = v[i];
    t[i] = make_float4(scale * stg_up(b.x), scale * stg_up(b.y), scale * stg_up(b.z),
                       scale * stg_up(b.w));
  }
}

extern "C" __global__ void stg_eager_add_vector(ushort4 *h, const float4 *t, long long quads,
                                                int width_quads) {
  const long long i = stg_thread();
  if (i < quads) {
    const ushort4 a = h[i];
    const float4 b = t[i % width_quads];
    h[i] = make_ushort4(stg_down(stg_up(a.x) + b.x), stg_down(stg_up(a.y) + b.y),
                        stg_down(stg_up(a.z) + b.z), stg_down(stg_up(a.w) + b.w));
  }
}

// Gather and scatter: whole rows by index.

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_gather(const uint4 *h, const int *index, uint4 *t, int width_chunks) {
  const uint4 *from = h + (long long)index[blockIdx.x] * width_chunks;
  uint4 *to = t + (long long)blockIdx.x * width_chunks;
  for (int i = threadIdx.x; i < width_chunks; i += STG_THREADS) {
    to[i] = from[i];
  }
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_scatter(const uint4 *t, const int *index, uint4 *h, int width_chunks) {
  const uint4 *from = t + (long long)blockIdx.x * width_chunks;
  uint4 *to = h + (long long)index[blockIdx.x] * width_chunks;
  for (int i = threadIdx.x; i < width_chunks; i += STG_THREADS) {
    to[i] = from[i];
  }
}

// Fused: one op, one pass, a row per block kept in registers between its two halves.

static __device__ float stg_dot8(uint4 a, uint4 b) {
  const unsigned x[4] = {a.x, a.y, a.z, a.w};
  const unsigned y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    sum = __fmaf_rn(stg_up(x[i] & 0xffffu), stg_up(y[i] & 0xffffu), sum);
    sum = __fmaf_rn(stg_up(x[i] >> 16), stg_up(y[i] >> 16), sum);
  }
  return sum;
}

static __device__ uint4 stg_update8(uint4 a, uint4 b, float c) {
  unsigned x[4] = {a.x, a.y, a.z, a.w};
  const unsigned y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const unsigned low = stg_down(__fmaf_rn(c, stg_up(y[i] & 0xffffu), stg_up(x[i] & 0xffffu)));
    const unsigned high = stg_down(__fmaf_rn(c, stg_up(y[i] >> 16), stg_up(x[i] >> 16)));
    x[i] = low | (high << 16);
  }
  return make_uint4(x[0], x[1], x[2], x[3]);
}

template <int KIND>
static __device__ void stg_row(uint4 *row, const uint4 *v, float a, float b, int width_chunks) {
  uint4 x[STG_MAX_CHUNKS];
  uint4 y[STG_MAX_CHUNKS];
  float p = 0.0f;
#pragma unroll
  for (int k = 0; k < STG_MAX_CHUNKS; k++) {
    const int i = threadIdx.x + k * STG_THREADS;
    if (i < width_chunks) {
      x[k] = row[i];
      y[k] = v[i];
      p += KIND == STG_ADD ? 0.0f : stg_dot8(x[k], y[k]);
    }
  }
  float c = a;
  if (KIND != STG_ADD) {
    p = stg_block_sum(p);
    c = KIND == STG_CAP ? stg_clamp(p, a, b) - p : (a - 1.0f) * p;
  }
#pragma unroll
  for (int k = 0; k < STG_MAX_CHUNKS; k++) {
    const int i = threadIdx.x + k * STG_THREADS;
    if (i < width_chunks) {
      row[i] = stg_update8(x[k], y[k], c);
    }
  }
}

// A slice of rows and one op for all of them.
extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_slice_cap(uint4 *h, const uint4 *v, float a, float b, int width_chunks) {
  stg_row<STG_CAP>(h + (long long)blockIdx.x * width_chunks, v, a, b, width_chunks);
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_slice_add(uint4 *h, const uint4 *v, float a, float b, int width_chunks) {
  stg_row<STG_ADD>(h + (long long)blockIdx.x * width_chunks, v, a, b, width_chunks);
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_slice_ablation(uint4 *h, const uint4 *v, float a, float b, int width_chunks) {
  stg_row<STG_ABLATION>(h + (long long)blockIdx.x * width_chunks, v, a, b, width_chunks);
}

// The whole batch in one kernel, each row with its own vector and parameters: one kind of op only.
extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_fused_cap(uint4 *h, const uint4 *vectors, const int *vector_of, const float2 *params,
                  int width_chunks) {
  const float2 ab = params[blockIdx.x];
  stg_row<STG_CAP>(h + (long long)blockIdx.x * width_chunks,
                   vectors + (long long)vector_of[blockIdx.x] * width_chunks, ab.x, ab.y,
                   width_chunks);
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_fused_add(uint4 *h, const uint4 *vectors, const int *vector_of, const float2 *params,
                  int width_chunks) {
  const float2 ab = params[blockIdx.x];
  stg_row<STG_ADD>(h + (long long)blockIdx.x * width_chunks,
                   vectors + (long long)vector_of[blockIdx.x] * width_chunks, ab.x, ab.y,
                   width_chunks);
}

extern "C" __global__ void __launch_bounds__(STG_THREADS)
    stg_fused_ablation(uint4 *h, const uint4 *vectors, const int *vector_of, const float2 *params,
                       int width_chunks) {
  const float2 ab = params[blockIdx.x];
  stg_row<STG_ABLATION>(h + (long long)blockIdx.x * width_chunks,
                        vectors + (long long)vector_of[blockIdx.x] * width_chunks, ab.x, ab.y,
                        width_chunks);
}
