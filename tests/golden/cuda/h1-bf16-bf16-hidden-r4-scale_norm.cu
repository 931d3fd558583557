// launch: threads 32, rows_per_block 4

// steer: hidden [rows, 1] bf16, bank [vectors, 8] bf16, state hidden
struct stg_geometry {
  typedef stg_bf16 data;
  typedef stg_bf16 bank;
  static constexpr bool pair = false;             // state = hidden + residual
  static constexpr bool epilogue = false;         // add_rmsnorm
  static constexpr int hidden = 1;                // elements of a row
  static constexpr int padded = 8;                // elements of a bank vector
  static constexpr int chunks = 1;                // of 8 elements
  static constexpr int tail = 1;                  // elements of the last chunk, 0: whole
  static constexpr int threads = 32;              // that share every row
  static constexpr int warps = 1;                 // that they are
  static constexpr int rows = 4;                  // of the tile
  static constexpr int chunks_per_thread = 1;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr int unroll = 1;                // of the loops over a row's chunks
  static constexpr int kept_chunks = 1;           // of a vector, by a thread
  static constexpr int staged_vectors = 0;        // of a chain, in shared memory
  static constexpr int vector_words = 0;          // that they take there
  static constexpr int stage_words = 1024;        // that they and the rows take

  // h = scale*h + sum t_m v_m, for the op that a record names by `code`
  static __device__ __forceinline__ void run_op(unsigned code, stg_chain_run &run) {
    switch (code) {
      case 0x00000008u: {
        // scale_norm
        const float v0 = stg_param(run, 0);             // param scale
        stg_scale(run, v0);
        break;
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(32, 16)
stg_steer(const __grid_constant__ stg_steer_args args) {
  stg_steer_run<stg_geometry>(args);
}
