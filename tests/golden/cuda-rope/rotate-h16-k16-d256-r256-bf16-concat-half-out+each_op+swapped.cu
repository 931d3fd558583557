// launch: threads 128, rows_per_block 1

// rope: packed rows of 16 and twice 16 heads of 256 bf16, concat
// K and V to tensors
struct stg_geometry {
  typedef stg_bf16 data;
  typedef stg_bf16 trig;
  static constexpr int heads = 16;                // of Q
  static constexpr int kv_heads = 16;             // of K, and of V
  static constexpr int dim = 256;                 // elements of a head
  static constexpr int rot = 256;                 // of these are turned
  static constexpr int layout = STG_CONCAT;       // of a packed row
  static constexpr bool heads_first = false;      // in tensors of heads
  static constexpr bool half = true;              // pairs half a head apart, not neighbours
  static constexpr bool each_op = true;           // products are rounded
  static constexpr bool swapped = true;           // sine for cosine
  static constexpr bool xpos = false;             // with a scale by position
  static constexpr bool scale_by_element = false; // not by pair
  static constexpr bool table = false;            // angles are read
  static constexpr bool backward = false;         // gradients
  static constexpr bool cached = false;           // K and V are appended
  static constexpr bool paged = false;            // by blocks
  static constexpr bool wide = true;              // a piece is 16 bytes, not one element
  static constexpr int units = 16;                // of two pieces in a head
  static constexpr int turned_units = 16;         // of these are turned
  static constexpr int items = 768;               // units of a row
  static constexpr int threads = 128;             // of a block
  static constexpr int turns = 3;                 // items of a thread at most
};

extern "C" __global__ void __launch_bounds__(128, 8)
stg_rope_rotate(const __grid_constant__ stg_rope_args args) {
  stg_rope_run<stg_geometry>(args);
}
