// attend_turns.cuh: a block's way through its items in a cache of elements of 4 bytes: a chunk after
// the other, of one or several tiles, on each of which all threads work.

template <class G> struct stg_attend_turns {
  typedef stg_attend_tile<G> tile_of;
  typedef stg_attend_sums<G> sums_of;
  static constexpr bool is_cut = G::chunk != G::tile;

  // What has been summed so far leaves the registers to the tile.
  struct shared_type {
    stg_attend_rows rows;
    typename tile_of::shared_type tile;
    stg_attend_aside<G> aside[is_cut ? 2 : 1]; // of a row, and of a chunk of several tiles
    stg_attend_left left;
  };

  const stg_decode_args &a;
  shared_type &block;
  uint4 *const ring;
  stg_attend_share<G> share;

  __device__ __forceinline__ stg_attend_turns(const stg_decode_args &args, shared_type &shared,
                                              uint4 *slots)
      : a(args), block(shared), ring(slots), share(args, shared.rows) {
  }

  // A chunk of an item. The tiles of one that is longer are merged as chunks are.
  __device__ __forceinline__ void sum(const stg_attend_item &item, int number, tile_of &tile,
                                      bool &is_fresh, sums_of &sums) {
    const int begin = number * G::chunk;
    const int skipped = item.first > begin ? (item.first - begin) / G::tile * G::tile : 0;
    if constexpr (is_cut) {
      sums.clear();
      sums.keep(block.aside[1].kept);
    }
    bool any = false;
#pragma unroll 1
    for (int at = skipped; at < G::chunk && at <= item.position - begin; at += G::tile) {
      any = tile.run(begin + at, is_fresh);
      if constexpr (is_cut) {
        if (any) {
          is_fresh = false;
          sums.load(block.aside[1].kept);
          sums.add_tile(tile);
          sums.keep(block.aside[1].kept);
          __syncthreads(); // the ring is free again
        }
      }
    }
    if constexpr (is_cut) {
      sums.load(block.aside[1].kept);
    } else {
      sums.clear(); // not before: it would take registers from the tile
      if (any) {
        is_fresh = false;
        sums.add_tile(tile);
        __syncthreads();
      }
    }
  }

  // All chunks of an item; of a row with others they are written, to be merged by who comes last.
  __device__ __forceinline__ void work(const stg_attend_item &item) {
    const bool alone = stg_attend_is_alone(item);
    tile_of tile(a, block.tile, ring, item);
    bool is_fresh = true;
#pragma unroll 1
    for (int c = item.from; c < item.to; c++) {
      sums_of sums;
      sum(item, item.first / G::chunk + c, tile, is_fresh, sums);
      if (!alone) {
        sums.store(stg_attend_slots<G>(a, item.row, item.tile) +
                   (long long)c * stg_attend<G>::slot_quads);
        continue;
      }
      sums_of row;
      row.clear(); // not before, as there
      if (c > item.from) {
        row.load(block.aside[0].kept);
      }
      row.add(sums);
      if (c + 1 < item.to) {
        row.keep(block.aside[0].kept);
      } else {
        row.give(a, item.row, item.tile);
      }
    }
    if (!alone) {
      __syncthreads();
      if (threadIdx.x == 0) {
        const unsigned counted = stg_attend_leave<G>(a, item, block.left);
        stg_attend_settle<G>(a, counted, block.left);
      }
      __syncthreads();
      stg_attend_finish<G>(a, block.left, block.aside[0].steps);
    }
  }

  __device__ __forceinline__ void run() {
    stg_attend_item item;
#pragma unroll 1
    while (share.next(item)) {
      work(item);
    }
  }
};
