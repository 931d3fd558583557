// copy.cu: the floor: rows read and written in place. Each thread reads V words of 16 bytes, then
// writes them; in a pair it reads as many of `q` too, and behind an epilogue it writes them as well.
// `flip` is 0, which the compiler cannot know.
//
// Each copy is there three times, by when it lets the launch behind it begin: ordered, as a plain
// launch is, or as the steer kernels do it (codegen/prelude), at its start or once it has asked for
// its words. Those two wait for the launch ahead of them before they touch memory.
enum stg_begin { STG_ORDERED, STG_AT_START, STG_WHEN_ASKED };

template <stg_begin When, stg_begin Here>
static __device__ __forceinline__ void stg_let_next_begin() {
#if __CUDA_ARCH__ >= 900
  if (When == Here) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
#endif
}

template <stg_begin When> static __device__ __forceinline__ void stg_wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  if (When != STG_ORDERED) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
#endif
}

template <int V, stg_begin When>
static __device__ void stg_copy_words(uint4 *p, const uint4 *q, long long words, unsigned flip) {
  uint4 x[V];
  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;
  stg_let_next_begin<When, STG_AT_START>();
  stg_wait_for_earlier<When>();
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
  stg_let_next_begin<When, STG_WHEN_ASKED>();
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    x[i].x ^= flip;
    if (at < words) {
      p[at] = x[i];
    }
  }
}

template <int V, stg_begin When>
static __device__ void stg_copy_two(uint4 *p, uint4 *q, long long words, unsigned flip) {
  uint4 x[V], y[V];
  const long long first = (long long)blockIdx.x * blockDim.x * V + threadIdx.x;
  stg_let_next_begin<When, STG_AT_START>();
  stg_wait_for_earlier<When>();
#pragma unroll
  for (int i = 0; i < V; i++) {
    const long long at = first + (long long)i * blockDim.x;
    if (at < words) {
      x[i] = p[at];
      y[i] = q[at];
    }
  }
  stg_let_next_begin<When, STG_WHEN_ASKED>();
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

#define STG_COPIES(suffix, V, When)                                                                \
  extern "C" __global__ void stg_copy_##suffix(uint4 *p, const uint4 *q, long long words,          \
                                               unsigned flip) {                                    \
    stg_copy_words<V, When>(p, q, words, flip);                                                    \
  }                                                                                                \
  extern "C" __global__ void stg_copy_two_##suffix(uint4 *p, uint4 *q, long long words,            \
                                                   unsigned flip) {                                \
    stg_copy_two<V, When>(p, q, words, flip);                                                      \
  }

STG_COPIES(1, 1, STG_ORDERED)
STG_COPIES(2, 2, STG_ORDERED)
STG_COPIES(4, 4, STG_ORDERED)
STG_COPIES(1_at_start, 1, STG_AT_START)
STG_COPIES(2_at_start, 2, STG_AT_START)
STG_COPIES(4_at_start, 4, STG_AT_START)
STG_COPIES(1_when_asked, 1, STG_WHEN_ASKED)
STG_COPIES(2_when_asked, 2, STG_WHEN_ASKED)
STG_COPIES(4_when_asked, 4, STG_WHEN_ASKED)

// The least that a launch can do, with a parameter list as a real one has.
extern "C" __global__ void stg_nothing(uint4 *p, const uint4 *q, long long words, unsigned flip) {
}
