// attend_slices.cuh: K and V of a warp's slices, on their way through shared memory: a slice of
// either at a time, the next K while weights are worked out, the next V behind it.
//
// A warp has its slices to itself, so it waits for no other. Which positions of a slice are read is
// a word of bits; positions that are not arrive as zeros, and a slice without any is passed over.
// The chunk that is looked into may be the one behind that of the slice that was asked for last.

template <class G> struct stg_attend_slices {
  typedef typename G::data data;
  typedef typename data::element element;

  // an odd number of 16 bytes, so that of 8 rows that follow each other no two share banks
  static constexpr int row_bytes = G::padded * 2 + 16;
  static constexpr int slice_bytes = G::slice * row_bytes;
  static constexpr int warp_bytes = 2 * slice_bytes; // of K, then of V
  static constexpr int stride = stg_attend<G>::warps * G::slice; // from a warp's slice to its next
  static constexpr int places = STG_LANES / G::lanes; // positions that a warp asks for at once
  static constexpr int row_pieces = (G::dim + 7) / 8; // of 16 bytes, with elements
  static constexpr int all_pieces = G::padded / 8;    // and with the zeros behind them
  static_assert(G::slice <= STG_LANES && G::slice % 16 == 0, "a bit for each position");
  static_assert(G::slice % places == 0 && G::chunk % stride == 0, "whole slices");
  static_assert(G::lanes >= all_pieces, "a lane for each piece");

  const stg_decode_args &a;
  char *const memory;     // of this warp, in shared memory
  const unsigned keys_at; // its address there
  const int lane, warp;
  // the chunk that is looked into:
  // Its positions that are read: [first, end), and chosen. Without a sign, since what follows the last
  // slice of the longest sequence is 2^31 and more.
  unsigned first, end;
  long long start;         // this lane's first element in K and V, but for its position
  unsigned next;           // where the warp's next slice begins; not before `end`: there is none
  int next_unit, next_key; // of position next + lane: its block, and whether the mask has it
  // the slice that is asked for, before another chunk is looked into:
  int place;     // where it begins
  int unit;      // of position place + lane
  unsigned word; // the positions of it that are read; 0: there is none

  __device__ __forceinline__ stg_attend_slices(const stg_decode_args &args, uint4 *ring)
      : a(args), memory((char *)ring + threadIdx.x / STG_LANES * warp_bytes),
        keys_at((unsigned)__cvta_generic_to_shared(memory)), lane(threadIdx.x % STG_LANES),
        warp(threadIdx.x / STG_LANES), end(0u), next(0u), word(0u) {
  }

  // Look into the chunk at position `begin`, of which the item's row reads [item.first, item.position].
  __device__ __forceinline__ void open(const stg_attend_item &item, int begin) {
    const int last = item.position - begin < G::chunk - 1 ? item.position - begin : G::chunk - 1;
    const int from = G::windowed ? item.first : 0;
    const int skipped = from > begin ? (from - begin) / stride * stride : 0;
    first = from;
    end = begin + last + 1;
    start = item.tile / G::group_tiles * a.kv.head_stride + lane % G::lanes * 8;
    if constexpr (!G::paged) {
      start += item.seq * a.kv.seq_stride;
    }
    next = begin + skipped + warp * G::slice;
    look(item.seq);
  }

  __device__ __forceinline__ bool is_inside() const {
    const unsigned mine = next + lane;
    return lane < G::slice && mine >= first && mine < end;
  }

  // Ask where position next + lane is, and whether it is to be read.
  __device__ __forceinline__ void look(int seq) {
    if constexpr (G::paged) {
      next_unit = -1;
      if (is_inside()) {
        next_unit = a.kv.block_table[(long long)seq * a.kv.table_row +
                                     (next + lane >> a.kv.block_shift)];
      }
    }
    if constexpr (G::masked) {
      next_key = is_inside() ? a.key_mask[seq * a.mask_stride + next + lane] : 0;
    }
  }

  // Go on to the warp's next slice of the chunk, which is of sequence `seq`, of which something is
  // read. False: there is none.
  __device__ __forceinline__ bool advance(int seq) {
    word = 0u;
#pragma unroll 1
    while (word == 0u && next < end) {
      bool is = is_inside();
      if constexpr (G::paged) {
        is = is && next_unit >= 0 && next_unit < a.kv.n_blocks;
        unit = next_unit;
      }
      if constexpr (G::masked) {
        is = is && next_key != 0;
      }
      word = __ballot_sync(STG_ALL, is);
      place = next;
      next += stride;
      look(seq);
    }
    return word != 0u;
  }

  // A piece by its elements, for caches that are not aligned and for tails.
  static __device__ __forceinline__ void fill(element *to, const element *from, int count) {
#pragma unroll 1
    for (int j = 0; j < 8; j++) {
      to[j] = j < count ? from[j] : (element)0;
    }
  }

  // Ask for the slice's part of `tensor`; to `to` bytes behind the warp's memory.
  __device__ __forceinline__ void ask(int to, const void *tensor) const {
    const int piece = lane % G::lanes, row = lane / G::lanes;
    const element *at = (const element *)tensor + start;
    if constexpr (!G::paged) {
      at += (place + row) * a.kv.pos_stride;
    }
    to += row * row_bytes + piece * 16;
    const unsigned mine = word >> row;
#pragma unroll
    for (int i = 0; i < G::slice; i += places) {
      const bool is = (mine >> i & 1u) != 0u;
      const element *from = at;
      if constexpr (G::paged) {
        const int within = (place + i + row) & ((1 << a.kv.block_shift) - 1);
        from += __shfl_sync(STG_ALL, unit, i + row) * a.kv.seq_stride + within * a.kv.pos_stride;
      } else {
        at += places * a.kv.pos_stride;
      }
      if (piece < all_pieces) {
        if constexpr (G::aligned && G::group_tiles == 1) {
          stg_copy_or_clear_once_async(keys_at + to + i * row_bytes, from,
                                       is && piece < row_pieces);
        } else if constexpr (G::aligned) {
          stg_copy_or_clear_async(keys_at + to + i * row_bytes, from, is && piece < row_pieces);
        } else {
          fill((element *)(memory + to + i * row_bytes), from, is ? G::dim - piece * 8 : 0);
        }
      }
    }
  }
  __device__ __forceinline__ void ask_keys() const {
    ask(0, a.kv.k);
  }
  __device__ __forceinline__ void ask_values() const {
    ask(slice_bytes, a.kv.v);
  }
};
