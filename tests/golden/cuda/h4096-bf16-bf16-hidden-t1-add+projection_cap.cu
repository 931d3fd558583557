// launch: threads 256, rows_per_block 1

// steer: hidden [rows, 4096] bf16, bank [vectors, 4096] bf16, state hidden
struct stg_geometry {
  typedef stg_bf16 data;
  typedef stg_bf16 bank;
  static constexpr bool pair = false;             // state = hidden + residual
  static constexpr bool epilogue = false;         // add_rmsnorm
  static constexpr int hidden = 4096;             // elements of a row
  static constexpr int padded = 4096;             // elements of a bank vector
  static constexpr int chunks = 512;              // of 8 elements
  static constexpr int tail = 0;                  // elements of the last chunk, 0: whole
  static constexpr int row_threads = 256;         // whose sums a row's are
  static constexpr int row_warps = 8;             // that they are
  static constexpr int threads = 256;             // of a block
  static constexpr int warps = 8;                 // that they are
  static constexpr int turns = 1;                 // in which a thread goes through a row
  static constexpr int chunks_per_turn = 2;       // of one row
  static constexpr int chunks_per_thread = 2;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr bool weight_staged = false;    // an epilogue's weight is in shared memory

  // h = scale*h + sum t_m v_m, for the op that a record names by `code`
  static __device__ __forceinline__ void run_op(unsigned code, stg_chain_run &run) {
    switch (code) {
      case 0x00000001u: {
        // add
        const float v0 = stg_param(run, 0);             // param scale
        stg_add(run, 0, v0);
        break;
      }
      case 0x00000003u: {
        // projection_cap
        const float v0 = stg_dot(run, 0);               // dot h v
        const float v1 = stg_param(run, 0);             // param min
        const float v2 = stg_param(run, 1);             // param max
        const float v3 = stg_clamp(v0, v1, v2);         // clamp
        const float v4 = v3 - v0;                       // sub
        stg_add(run, 0, v4);
        break;
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(256, 4)
stg_steer(const __grid_constant__ stg_steer_args args) {
  stg_steer_run<stg_geometry>(args);
}
