// args.cuh: what the steer kernel is given: its arguments, and the form of maps and chains in
// device memory. codegen/steer.h says the same to the host; the two change together.

// The launch's arguments. `flags`: 1 in place; 2 all rows and the weight are 16-byte aligned, and a
// row is whole chunks.
struct stg_steer_args {
  const void *hidden; // [rows, row_stride]
  void *out;          // [rows, row_stride]
  void *residual;     // [rows, row_stride], or null; written by an epilogue alone
  const int *row_map; // header [4], then [rows]: record in 16-byte units, -1 unsteered, -2 padding
  const int *table;   // [slots] record of a slot or -1, for a map of slots
  const uint4 *records; // [records, layers, chain_words]
  const void *bank;     // [vectors, G::padded]
  unsigned *report;     // [0] rows with a bad slot, [1] one such slot, [2] rows not finite
  const void *weight;   // [hidden], of an epilogue
  long long row_stride; // elements
  int rows;             // room of the map; the map says how many there are
  unsigned slots;
  unsigned layer;
  unsigned chain_words; // room of one chain, a multiple of 4
  unsigned flags;
  float epsilon;           // of an epilogue
  unsigned stage_words;    // of shared memory before the chain
  unsigned staged_vectors; // that have a place in it
};
#define STG_IN_PLACE 1u
#define STG_ALIGNED 2u

// row_map[0]: 0 the map holds records, 1 it holds slots (a map that was written on the device).
// row_map[1]: its rows.
#define STG_MAP_HEADER 4
#define STG_UNSTEERED (-1)
#define STG_PADDING (-2)

// A chain in device memory, in 32-bit words: header[4], vector rows[n_vectors rounded up to 4],
// ops[12 each], gram[n*n]. Header: n_ops | n_vectors << 8 | wants_norm << 16 (0: no chain); mask of
// vectors whose dot is read; word of the first op | word of gram << 16; words in all.
#define STG_OP_WORDS 12
#define STG_LANES 32
#define STG_ALL 0xffffffffu
#define STG_NORM_SLOT 32       // where a row's h.h stands beside its dots
#define STG_OPS_OF_EACH_WARP 2 // a chain of more is run by one warp for all

// A launch of up to this many blocks begins all of them soon.
#define STG_BLOCKS_OF_SHORT_LAUNCH 1024
