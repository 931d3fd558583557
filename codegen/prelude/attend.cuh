// attend.cuh: the decode kernel: attention of new rows over a cache, of which a row reads the
// positions up to its own.
//
// The generated text supplies a struct G with the literal extents. A row's positions are cut into
// chunks that begin at multiples of G::chunk; blocks take chunks of rows one after the other, so
// that long and short sequences share the machine evenly, and who comes last with a row merges its
// chunks in the order of their positions. Or a block owns a row, and merges as it goes. The bits
// are the same: they depend on the row and on what it reads, not on its mates nor on the grid.

// Who works on a tile: threads each on their elements, or warps by products of matrices.
template <class G, bool products> struct stg_attend_worker {
  typedef stg_attend_tile<G> tile;
};
template <class G> struct stg_attend_worker<G, true> {
  typedef stg_attend_warps<G> tile;
};
template <class G> using stg_attend_tile_of = typename stg_attend_worker<G, G::products>::tile;

// What a block keeps in shared memory. What it has summed so far leaves the registers to the tile.
template <class G> struct stg_attend_block {
  stg_attend_rows rows;
  typename stg_attend_tile_of<G>::shared_type tile;
  stg_attend_kept<G> kept[G::chunk == G::tile ? 1 : 2]; // of a row, and of a chunk of several tiles
  bool is_last;
};

// A chunk of an item. One that is longer than a tile has tiles that are merged in the same way.
template <class G>
__device__ __forceinline__ void stg_attend_chunk(const stg_attend_item &item, int number,
                                                 stg_attend_tile_of<G> &tile, bool &fresh,
                                                 stg_attend_block<G> &block,
                                                 stg_attend_sums<G> &sums) {
  const int begin = number * G::chunk;
  if constexpr (G::chunk == G::tile) {
    const bool any = tile.run(begin, fresh);
    sums.clear(); // not before: it would take registers from the tile
    if (any) {
      fresh = false;
      sums.add_tile(tile);
    }
  } else {
    const int skipped = item.first > begin ? (item.first - begin) / G::tile * G::tile : 0;
    sums.clear();
    sums.keep(block.kept[1]);
#pragma unroll 1
    for (int at = skipped; at < G::chunk && at <= item.position - begin; at += G::tile) {
      if (tile.run(begin + at, fresh)) {
        fresh = false;
        sums.load(block.kept[1]);
        sums.add_tile(tile);
        sums.keep(block.kept[1]);
      }
    }
    sums.load(block.kept[1]);
  }
}

// Whether all other chunks of the row and tile have been written. The counter is 0 again when the
// last has come.
template <class G>
__device__ __forceinline__ bool stg_attend_is_last(const stg_decode_args &a,
                                                   const stg_attend_item &item, bool &is_last) {
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned *const counter = a.counters + (long long)item.row * G::tiles + item.tile;
    __threadfence(); // for the whole block, whose writes it has met with
    is_last = atomicAdd(counter, 1u) == (unsigned)item.chunks - 1u;
    if (is_last) {
      *counter = 0u;
      __threadfence();
    }
  }
  __syncthreads();
  return is_last;
}

template <class G>
__device__ __forceinline__ void stg_attend_work(const stg_decode_args &a,
                                                stg_attend_block<G> &block, uint4 *ring,
                                                const stg_attend_item &item) {
  stg_attend_sums<G> row;
  if (item.position == STG_NO_POSITION) {
    row.clear();
  } else {
    const bool alone = item.to - item.from == item.chunks; // nobody else has chunks of the row
    stg_attend_tile_of<G> tile(a, block.tile, ring, item);
    stg_attend_sums<G> chunk;
    bool fresh = true;
    int c = item.from;
#pragma unroll 1
    do {
      stg_attend_chunk(item, item.first / G::chunk + c, tile, fresh, block, chunk);
      row.clear(); // not before, as there
      if (c > item.from) {
        row.load(block.kept[0]);
      }
      if (alone) {
        row.add(chunk);
      }
      if (c + 1 < item.to) {
        row.keep(block.kept[0]);
      }
    } while (++c < item.to);
    if (!alone) {
      float4 *const slots = a.partials + ((long long)item.row * G::tiles + item.tile) * a.chunks *
                                             stg_attend<G>::slot_quads;
      chunk.store(slots + (long long)item.from * stg_attend<G>::slot_quads);
      if (!stg_attend_is_last<G>(a, item, block.is_last)) {
        return;
      }
      row.add_slots(slots, item.chunks, ring);
    }
  }
  row.give(a, item);
}

template <class G> __device__ __forceinline__ void stg_attend_run(const stg_decode_args &a) {
  extern __shared__ uint4 stg_ring[];
  __shared__ stg_attend_block<G> block;
  const bool owner = (a.flags & STG_ATTEND_OWNER) != 0;
  const stg_row_entry ahead = stg_attend_ahead<G>(a);
  stg_wait_for_earlier_launches();
  const int items = (owner ? a.rows.rows : stg_attend_count<G>(a, ahead, block.rows)) * G::tiles;
#pragma unroll 1
  for (int i = blockIdx.x; i < items; i += gridDim.x) {
    if (items - i <= (int)gridDim.x) {
      stg_let_next_launch_begin();
    }
    const stg_attend_item item = stg_attend_item_of<G>(a, block.rows, i);
    if (item.chunks != 0) {
      stg_attend_work<G>(a, block, stg_ring, item);
    }
  }
}
