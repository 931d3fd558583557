// attend_flow.cuh: a block's way through its items in a cache of 16-bit elements. Every warp's K and V
// come in one stream, over the ends of chunks and items: what is looked for and asked for runs ahead
// of what is summed by a slice, be it of the next chunk or of another row.
//
// All warps of a block go through the same chunks, and meet twice at the end of each: when their
// sums are laid out, and when these have been read. While they do so the next K is on its way, and
// its V from then on. They meet a third time where an item begins, for its query.

template <class G> struct stg_attend_flow {
  typedef stg_attend_warps<G> warps_of;
  typedef stg_attend_sums<G> sums_of;

  struct shared_type {
    stg_attend_rows rows;
    typename warps_of::shared_type warps;
    stg_attend_kept<G> kept;  // of a row of which the block has all chunks
    stg_attend_item items[2]; // in turn: the one that is summed, and the next once it is looked into
    stg_attend_left left;
  };

  const stg_decode_args &a;
  shared_type &block;
  warps_of warps;
  stg_attend_slices<G> slices;
  stg_attend_share<G> share;
  // what is looked into:
  stg_attend_item item;
  int chunk, number; // of the item, as the row counts; the item's
  bool is_ahead;     // it is the chunk behind the one that is summed
  bool follows;      // and there is one
  // what is summed, of block.items[current]:
  int current, summed;
  unsigned counted; // of thread 0: what came of the item that was left
  bool is_left;     // there is such an item

  __device__ __forceinline__ stg_attend_flow(const stg_decode_args &args, shared_type &shared,
                                             uint4 *ring, int chunks)
      : a(args), block(shared), warps(args, shared.warps, ring), slices(args, ring),
        share(args, shared.rows, chunks), number(-1), is_ahead(false), follows(false),
        is_left(false) {
    item.to = chunk = 0;
  }

  // Look into the next chunk. block.items has its item for those who sum it: thread 0 overwrites the
  // one before the item that is summed, which nobody reads since all met at its end.
  __device__ __forceinline__ void look_ahead() {
    is_ahead = true;
    follows = true;
    if (++chunk >= item.to) {
      follows = share.next(item);
      if (!follows) {
        return;
      }
      chunk = item.from;
      number++;
      if (threadIdx.x == 0) {
        block.items[number % 2] = item;
      }
    }
    slices.open(item, (item.first / G::chunk + chunk) * G::chunk);
  }

  // All warps: a chunk is done, of which this one has `so_far`. Where there is none, what was left
  // is waited for all the same. True: it was the item's last, and others have chunks of the row.
  __device__ __forceinline__ bool exchange(bool is, typename warps_of::state &so_far, bool any) {
    if (is) {
      warps.lay_out(so_far, any);
    }
    if (is_left && threadIdx.x == 0) {
      stg_attend_settle<G>(a, counted, block.left);
    }
    __syncthreads();
    if (is_left) {
      stg_attend_finish<G>(a, block.left);
      is_left = false;
    }
    if (!is) {
      return false;
    }
    const stg_attend_item &of = block.items[current];
    const bool is_last = summed + 1 == of.to;
    const bool alone = stg_attend_is_alone(of);
    sums_of sums;
    sums.clear();
    if (alone && summed > of.from) {
      sums.load(block.kept);
    }
    sums.add_tile(warps);
    if (!alone) {
      sums.store(stg_attend_slots<G>(a, of.row, of.tile) +
                 (long long)summed * stg_attend<G>::slot_quads);
    } else if (is_last) {
      sums.give(a, of.row, of.tile);
    } else {
      sums.keep(block.kept);
    }
    __syncthreads();
    return is_last && !alone;
  }

  __device__ __forceinline__ void run() {
    typename warps_of::state so_far;
    bool has = false;      // a slice is in hand: its K has been asked for
    bool is = false;       // a chunk is summed
    bool is_fresh = false; // the first of an item
    bool leaves = false;   // the one before was an item's last
    bool any = false;      // of the chunk this warp has read something
    so_far.clear();
#pragma unroll 1
    for (;;) {
      uint4 query[warps_of::own_pieces];
      if (is_fresh) {
        warps.ask_query(item, query);
      }
      if (has) {
        slices.ask_values();
      }
      stg_copy_commit();
      if (is_fresh) {
        warps.keep_query(query);
        __syncthreads();
      }
      if (leaves && threadIdx.x == 0) { // not before: V would wait for it
        counted = stg_attend_leave<G>(a, block.items[(number + (is ? 1 : 0)) % 2], block.left);
      }
      is_left = is_left || leaves;
      is_fresh = leaves = false;
      if (!is_ahead && slices.next > slices.until) {
        look_ahead();
      }
      const unsigned word = slices.word;
      float s[warps_of::parts][4] = {};
      if (has) {
        stg_copy_wait_but<1>();
        __syncwarp();
        warps.score(slices.keys_at, s);
        __syncwarp();
      }
      const bool had = has, is_done = is_ahead;
      has = (!is_ahead || follows) && slices.advance();
      if (has) {
        slices.ask_keys();
      }
      stg_copy_commit();
      if (had) {
        any = true;
        warps.weigh(word, s, so_far);
        stg_copy_wait_but<1>();
        __syncwarp();
        warps.add_values(slices.keys_at, s, so_far.values);
        __syncwarp();
      }
      if (is_done) {
        if (is || !follows) {
          leaves = exchange(is, so_far, any);
          if (!is) {
            break;
          }
          so_far.clear();
          any = false;
        }
        is_fresh = follows && (!is || number % 2 != current);
        is = follows;
        current = number % 2;
        summed = chunk;
        is_ahead = false;
      }
    }
  }
};
