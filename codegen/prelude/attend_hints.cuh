// attend_hints.cuh: what a block that has chunks of rows is likely to read first, on its way to the
// second-level cache while earlier launches are still at work. They may still change lengths, tables, K
// and V: so nothing that is read here is kept, first-level caches are passed by, and what is wrong costs
// time alone. A block that owns rows has its length at once, and gains nothing by a guess.

#define STG_ATTEND_HINTED 128 // positions: with those of all blocks, some 30 MB of K and V

template <class G> struct stg_attend_hints {
  typedef typename G::data::element element;

#if __CUDA_ARCH__ >= 900
  static constexpr bool are = G::products && G::aligned;
#else
  static constexpr bool are = false; // no launch begins early there
#endif
  static constexpr int row_bytes = G::dim * (int)sizeof(element);
  // positions of a prefetch; a power of two, as blocks are
  static constexpr int most = row_bytes >= 256 ? 16 : row_bytes >= 128 ? 32 : 64;

  // `count` positions from `at` on, of one block where there are blocks.
  static __device__ __forceinline__ void ask(const stg_decode_args &a, int seq, int head, int at,
                                             int count) {
    int unit = seq, within = at;
    if constexpr (G::paged) {
      unit = __ldcg(a.kv.block_table + (long long)seq * a.kv.table_row + (at >> a.kv.block_shift));
      within = at & ((1 << a.kv.block_shift) - 1);
      if (unit < 0 || unit >= a.kv.n_blocks) {
        return;
      }
    }
    const long long from =
        unit * a.kv.seq_stride + head * a.kv.head_stride + within * a.kv.pos_stride;
    stg_prefetch((const element *)a.kv.k + from, (unsigned)(count * row_bytes));
    stg_prefetch((const element *)a.kv.v + from, (unsigned)(count * row_bytes));
  }

  // All threads: the first positions of an item, which is one as long as no length changes.
  static __device__ __forceinline__ void ask_item(const stg_decode_args &a,
                                                  const stg_attend_item &item) {
    const int all = item.first / G::chunk; // chunks before the row's first
    const int begin = (all + item.from) * G::chunk;
    // distances from there: behind it may be no more positions
    int count = (item.to - item.from) * G::chunk;
    count = count < STG_ATTEND_HINTED ? count : STG_ATTEND_HINTED;
    count = count <= item.position - begin ? count : item.position - begin + 1;
    int unit = most;
    if constexpr (G::paged) {
      unit = unit < 1 << a.kv.block_shift ? unit : 1 << a.kv.block_shift;
    }
#pragma unroll 1
    for (int o = (int)threadIdx.x * unit; o < count; o += unit * G::threads) {
      ask(a, item.seq, item.tile / G::group_tiles, begin + o, o + unit <= count ? unit : count - o);
    }
  }

  // All threads, ahead of earlier launches' end; `ahead` is the thread's first row.
  static __device__ __forceinline__ void ask_first(const stg_decode_args &a,
                                                   const stg_row_entry &ahead,
                                                   stg_attend_rows &rows) {
    if (a.kv.pos_stride != G::dim) {
      return; // of all threads
    }
    stg_attend_item item;
    stg_attend_count<G, true>(a, ahead, rows);
    stg_attend_share<G> share(a, rows);
    if (share.next_of_chunks(item) && item.position >= 0) {
      ask_item(a, item);
    }
    __syncthreads(); // `rows` has been read
  }
};
