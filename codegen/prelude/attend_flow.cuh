// attend_flow.cuh: a block's way through its items in a cache of 16-bit elements. Every warp's K and V
// come in one stream, over the ends of chunks and items: what is looked for and asked for runs ahead
// of what is summed by a slice, be it of the next chunk or of another row.
//
// All warps of a block go through the same chunks, and meet twice at the end of each: when their
// sums are laid out, and when these have been read. While they do so the next K is on its way, and
// its V from then on. They meet a third time where an item begins, for its query.

// Of a warp, what is looked into.
struct stg_attend_ahead_of {
  int at;          // of the block's share, what has not become items
  int chunk, rest; // as the row counts; chunks of the item behind it
};

template <class G> struct stg_attend_flow {
  typedef stg_attend_warps<G> warps_of;
  typedef stg_attend_sums<G> sums_of;

  struct shared_type {
    stg_attend_rows rows;
    typename warps_of::shared_type warps;
    stg_attend_aside<G> aside; // of a row of which the block has all chunks
    // of each warp in turn: the one that is summed, and the next once it is looked into
    stg_attend_item items[stg_attend<G>::warps][2];
    stg_attend_ahead_of ahead[stg_attend<G>::warps];
    stg_attend_left left;
  };

  const stg_decode_args &a;
  shared_type &block;
  warps_of warps;
  stg_attend_slices<G> slices;
  stg_attend_item (&items)[2]; // of this warp
  unsigned counted; // of thread 0: what came of the item that was left
  // bits of one register
  unsigned number : 1;   // what is looked into is of items[number]
  unsigned is_ahead : 1; // and the chunk behind the one that is summed
  unsigned follows : 1;  // and there is one
  unsigned current : 1;  // what is summed is of items[current]
  unsigned is : 1;       // a chunk is summed
  unsigned is_fresh : 1; // the first of an item
  unsigned any : 1;      // this warp has read something of it
  unsigned leaves : 1;   // the one before was an item's last, of a row that is not the block's alone
  unsigned is_left : 1;  // such an item has been left, and is to be settled

  __device__ __forceinline__ stg_attend_flow(const stg_decode_args &args, shared_type &shared,
                                             uint4 *ring)
      : a(args), block(shared), warps(args, shared.warps, ring), slices(args, ring),
        items(shared.items[threadIdx.x / STG_LANES]), counted(0u), number(1u), is_ahead(0u),
        follows(0u), current(0u), is(0u), is_fresh(0u), any(0u), leaves(0u), is_left(0u) {
    const stg_attend_share<G> share(a, block.rows);
    if (slices.lane == 0) {
      block.ahead[slices.warp] = {share.at, 0, 0};
    }
    __syncwarp();
  }

  // Look into the next chunk. An item overwrites the one before that which is summed.
  __device__ __forceinline__ void look_ahead() {
    stg_attend_ahead_of ahead = block.ahead[slices.warp];
    __syncwarp(); // all have it before it is another
    is_ahead = follows = 1u;
    ahead.chunk++;
    ahead.rest--;
    if (ahead.rest < 0) {
      stg_attend_share<G> share(a, block.rows);
      stg_attend_item next;
      share.at = ahead.at;
      if (!share.next(next)) {
        follows = 0u;
        return;
      }
      number ^= 1u;
      ahead = {share.at, next.from, next.to - next.from - 1};
      if (slices.lane == 0) {
        items[number] = next;
      }
    }
    if (slices.lane == 0) {
      block.ahead[slices.warp] = ahead;
    }
    __syncwarp();
    const stg_attend_item &item = items[number];
    slices.open(item, (item.first / G::chunk + ahead.chunk) * G::chunk);
  }

  // All warps: a chunk is done, of which this one has `so_far`. Where there is none, what was left is
  // settled all the same.
  __device__ __forceinline__ void exchange(typename warps_of::state &so_far) {
    if (is) {
      warps.lay_out(so_far, any);
    }
    if (is_left && threadIdx.x == 0) {
      stg_attend_settle<G>(a, counted, block.left);
    }
    __syncthreads();
    if (is_left) {
      if (!is) { // so nothing is on its way
        stg_attend_finish_through<G, stg_attend<G>::warps * stg_attend_slices<G>::warp_bytes>(
            a, block.left, block.aside.steps, warps.ring);
      } else {
        stg_attend_finish<G>(a, block.left, block.aside.steps);
      }
      is_left = 0u;
    }
    if (is) {
      take();
      __syncthreads();
    }
  }

  // The sums of all warps.
  __device__ __forceinline__ void take() {
    const stg_attend_item &item = items[current];
    const int at =
        follows && number == current ? block.ahead[slices.warp].chunk - 1 : item.to - 1;
    const bool is_last = at + 1 == item.to;
    const bool alone = stg_attend_is_alone(item);
    sums_of sums;
    sums.take_tile(warps, alone && at > item.from ? &block.aside.kept : 0);
    if (!alone) {
      sums.store(stg_attend_slots<G>(a, item.row, item.tile) +
                 (long long)at * stg_attend<G>::slot_quads);
    } else if (is_last) {
      sums.give(a, item.row, item.tile);
    } else {
      sums.keep(block.aside.kept);
    }
    leaves = is_last && !alone;
  }

  // A slice's V is asked for, and what an item begins with is done meanwhile.
  __device__ __forceinline__ void begin() {
    uint4 query[warps_of::own_pieces];
    if (is_fresh) {
      warps.ask_query(items[current], query);
    }
    if (slices.word != 0u) {
      slices.ask_values();
    }
    stg_copy_commit();
    if (is_fresh) {
      warps.keep_query(query);
      __syncthreads();
    }
    if (leaves && threadIdx.x == 0) { // not before: V would wait for it
      counted = stg_attend_leave<G>(a, items[is ? current ^ 1u : current], block.left);
    }
    is_left |= leaves;
    is_fresh = leaves = 0u;
  }

  __device__ __forceinline__ void run() {
    typename warps_of::state so_far;
    so_far.clear();
    bool noted = !STG_ATTEND_PROBE;
#pragma unroll 1
    for (;;) {
      begin();
      if (!is_ahead && slices.next >= slices.end) {
        look_ahead();
      }
      const unsigned word = slices.word;
      const unsigned is_done = is_ahead;
      float s[warps_of::parts][4] = {};
      if (word != 0u) {
        stg_copy_wait_but<1>();
        __syncwarp();
        if (!noted) {
          stg_attend_note(stg_attend_times<G>(a), 3);
          noted = true;
        }
        warps.score(slices.keys_at, s);
        __syncwarp();
      }
      slices.word = 0u;
      if ((!is_ahead || follows) && slices.advance(items[number].seq)) {
        slices.ask_keys();
      }
      stg_copy_commit();
      if (word != 0u) {
        any = 1u;
        warps.weigh(word, s, so_far);
        stg_copy_wait_but<1>();
        __syncwarp();
        warps.add_values(slices.keys_at, s, so_far.values);
        __syncwarp();
      }
      if (is_done) {
        if (is || !follows) {
          if (STG_ATTEND_PROBE && is && !follows) {
            stg_attend_note(stg_attend_times<G>(a), 4);
          }
          exchange(so_far);
          if (!follows && !leaves) { // nor is anything to be settled
            break;
          }
          so_far.clear();
          any = 0u;
        }
        is_fresh = follows && (!is || number != current);
        is = follows;
        current = number;
        is_ahead = 0u;
      }
    }
  }
};
