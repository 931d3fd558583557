// launch: threads 256, rows_per_block 1, stage_bytes 0

// components: sums of gradients of 341 -> 1200 -> 128 f32
struct stg_geometry {
  typedef stg_f32 data;
  static constexpr int d_in = 341;                // rows of dv
  static constexpr int components = 1200;         // columns of dv, rows of du
  static constexpr int d_out = 128;               // columns of du
  static constexpr bool bias = true;              // has a gradient
  static constexpr bool delta = true;             // has one
  static constexpr int threads = 256;             // of a block
};

extern "C" __global__ void __launch_bounds__(256, 4)
stg_components_sum(const __grid_constant__ stg_components_sum_args args) {
  stg_components_sum_run<stg_geometry>(args);
}
