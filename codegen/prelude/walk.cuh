// walk.cuh: which rows are a block's, and its way over them, tile by tile.
//
// A tile is up to G::rows rows that follow each other and share a record.

// A tile, and the head of its chain on the way.
struct stg_found {
  int first; // row of the tensors
  int size;  // rows; 0: there is none
  int record;
  unsigned head; // the chain's first words, one a lane; 0 where there is none
};

// The chain of a record for the layer of the launch.
__device__ __forceinline__ const unsigned *stg_chain_of(const stg_steer_args &a, int record) {
  return (const unsigned *)(a.records + record) + (unsigned long long)a.layer * a.chain_words;
}

template <class G> struct stg_walk {
  const stg_steer_args &a;
  const int lane, warp;
  int begin, count;  // the block's rows
  int window, entry; // lane l holds the record of row window + l of the block
  int next;          // row of the block that the next tile may begin with

  __device__ __forceinline__ stg_walk(const stg_steer_args &args)
      : a(args), lane(threadIdx.x % STG_LANES), warp(threadIdx.x / STG_LANES), window(0), next(0) {
  }

  // The record of the block's row k. A map that was written on the device holds slots: translate,
  // and report what is no slot.
  __device__ __forceinline__ int record_of(int k, int map_entry, bool holds_slots) const {
    int found = k < count ? map_entry : STG_PADDING;
    if (holds_slots) {
      if (found >= 0 && (unsigned)found < a.slots) {
        found = a.table[found];
      } else if (found >= 0 || found < STG_PADDING) {
        if (warp == 0) {
          a.report[1] = (unsigned)found;
          __threadfence_system(); // the host reads the slot when it sees the count
          atomicAdd(a.report, 1u);
        }
        found = STG_UNSTEERED;
      }
    }
    return found;
  }

  // Which rows are this block's: as many for each block, or one. The first entry is asked for
  // before that is known: it is the one where there are no more rows than blocks.
  __device__ __forceinline__ void find_rows() {
    const int blocks = gridDim.x, block = blockIdx.x;
    const int2 header = *(const int2 *)a.row_map;
    int map_entry = a.row_map[STG_MAP_HEADER + block];
    const int n = header.y < a.rows ? header.y : a.rows;
    begin = block;
    count = block < n ? 1 : 0;
    if (n > blocks) {
      const int each = n / blocks, more = n % blocks;
      begin = block * each + (block < more ? block : more);
      count = each + (block < more ? 1 : 0);
      map_entry = lane < count ? a.row_map[STG_MAP_HEADER + begin + lane] : STG_PADDING;
    }
    entry = record_of(lane, map_entry, header.x != 0);
  }

  __device__ __forceinline__ void move_window() {
    window += STG_LANES;
    next = window;
    const int k = window + lane;
    const int map_entry = k < count ? a.row_map[STG_MAP_HEADER + begin + k] : STG_PADDING;
    entry = record_of(k, map_entry, a.row_map[0] != 0);
  }

  // Find the next tile and ask for the head of its chain. In place, rows without a record are
  // passed over.
  __device__ __forceinline__ stg_found find() {
    const int least = (a.flags & STG_IN_PLACE) != 0 && !G::epilogue ? 0 : STG_UNSTEERED;
    stg_found tile;
    tile.size = 0;
    unsigned ahead = 0;
    for (;;) {
      if (next - window < STG_LANES) {
        ahead = __ballot_sync(STG_ALL, entry >= least) & STG_ALL << (next - window);
      }
      if (ahead != 0 || window + STG_LANES >= count) {
        break;
      }
      move_window();
    }
    if (ahead == 0) {
      return tile;
    }
    const int first = __ffs(ahead) - 1;
    tile.record = __shfl_sync(STG_ALL, entry, first);
    const unsigned other = ~(__ballot_sync(STG_ALL, entry == tile.record) >> first);
    const int same = other != 0 ? __ffs(other) - 1 : STG_LANES;
    tile.first = begin + window + first;
    tile.size = same < G::rows ? same : G::rows;
    next = window + first + tile.size;
    tile.head =
        tile.record >= 0 && lane < a.chain_words ? __ldg(stg_chain_of(a, tile.record) + lane) : 0;
    return tile;
  }
};
