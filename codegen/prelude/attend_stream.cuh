// attend_stream.cuh: K and then V of a tile of positions, on their way through shared memory.
//
// A thread reads what it has asked for itself, so nobody waits for anybody: its slots in the ring
// are a column of their own. Positions that are not read arrive as zeros.

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

  const stg_decode_args &a;
  const stg_attend_keys<G> &keys;
  uint4 *const ring;  // this thread's column
  const int lane;     // of those that share a position
  const int place;    // of its position in a step
  int low, length;    // positions that are read: [low, low + length] and chosen
  int first, batches; // of the tile
  long long start;    // this thread's first element in K and V, but for a paged cache's block
  long long at;       // likewise of the step that is asked for next

  __device__ __forceinline__ stg_attend_stream(const stg_decode_args &args,
                                               const stg_attend_keys<G> &chosen, uint4 *slots)
      : a(args), keys(chosen), ring(slots + threadIdx.x), lane(threadIdx.x % G::lanes),
        place(threadIdx.x / G::lanes) {
  }

  // The tile at position `begin`, of which a row reads [from, to].
  __device__ __forceinline__ void open(const stg_attend_item &item, int begin) {
    const int last = item.position - begin < G::tile - 1 ? item.position - begin : G::tile - 1;
    low = item.first > begin ? item.first - begin : 0;
    length = last - low;
    first = low / shape::batch_places;
    batches = last / shape::batch_places - first + 1;
    start = item.tile / G::group_tiles * a.kv.head_stride + lane * shape::piece_elems;
    if constexpr (G::paged) {
      start += (begin & ((1 << a.kv.block_shift) - 1)) * a.kv.pos_stride; // 0 in small blocks
    } else {
      start += item.seq * a.kv.seq_stride +
               (begin + first * shape::batch_places + place) * a.kv.pos_stride;
    }
  }

  // Whether position `o` of the tile is read.
  __device__ __forceinline__ bool reads(int o) const {
    bool is = (unsigned)(o - low) <= (unsigned)length;
    if constexpr (G::masked) {
      is = is && keys.key[o] != 0;
    }
    if constexpr (G::paged) {
      is = is && keys.unit[o >> a.kv.block_shift] >= 0;
    }
    return is;
  }

  // This thread's first element of position `o`, which is the next one.
  __device__ __forceinline__ long long element_at(int o) const {
    if constexpr (G::paged) {
      return start + keys.unit[o >> a.kv.block_shift] * a.kv.seq_stride +
             (o & ((1 << a.kv.block_shift) - 1)) * a.kv.pos_stride;
    } else {
      return at;
    }
  }

  __device__ __forceinline__ uint4 *slot(int n, int r) const {
    return ring + (n % G::depth * G::batch + r) * G::pieces * shape::threads;
  }

  // A piece by its elements, for rows that are not aligned and for tails.
  __device__ __forceinline__ void fill(uint4 *to, const element *from, int begin, bool is) const {
#pragma unroll 1
    for (int j = 0; j < shape::piece_elems; j++) {
      ((element *)to)[j] = is && begin + j < G::dim ? from[j] : (element)0;
    }
  }

  // Ask for batch `n` of the tile's, K's and then V's; behind the last there is nothing.
  __device__ __forceinline__ void ask(int n) {
    if (n < 2 * batches) {
      const bool values = n >= batches;
      const element *const from = (const element *)(values ? a.kv.v : a.kv.k);
      const int o = (first + n - (values ? batches : 0)) * shape::batch_places + place;
      if (n == 0 || n == batches) {
        at = start;
      }
#pragma unroll
      for (int r = 0; r < G::batch; r++) {
        const bool is = reads(o + r * shape::step);
        const element *const here = from + element_at(o + r * shape::step);
#pragma unroll
        for (int p = 0; p < G::pieces; p++) {
          const int piece = p * G::lanes + lane;
          const int apart = p * G::lanes * shape::piece_elems;
          uint4 *const to = slot(n, r) + p * shape::threads;
          if (G::whole && (a.flags & STG_ATTEND_ALIGNED) != 0) {
            stg_copy_or_clear_async(to, here + apart, is && piece < shape::row_pieces);
          } else {
            fill(to, here + apart, piece * shape::piece_elems, is);
          }
        }
        at += shape::step * a.kv.pos_stride;
      }
    }
    stg_copy_commit();
  }

  // Position r of batch n, as float, once it has been waited for.
  __device__ __forceinline__ void read(int n, int r, float (&f)[8]) const {
    raw g;
    uint4 *const pieces = (uint4 *)&g;
#pragma unroll
    for (int p = 0; p < G::pieces; p++) {
      pieces[p] = slot(n, r)[p * shape::threads];
    }
    stg_widen<data>(g, f);
  }
};
