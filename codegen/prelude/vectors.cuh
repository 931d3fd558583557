// vectors.cuh: a chain's vectors, of which each thread reads its own chunks.
//
// The first ones are brought to shared memory while the row is on its way, all at once; there
// is room for few, so that many blocks fit a multiprocessor. The others come from the bank.

template <class G> struct stg_vectors {
  typedef typename G::bank bank;
  typedef typename bank::raw raw;
  typedef typename bank::element element;

  const stg_steer_args &a;
  uint4 *const stage;          // [staged_vectors, padded]
  const unsigned *const chain; // in global memory, of a row that has a record
  unsigned head;               // its first words, one a lane; 0 where there is none
  const element *place;        // of vector `lane`; a generic address, in the stage or in the bank

  // Ask for the head of a record's chain.
  __device__ __forceinline__ stg_vectors(const stg_steer_args &args, uint4 *memory, int record)
      : a(args), stage(memory), chain(stg_chain_of<G>(args, record < 0 ? 0 : record)) {
    const unsigned lane = threadIdx.x % STG_LANES;
    head = record >= 0 && lane < a.chain_words ? __ldg(chain + lane) : 0;
  }

  __device__ __forceinline__ unsigned word(int k) const {
    return __shfl_sync(STG_ALL, head, k);
  }

  __device__ __forceinline__ const element *in_bank(unsigned row) const {
    return (const element *)a.bank + (unsigned long long)row * G::padded;
  }
  __device__ __forceinline__ element *in_stage(int v) const {
    return (element *)stage + v * G::padded;
  }

  // This thread's first chunk of a vector.
  static __device__ __forceinline__ const uint4 *first_chunk(const element *vector) {
    return (const uint4 *)(vector + stg_chunk<G>(0) * 8);
  }

  // Begin to bring the first vectors to the stage, and find the places of all.
  __device__ __forceinline__ void bring() {
    const int n = word(0) >> 8 & 0xffu, most = a.staged_vectors;
    const int staged = n < most ? n : most;
#pragma unroll 1
    for (int v = 0; v < staged; v++) {
      const uint4 *from = first_chunk(in_bank(word(4 + v)));
      stg_copy_chunks_async<G, raw>((uint4 *)first_chunk(in_stage(v)), from);
    }
    const int lane = threadIdx.x % STG_LANES;
    place = in_stage(lane);
    if (n > staged) {
      unsigned row = word((4 + lane) % STG_LANES);
      if (4 + lane >= STG_LANES && lane < n) {
        row = __ldg(chain + 4 + lane);
      }
      place = lane < staged ? place : in_bank(row);
    }
  }

  // Begin to bring the chain itself to `to`.
  __device__ __forceinline__ void bring_chain(unsigned *to) const {
    if (threadIdx.x < STG_LANES && threadIdx.x < a.chain_words) {
      to[threadIdx.x] = head;
    }
    const unsigned n = word(3);
#pragma unroll 1
    for (unsigned w = STG_LANES + 4 * threadIdx.x; w < n; w += 4 * G::threads) {
      stg_copy_async((uint4 *)(to + w), chain + w);
    }
  }
};

// A vector that is at work.
template <class G> struct stg_vector {
  typedef stg_vectors<G> all;
  const int v;
  const uint4 *from;

  __device__ __forceinline__ stg_vector(const all &of, int which)
      : v(which), from(all::first_chunk((const typename all::element *)__shfl_sync(
                      STG_ALL, (unsigned long long)of.place, which))) {
  }

  __device__ __forceinline__ void load(int i, typename all::raw &r) const {
    stg_load_wide(from + stg_step<G, typename all::raw>(i), r);
  }
};
