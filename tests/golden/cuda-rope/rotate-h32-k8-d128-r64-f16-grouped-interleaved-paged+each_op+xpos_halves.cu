// launch: threads 128, rows_per_block 1

// rope: packed rows of 32 and twice 8 heads of 128 f16, grouped
// K and V to a cache of blocks
struct stg_geometry {
  typedef stg_f16 data;
  typedef stg_f32 trig;
  static constexpr int heads = 32;                // of Q
  static constexpr int kv_heads = 8;              // of K, and of V
  static constexpr int dim = 128;                 // elements of a head
  static constexpr int rot = 64;                  // of these are turned
  static constexpr int layout = STG_GROUPED;      // of a packed row
  static constexpr bool heads_first = false;      // in tensors of heads
  static constexpr bool half = false;             // pairs half a head apart, not neighbours
  static constexpr bool each_op = true;           // products are rounded
  static constexpr bool swapped = false;          // sine for cosine
  static constexpr bool xpos = true;              // with a scale by position
  static constexpr bool scale_by_element = true;  // not by pair
  static constexpr bool table = false;            // angles are read
  static constexpr bool backward = false;         // gradients
  static constexpr bool cached = true;            // K and V are appended
  static constexpr bool paged = true;             // by blocks
  static constexpr bool wide = true;              // a piece is 16 bytes, not one element
  static constexpr int units = 8;                 // of two pieces in a head
  static constexpr int turned_units = 4;          // of these are turned
  static constexpr int items = 384;               // units of a row
  static constexpr int threads = 128;             // of a block
  static constexpr int turns = 2;                 // items of a thread at most
};

extern "C" __global__ void __launch_bounds__(128, 8)
stg_rope_rotate(const __grid_constant__ stg_rope_args args) {
  stg_rope_run<stg_geometry>(args);
}
