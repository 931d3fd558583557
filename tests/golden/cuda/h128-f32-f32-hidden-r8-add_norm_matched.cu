// launch: threads 32, rows_per_block 8

// steer: hidden [rows, 128] f32, bank [vectors, 128] f32, state hidden
struct stg_geometry {
  typedef stg_f32 data;
  typedef stg_f32 bank;
  static constexpr bool pair = false;             // state = hidden + residual
  static constexpr bool epilogue = false;         // add_rmsnorm
  static constexpr int hidden = 128;              // elements of a row
  static constexpr int padded = 128;              // elements of a bank vector
  static constexpr int chunks = 16;               // of 8 elements
  static constexpr int tail = 0;                  // elements of the last chunk, 0: whole
  static constexpr int threads = 32;              // that share every row
  static constexpr int warps = 1;                 // that they are
  static constexpr int rows = 8;                  // of the tile
  static constexpr int chunks_per_thread = 1;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr int unroll = 1;                // of the loops over a row's chunks
  static constexpr int kept_chunks = 1;           // of a vector, by a thread
  static constexpr int staged_vectors = 0;        // of a chain, in shared memory
  static constexpr int vector_words = 0;          // that they take there
  static constexpr int stage_words = 4096;        // that they and the rows take

  // h = scale*h + sum t_m v_m, for the op that a record names by `code`
  static __device__ __forceinline__ void run_op(unsigned code, stg_chain_run &run) {
    switch (code) {
      case 0x00000005u: {
        // add_norm_matched
        const float v0 = stg_param(run, 0);             // param scale
        const float v1 = stg_norm2<stg_geometry>(run, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f); // norm2
        const float v2 = __fsqrt_rn(v1);                // sqrt
        const float v3 = v0 * v2;                       // mul
        stg_add(run, 0, v3);
        break;
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(32, 16)
stg_steer(const __grid_constant__ stg_steer_args args) {
  stg_steer_run<stg_geometry>(args);
}
