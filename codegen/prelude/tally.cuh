// tally.cuh: what a row's chain did to it, for the counters of its slot.

// The counters of one slot at one layer.
struct stg_counts {
  unsigned long long touched, changed;
  unsigned most; // bits of a float that is not negative, which order as it does
  unsigned unused;
};

template <class G> struct stg_tally {
  typedef typename G::data data;
  typedef typename data::raw raw;
  typedef typename data::element element;

  unsigned changed; // bits that differ, of this thread's elements
  float most;       // what an element changed by at most; NaN does not count

  // Nothing at all where nobody counts: zeros, never read, would move the kernel's registers about.
  __device__ __forceinline__ stg_tally() {
    if constexpr (G::counters) {
      changed = 0;
      most = 0.0f;
    }
  }

  // A chunk as it was and as it is stored.
  __device__ __forceinline__ void note(const raw &before, const raw &after, int chunk) {
    float a[8], b[8];
    stg_widen<data>(before, a);
    stg_widen<data>(after, b);
    const element *x = (const element *)&before, *y = (const element *)&after;
    const int n = stg_elements_in<G>(chunk);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      if (j < n) {
        changed |= x[j] ^ y[j];
        most = fmaxf(most, fabsf(b[j] - a[j]));
      }
    }
  }

  // Add the block's row to the counters of its record's slot. All threads come here; `warp_most`
  // has room for a word of each warp, and nobody needs it any more.
  __device__ __forceinline__ void count(const stg_steer_args &a, int record,
                                        float (&warp_most)[G::row_warps]) const {
    const bool any = __syncthreads_or(changed != 0);
    const unsigned bits = __reduce_max_sync(STG_ALL, __float_as_uint(most));
    if (threadIdx.x % STG_LANES == 0) {
      warp_most[threadIdx.x / STG_LANES] = __uint_as_float(bits);
    }
    __syncthreads();
    const unsigned slot = __ldg(a.records + record).w;
    if (threadIdx.x != 0 || slot >= a.slots) {
      return;
    }
    stg_counts *counts = a.counts + (unsigned long long)slot * a.layers + a.layer;
    atomicAdd(&counts->touched, 1ull);
    if (any) {
      float all = 0.0f;
#pragma unroll
      for (int w = 0; w < G::warps; w++) {
        all = fmaxf(all, warp_most[w]);
      }
      atomicAdd(&counts->changed, 1ull);
      atomicMax(&counts->most, __float_as_uint(all));
    }
  }
};
