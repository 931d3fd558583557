// launch: threads 32, rows_per_block 1

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
  static constexpr int row_threads = 32;          // whose sums a row's are
  static constexpr int row_warps = 1;             // that they are
  static constexpr int threads = 32;              // of a block
  static constexpr int warps = 1;                 // that they are
  static constexpr int turns = 1;                 // in which a thread goes through a row
  static constexpr int chunks_per_turn = 1;       // of one row
  static constexpr int chunks_per_thread = 1;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr bool weight_staged = false;    // an epilogue's weight is in shared memory

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
