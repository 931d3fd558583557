// launch: threads 256, rows_per_block 128, stage_bytes 180224

// components: results of 128 -> 1200 -> 128 f32
struct stg_geometry {
  typedef stg_f32_exact data;
  static constexpr int in = 128;                  // elements of a row that comes in
  static constexpr int components = 1200;         // of the intermediate
  static constexpr int out = 128;                 // of a row that goes out
  static constexpr bool turned = false;           // the way back of a gradient
  static constexpr int mask = STG_MASK_ELEMENTS;  // what its elements are
  static constexpr bool bias = false;             // is added
  static constexpr bool delta = false;            // has a product of its own
  static constexpr int threads = 256;             // of a block
  static constexpr int tile = 128;                // rows of a block
  static constexpr int chunk = 32;                // components of a stage
  static constexpr int stages = 2;                // of the ring
  static constexpr int warps_n = 2;               // beside each other
  static constexpr int warp_rows = 32;            // of the tile that a warp has
  static constexpr int warp_columns = 64;         // of what goes out
  static constexpr bool own = false;              // and all of what comes before
  static constexpr int s_rows = 32;               // and of the intermediate
  static constexpr int s_columns = 16;            // of a chunk
  static constexpr int shared_bytes = 180224;     // of the launch
};

extern "C" __global__ void __launch_bounds__(256, 1)
stg_components_apply(const __grid_constant__ stg_components_apply_args args) {
  stg_components_apply_run<stg_geometry>(args);
}
