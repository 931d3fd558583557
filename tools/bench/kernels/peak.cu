// peak.cu: the floor of a policy: multiplications and additions that wait for no memory. Each thread,
// or warp, has so many sums that the units are never idle. `never` is written where all bits of a
// sum are set, which those sums never have, and the compiler cannot know that.
static __device__ void stg_keep(float sum, unsigned *never) {
  if (__float_as_uint(sum) == ~0u) {
    *never = 1;
  }
}

// 2 * 16 * turns operations of float32 a thread.
extern "C" __global__ void stg_peak_fma(int turns, float factor, unsigned *never) {
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; i++) {
    sums[i] = (float)(threadIdx.x + i);
  }
  for (int turn = 0; turn < turns; turn++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      sums[i] = fmaf(sums[i], factor, factor);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    sum += sums[i];
  }
  stg_keep(sum, never);
}

static __device__ void stg_multiply(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 2 * 16 * 8 * 8 * 8 * turns operations of TF32 a warp.
extern "C" __global__ void stg_peak_tf32(int turns, float factor, unsigned *never) {
  const unsigned word = __float_as_uint(factor);
  const unsigned a[4] = {word, word, word, word};
  const unsigned b[2] = {word, word};
  float sums[8][4];
#pragma unroll
  for (int i = 0; i < 8; i++) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      sums[i][k] = (float)(threadIdx.x + i);
    }
  }
  for (int turn = 0; turn < turns; turn++) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      stg_multiply(sums[i], a, b);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  }
  stg_keep(sum, never);
}
