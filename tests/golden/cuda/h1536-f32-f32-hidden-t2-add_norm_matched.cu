// launch: threads 64, rows_per_block 1

// steer: hidden [rows, 1536] f32, bank [vectors, 1536] f32, state hidden
struct stg_geometry {
  typedef stg_f32 data;
  typedef stg_f32 bank;
  static constexpr bool pair = false;             // state = hidden + residual
  static constexpr bool epilogue = false;         // add_rmsnorm
  static constexpr int hidden = 1536;             // elements of a row
  static constexpr int padded = 1536;             // elements of a bank vector
  static constexpr int chunks = 192;              // of 8 elements
  static constexpr int tail = 0;                  // elements of the last chunk, 0: whole
  static constexpr int row_threads = 96;          // whose sums a row's are
  static constexpr int row_warps = 3;             // that they are
  static constexpr int threads = 64;              // of a block
  static constexpr int warps = 2;                 // that they are
  static constexpr int turns = 2;                 // in which a thread goes through a row
  static constexpr int chunks_per_turn = 2;       // of one row
  static constexpr int chunks_per_thread = 4;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr bool weight_staged = false;    // an epilogue's weight is in shared memory

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

extern "C" __global__ void __launch_bounds__(64, 12)
stg_steer(const __grid_constant__ stg_steer_args args) {
  stg_steer_run<stg_geometry>(args);
}
