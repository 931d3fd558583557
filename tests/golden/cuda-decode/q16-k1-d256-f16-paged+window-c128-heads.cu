// launch: threads 128, rows_per_block 1, stage_bytes 67584

// decode: q [heads, rows, dim] f16, paged cache of 1 KV heads
struct stg_geometry {
  typedef stg_f16 data;
  static constexpr bool paged = true;             // the cache has a block table
  static constexpr bool windowed = true;          // rows read the last positions alone
  static constexpr bool masked = false;           // a mask says which positions are read
  static constexpr bool heads_first = true;       // q and out: [heads, rows, dim]
  static constexpr bool products = true;          // of matrices, by warps
  static constexpr bool whole = true;             // a head is whole pieces of 16 bytes
  static constexpr bool aligned = true;           // and K and V stand by 16 bytes
  static constexpr int group = 16;                // query heads that share K and V
  static constexpr int tile_heads = 8;            // of them, that a block works on at once
  static constexpr int group_tiles = 2;           // in which a group comes
  static constexpr int tiles = 2;                 // in which all query heads come
  static constexpr int dim = 256;                 // elements of a head
  static constexpr int padded = 256;              // with the zeros behind them
  static constexpr int threads = 128;             // of a block
  static constexpr int lanes = 32;                // threads that share a position
  static constexpr int chunk = 128;               // positions whose sums are merged as one
  static constexpr int tile = 128;                // positions that a block works on at once
  static constexpr int slice = 16;                // positions that a warp works on at once
};

extern "C" __global__ void __launch_bounds__(128, 2)
stg_decode(const __grid_constant__ stg_decode_args args) {
  stg_attend_run<stg_geometry>(args);
}
