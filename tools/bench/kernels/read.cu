// read.cu: the floor of attention: K and V read once, and nothing written. Each thread reads V words
// of 16 bytes of both. `never` is written where all bits of all words are set, which numbers that
// are finite never have, and the compiler cannot know that.
template <int V>
static __device__ void stg_read_words(const uint4 *k, const uint4 *v, long long words,
                                      unsigned *never) {
  uint4 x[2 * V];
  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    x[2 * i] = at < words ? k[at] : make_uint4(0, 0, 0, 0);
    x[2 * i + 1] = at < words ? v[at] : make_uint4(0, 0, 0, 0);
  }
  unsigned all = ~0u;
#pragma unroll
  for (int i = 0; i < 2 * V; i++) {
    all &= x[i].x & x[i].y & x[i].z & x[i].w;
  }
  if (all == ~0u) {
    *never = all;
  }
}

extern "C" __global__ void stg_read_1(const uint4 *k, const uint4 *v, long long words,
                                      unsigned *never) {
  stg_read_words<1>(k, v, words, never);
}

extern "C" __global__ void stg_read_2(const uint4 *k, const uint4 *v, long long words,
                                      unsigned *never) {
  stg_read_words<2>(k, v, words, never);
}

extern "C" __global__ void stg_read_4(const uint4 *k, const uint4 *v, long long words,
                                      unsigned *never) {
  stg_read_words<4>(k, v, words, never);
}

extern "C" __global__ void stg_read_8(const uint4 *k, const uint4 *v, long long words,
                                      unsigned *never) {
  stg_read_words<8>(k, v, words, never);
}
