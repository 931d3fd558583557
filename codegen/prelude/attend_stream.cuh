// attend_stream.cuh: K and then V of a tile of positions, on their way through shared memory; of
// elements of 4 bytes.
//
// A thread reads what it has asked for itself, so nobody waits for anybody: its slots in the ring
// are a column of their own. Positions that are not read arrive as zeros.

// What follows from the literals besides.
template <class G> struct stg_attend_lanes {
  static constexpr int warp_places = STG_LANES / G::lanes; // positions that a warp loads at once
  static constexpr int step = stg_attend<G>::warps * warp_places; // and a block
  static constexpr int batch_places = step * G::batch;            // and a block in a batch
  static constexpr int pieces = 2; // of 16 bytes, of a thread and a position
  static constexpr int row_pieces = (G::dim + 3) / 4; // of a position, that have elements
  static_assert(G::tile % batch_places == 0 && G::chunk % G::tile == 0, "whole batches");
  static_assert(G::batch <= G::lanes, "a fold leaves a lane one sum");
};

// Which positions of a tile are read, by their distance from the tile's first one.
template <class G> struct stg_attend_keys {
  int unit[G::paged ? G::tile / 8 : 1]; // blocks of the tile's positions, -1: none; no less than 8
  unsigned char key[G::masked ? G::tile : 1];
};

template <class G> struct stg_attend_stream {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef typename data::raw raw;
  typedef stg_attend<G> shape;
  typedef stg_attend_lanes<G> lanes_of;

  const stg_decode_args &a;
  const stg_attend_keys<G> &keys;
  const uint4 *const ring;       // this thread's column
  const unsigned ring_at;        // its address, of shared memory
  const int lane;                // of those that share a position
  const int place;               // of its position in a step
  int low, length;               // positions that are read: [low, low + length], and chosen
  int first, batches;            // of the tile
  int o;                         // the position of this thread that is asked for next
  long long start;               // this thread's first element in K and V, of a paged cache's block
  const element *at;             // and that of position o, of a dense cache

  __device__ __forceinline__ stg_attend_stream(const stg_decode_args &args,
                                               const stg_attend_keys<G> &chosen, uint4 *slots)
      : a(args), keys(chosen), ring(slots + threadIdx.x),
        ring_at((unsigned)__cvta_generic_to_shared(slots + threadIdx.x)),
        lane(threadIdx.x % G::lanes), place(threadIdx.x / G::lanes) {
  }

  // The tile at position `begin`, of which the item's row reads [item.first, item.position].
  __device__ __forceinline__ void open(const stg_attend_item &item, int begin) {
    const int last = item.position - begin < G::tile - 1 ? item.position - begin : G::tile - 1;
    low = item.first > begin ? item.first - begin : 0;
    length = last - low;
    first = low / lanes_of::batch_places;
    batches = last / lanes_of::batch_places - first + 1;
    start = item.tile / G::group_tiles * a.kv.head_stride + lane * 4;
    if constexpr (G::paged) {
      start += (begin & ((1 << a.kv.block_shift) - 1)) * a.kv.pos_stride; // 0 in small blocks
    } else {
      start += item.seq * a.kv.seq_stride +
               (begin + first * lanes_of::batch_places + place) * a.kv.pos_stride;
    }
  }

  // Whether position `p` of the tile is read.
  __device__ __forceinline__ bool reads(int p) const {
    bool is = (unsigned)(p - low) <= (unsigned)length;
    if constexpr (G::masked) {
      is = is && keys.key[p] != 0;
    }
    if constexpr (G::paged) {
      is = is && keys.unit[p >> a.kv.block_shift] >= 0;
    }
    return is;
  }

  // Slots of batch n, in pieces from the column's first.
  static __device__ __forceinline__ int slots_of(int n) {
    return n % G::depth * (G::batch * lanes_of::pieces * shape::threads);
  }

  // A piece by its elements, for rows that are not aligned and for tails.
  static __device__ __forceinline__ void fill(uint4 *to, const element *from, int begin, bool is) {
#pragma unroll 1
    for (int j = 0; j < 4; j++) {
      ((element *)to)[j] = is && begin + j < G::dim ? from[j] : (element)0;
    }
  }

  // Ask for batch n of the tile's, K's and then V's, one after the other; behind the last there is
  // nothing.
  __device__ __forceinline__ void ask(int n) {
    if (n < 2 * batches) {
      if (n == 0 || n == batches) {
        o = first * lanes_of::batch_places + place;
        at = (const element *)(n == 0 ? a.kv.k : a.kv.v) + start;
      }
#pragma unroll
      for (int r = 0; r < G::batch; r++) {
        const bool is = reads(o);
        const element *here = at;
        if constexpr (G::paged) {
          here += keys.unit[o >> a.kv.block_shift] * a.kv.seq_stride +
                  (o & ((1 << a.kv.block_shift) - 1)) * a.kv.pos_stride;
        } else {
          at += lanes_of::step * a.kv.pos_stride;
        }
#pragma unroll
        for (int p = 0; p < lanes_of::pieces; p++) {
          const int piece = p * G::lanes + lane;
          const int slot = slots_of(n) + (r * lanes_of::pieces + p) * shape::threads;
          const element *const from = here + p * G::lanes * 4;
          if constexpr (G::aligned) {
            stg_copy_or_clear_async(ring_at + slot * (int)sizeof(uint4), from,
                                    is && piece < lanes_of::row_pieces);
          } else {
            fill((uint4 *)ring + slot, from, piece * 4, is);
          }
        }
        o += lanes_of::step;
      }
    }
    stg_copy_commit();
  }

  // Position r of batch n, as float, once it has been waited for.
  __device__ __forceinline__ void read(int n, int r, float (&f)[8]) const {
    raw g;
    uint4 *const pieces = (uint4 *)&g;
#pragma unroll
    for (int p = 0; p < lanes_of::pieces; p++) {
      pieces[p] = ring[slots_of(n) + (r * lanes_of::pieces + p) * shape::threads];
    }
    stg_widen<data>(g, f);
  }
};
