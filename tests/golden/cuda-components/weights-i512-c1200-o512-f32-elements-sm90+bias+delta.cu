// launch: threads 256, rows_per_block 32, stage_bytes 220416

// components: parts of gradients of 512 -> 1200 -> 512 f32
struct stg_geometry {
  typedef stg_f32_exact data;
  static constexpr int in = 512;                  // rows of dv
  static constexpr int components = 1200;         // columns of dv, rows of du
  static constexpr int out = 512;                 // columns of du
  static constexpr int mask = STG_MASK_ELEMENTS;  // what its elements are
  static constexpr bool bias = true;              // has a gradient
  static constexpr bool delta = true;             // has one
  static constexpr int threads = 256;             // of a block
  static constexpr int block = 16;                // components of a block
  static constexpr int tile = 32;                 // rows of a stage
  static constexpr int stages = 1;                // of the ring
  static constexpr int warps_n = 2;               // beside each other in a sum
  static constexpr int s_rows = 16;               // of the tile whose intermediate a warp has
  static constexpr int shared_bytes = 220416;     // of the launch
};

extern "C" __global__ void __launch_bounds__(256, 1)
stg_components_weights(const __grid_constant__ stg_components_weights_args args) {
  stg_components_weights_run<stg_geometry>(args);
}
