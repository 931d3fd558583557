// launch: threads 32, rows_per_block 8

// steer: hidden [rows, 128] f32, bank [vectors, 128] f32, state hidden
struct stg_geometry {
  typedef stg_f32 data;
  typedef stg_f32 bank;
  static constexpr bool pair = false;             // state = hidden + residual
  static constexpr int hidden = 128;              // elements of a row
  static constexpr int padded = 128;              // elements of a bank vector
  static constexpr int chunks = 16;               // of 8 elements
  static constexpr int tail = 0;                  // elements of the last chunk, 0: whole
  static constexpr int threads = 32;              // that share every row
  static constexpr int rows = 8;                  // of the tile
  static constexpr int chunks_per_thread = 1;     // of one row
  static constexpr bool held = true;              // rows stay in registers
  static constexpr int group = 1;                 // vectors loaded together
  static constexpr int unroll_chunks = 1;         // of the loops over a row

  // h = scale*h + sum t_m v_m, for the op that a record names by `code`
  static __device__ __forceinline__ void run_op(unsigned code, const stg_chain_run &run,
                                                stg_edit &edit) {
    switch (code) {
      case 0x00000005u: {
        // add_norm_matched
        const float v0 = stg_param(run, 0);             // param scale
        const float v1 = stg_norm2<stg_geometry>(run, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f); // norm2
        const float v2 = __fsqrt_rn(v1);                // sqrt
        const float v3 = v0 * v2;                       // mul
        edit.t[0] = v3;
        edit.mask = 0x1u;
        break;
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(32, 16)
stg_steer(const __grid_constant__ stg_steer_args args) {
  stg_steer_run<stg_geometry>(args);
}
