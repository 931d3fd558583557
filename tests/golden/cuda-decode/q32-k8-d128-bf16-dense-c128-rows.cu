// launch: threads 128, rows_per_block 1, stage_bytes 34816

// decode: q [rows, heads, dim] bf16, dense cache of 8 KV heads
struct stg_geometry {
  typedef stg_bf16 data;
  static constexpr bool paged = false;            // the cache has a block table
  static constexpr bool windowed = false;         // rows read the last positions alone
  static constexpr bool masked = false;           // a mask says which positions are read
  static constexpr bool heads_first = false;      // q and out: [heads, rows, dim]
  static constexpr bool products = true;          // of matrices, by warps
  static constexpr bool whole = true;             // a head is whole pieces of 16 bytes
  static constexpr bool aligned = true;           // and K and V stand by 16 bytes
  static constexpr int group = 4;                 // query heads that share K and V
  static constexpr int tile_heads = 4;            // of them, that a block works on at once
  static constexpr int group_tiles = 1;           // in which a group comes
  static constexpr int tiles = 8;                 // in which all query heads come
  static constexpr int dim = 128;                 // elements of a head
  static constexpr int padded = 128;              // with the zeros behind them
  static constexpr int threads = 128;             // of a block
  static constexpr int lanes = 16;                // threads that share a position
  static constexpr int chunk = 128;               // positions whose sums are merged as one
  static constexpr int tile = 128;                // positions that a block works on at once
  static constexpr int slice = 16;                // positions that a warp works on at once
};

extern "C" __global__ void __launch_bounds__(128, 3)
stg_decode(const __grid_constant__ stg_decode_args args) {
  stg_attend_run<stg_geometry>(args);
}
