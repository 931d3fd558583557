// launch: threads 256, rows_per_block 128, stage_bytes 225536

// components: gradients of rows of 341 -> 1200 -> 128 f32
struct stg_geometry {
  typedef stg_f32 data;
  static constexpr int in = 341;                  // elements of a row that comes in
  static constexpr int components = 1200;         // of the intermediate
  static constexpr int out = 128;                 // of a row that goes out
  static constexpr bool turned = true;            // the way back of a gradient
  static constexpr int mask = STG_MASK_ELEMENTS;  // what its elements are
  static constexpr bool bias = false;             // is added
  static constexpr bool delta = true;             // has a product of its own
  static constexpr int threads = 256;             // of a block
  static constexpr int tile = 128;                // rows of a block
  static constexpr int chunk = 16;                // components of a stage
  static constexpr int stages = 1;                // of the ring
  static constexpr int warps_n = 2;               // beside each other
  static constexpr int warp_rows = 32;            // of the tile that a warp has
  static constexpr int warp_columns = 64;         // of what goes out
  static constexpr bool own = false;              // and all of what comes before
  static constexpr int s_rows = 16;               // and of the intermediate
  static constexpr int s_columns = 16;            // of a chunk
  static constexpr int shared_bytes = 225536;     // of the launch
};

extern "C" __global__ void __launch_bounds__(256, 1)
stg_components_apply(const __grid_constant__ stg_components_apply_args args) {
  stg_components_apply_run<stg_geometry>(args);
}
