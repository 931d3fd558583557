// copy.cu: the floor: rows read and written in place. Each thread reads V words of 16 bytes, then
// writes them; in a pair it reads as many of `q` too, and behind an epilogue it writes them as well.
// `flip` is 0, which the compiler cannot know.
template <int V>
static __device__ void stg_copy_words(uint4 *p, const uint4 *q, long long words, unsigned flip) {
  uint4 x[V];
  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    if (at < words) {
      x[i] = p[at];
    }
    if (at < words && q != 0) {
      const uint4 y = q[at];
      x[i].x ^= (y.x ^ y.y ^ y.z ^ y.w) & flip;
    }
  }
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    x[i].x ^= flip;
    if (at < words) {
      p[at] = x[i];
    }
  }
}

template <int V>
static __device__ void stg_copy_two(uint4 *p, uint4 *q, long long words, unsigned flip) {
  uint4 x[V], y[V];
  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    if (at < words) {
      x[i] = p[at];
      y[i] = q[at];
    }
  }
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    x[i].x ^= flip;
    y[i].x ^= flip;
    if (at < words) {
      p[at] = x[i];
      q[at] = y[i];
    }
  }
}

extern "C" __global__ void stg_copy_1(uint4 *p, const uint4 *q, long long words, unsigned flip) {
  stg_copy_words<1>(p, q, words, flip);
}

extern "C" __global__ void stg_copy_2(uint4 *p, const uint4 *q, long long words, unsigned flip) {
  stg_copy_words<2>(p, q, words, flip);
}

extern "C" __global__ void stg_copy_4(uint4 *p, const uint4 *q, long long words, unsigned flip) {
  stg_copy_words<4>(p, q, words, flip);
}

extern "C" __global__ void stg_copy_two_1(uint4 *p, uint4 *q, long long words, unsigned flip) {
  stg_copy_two<1>(p, q, words, flip);
}

extern "C" __global__ void stg_copy_two_2(uint4 *p, uint4 *q, long long words, unsigned flip) {
  stg_copy_two<2>(p, q, words, flip);
}

extern "C" __global__ void stg_copy_two_4(uint4 *p, uint4 *q, long long words, unsigned flip) {
  stg_copy_two<4>(p, q, words, flip);
}

// The least that a launch can do, with a parameter list as a real one has.
extern "C" __global__ void stg_nothing(uint4 *p, const uint4 *q, long long words, unsigned flip) {
}
