// launch: threads 96, rows_per_block 1

// rope: packed rows of 16 and twice 4 heads of 128 f16, grouped
// gradients of Q, K and V in
struct stg_geometry {
  typedef stg_f16 data;
  typedef stg_f32 trig;
  static constexpr int heads = 16;                // of Q
  static constexpr int kv_heads = 4;              // of K, and of V
  static constexpr int dim = 128;                 // elements of a head
  static constexpr int rot = 64;                  // of these are turned
  static constexpr int layout = STG_GROUPED;      // of a packed row
  static constexpr bool heads_first = false;      // in tensors of heads
  static constexpr bool half = true;              // pairs half a head apart, not neighbours
  static constexpr bool each_op = true;           // products are rounded
  static constexpr bool swapped = false;          // sine for cosine
  static constexpr bool xpos = true;              // with a scale by position
  static constexpr bool scale_by_element = false; // not by pair
  static constexpr bool table = false;            // angles are read
  static constexpr bool backward = true;          // gradients
  static constexpr bool cached = false;           // K and V are appended
  static constexpr bool paged = false;            // by blocks
  static constexpr bool wide = true;              // a piece is 16 bytes, not one element
  static constexpr int units = 8;                 // of two pieces in a head
  static constexpr int turned_units = 4;          // of these are turned
  static constexpr int items = 192;               // units of a row
  static constexpr int threads = 96;              // of a block
  static constexpr int turns = 2;                 // items of a thread at most
};

extern "C" __global__ void __launch_bounds__(96, 10)
stg_rope_rotate(const __grid_constant__ stg_rope_args args) {
  stg_rope_run<stg_geometry>(args);
}
