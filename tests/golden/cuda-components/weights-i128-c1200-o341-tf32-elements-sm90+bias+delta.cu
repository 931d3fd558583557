// launch: threads 256, rows_per_block 16, stage_bytes 204288

// components: parts of gradients of 128 -> 1200 -> 341 f32
struct stg_geometry {
  typedef stg_f32 data;
  static constexpr int in = 128;                  // rows of dv
  static constexpr int components = 1200;         // columns of dv, rows of du
  static constexpr int out = 341;                 // columns of du
  static constexpr int mask = STG_MASK_ELEMENTS;  // what its elements are
  static constexpr bool bias = true;              // has a gradient
  static constexpr bool delta = true;             // has one
  static constexpr int threads = 256;             // of a block
  static constexpr int block = 64;                // components of a block
  static constexpr int tile = 16;                 // rows of a stage
  static constexpr int stages = 2;                // of the ring
  static constexpr int warps_n = 2;               // beside each other in a sum
  static constexpr int s_rows = 16;               // of the tile whose intermediate a warp has
  static constexpr int shared_bytes = 204288;     // of the launch
};

extern "C" __global__ void __launch_bounds__(256, 1)
stg_components_weights(const __grid_constant__ stg_components_weights_args args) {
  stg_components_weights_run<stg_geometry>(args);
}
