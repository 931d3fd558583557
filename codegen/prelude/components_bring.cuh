// components_bring.cuh: what comes to work=apply from the device's memory: the rows, and a ring of
// stages with chunks of matrices and mask; and their ways into their places.
//
// The generated text supplies a struct G with the literal extents.

template <class G> struct stg_components_bring {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_layout<G> layout;
  typedef stg_operands<data> operands;
  static constexpr int of_piece = operands::of_piece;
  static constexpr unsigned bytes = sizeof(element);
  static constexpr int delta_chunks = G::delta ? (G::in + G::chunk - 1) / G::chunk : 0;
  static constexpr int chunks = (G::components + G::chunk - 1) / G::chunk;
  static constexpr int all_chunks = delta_chunks + chunks;
  // what of a packed matrix begins in the middle of a word, where it came by words
  static constexpr bool odd_first = (G::turned ? G::in : G::components) % 2 != 0;
  static constexpr bool odd_second = (G::turned ? G::components : G::out) % 2 != 0;
  static constexpr bool odd_delta = G::delta && (G::turned ? G::out : G::in) % 2 != 0;

  const stg_components_apply_args &a;
  const stg_components_rows<G> &rows;
  const unsigned memory; // of the block

  static __device__ __forceinline__ int first_row() {
    return (int)blockIdx.x * G::tile;
  }
  __device__ __forceinline__ unsigned stage(int n) const {
    return memory + layout::in_bytes + layout::s_bytes +
           (unsigned)(n % G::stages) * layout::stage_bytes;
  }
  __device__ __forceinline__ bool is_aligned(unsigned flag) const {
    return (a.flags & flag) != 0;
  }
  // Otherwise: whether rows come by words, or else by elements.
  static __device__ __forceinline__ bool has_words(const void *tensor) {
    unsigned low = (unsigned)(unsigned long long)tensor;
    asm volatile("" : "+r"(low)); // where it stands, as stg_thread_here
    return (low & 3u) == 0;
  }

  __device__ __forceinline__ void bring_in() const {
    stg_bring_rows<G::threads, G::tile, layout::in_pieces, typename layout::rows_place,
                   G::in % of_piece == 0, element>(
        memory, is_aligned(STG_ALIGNED_IN), has_words(a.in), [&](int r, int &left) {
          left = rows.is_live(r) ? G::in : 0;
          return (const element *)a.in + (first_row() + r) * a.in_stride;
        });
  }

  // The rows as operands.
  __device__ __forceinline__ void round_in() const {
    stg_share_out<G::threads, G::tile, layout::in_pieces>([&](int r, int piece) {
      operands::round_piece(memory + layout::rows_place::at(r, piece));
    });
  }

  // Of a packed matrix of Height x Width: Rows from `top` on, and pieces from `left` on.
  template <int Height, int Width, int Rows, int Pieces, class Place>
  __device__ __forceinline__ void bring_matrix(unsigned to, const void *matrix, int top, int left,
                                               unsigned flag) const {
    if constexpr (Width % of_piece == 0) {
      if (is_aligned(flag)) {
        stg_bring_packed<G::threads, Rows, Pieces, Place, Height, Width, element>(to, matrix, top,
                                                                                  left);
        return;
      }
    }
    stg_bring_rows<G::threads, Rows, Pieces, Place, Width % of_piece == 0, element>(
        to, false, has_words(matrix), [&](int r, int &of_row) {
          of_row = top + r < Height ? Width - left : 0;
          return (const element *)matrix + ((top + r) * Width + left);
        });
  }

  __device__ __forceinline__ void bring_mask(unsigned to, int begin) const {
    if constexpr (G::mask == STG_MASK_ELEMENTS) {
      bring_mask_of<element>(to, begin);
    } else if constexpr (G::mask == STG_MASK_BYTES) {
      bring_mask_of<unsigned char>(to, begin);
    }
  }
  template <class E> __device__ __forceinline__ void bring_mask_of(unsigned to, int begin) const {
    constexpr bool whole = G::components % (16 / (int)sizeof(E)) == 0;
    if constexpr (whole) {
      if (is_aligned(STG_ALIGNED_MASK)) {
        stg_bring_placed<G::threads, G::tile, layout::mask_pieces, typename layout::mask_place>(
            to, (const E *)a.mask + begin, G::components - begin,
            [&](int r) { return rows.mask[r]; });
        return;
      }
    }
    stg_bring_rows<G::threads, G::tile, layout::mask_pieces, typename layout::mask_place, whole, E>(
        to, !whole && is_aligned(STG_ALIGNED_MASK), has_words(a.mask), [&](int r, int &left) {
          const long long at = rows.mask[r];
          left = at >= 0 ? G::components - begin : 0;
          return (const E *)a.mask + (at + begin);
        });
  }

  // Begin to bring chunk n, if there is one, into its stage: a group.
  __device__ __forceinline__ void bring(int n) const {
    const unsigned to = stage(n);
    if (n < delta_chunks) {
      const int k = n * G::chunk;
      constexpr int height = G::turned ? G::in : G::out, width = G::turned ? G::out : G::in;
      bring_matrix<height, width, layout::delta_rows, layout::delta_pieces,
                   typename layout::delta_place>(to, a.delta, G::turned ? k : 0, G::turned ? 0 : k,
                                                 STG_ALIGNED_DELTA);
    } else if (n < all_chunks) {
      const int begin = (n - delta_chunks) * G::chunk, top = G::turned ? begin : 0;
      const unsigned second = to + layout::first_bytes;
      constexpr int components = G::components, in = G::in, out = G::out;
      bring_matrix<G::turned ? components : in, G::turned ? in : components, layout::first_rows,
                   layout::first_pieces, typename layout::first_place>(
          to, a.first, top, begin - top, STG_ALIGNED_FIRST);
      bring_matrix<G::turned ? out : components, G::turned ? components : out, layout::second_rows,
                   layout::second_pieces, typename layout::second_place>(
          second, a.second, begin - top, top, STG_ALIGNED_SECOND);
      bring_mask(second + layout::second_bytes, begin);
    }
    stg_copy_commit();
  }

  // What has come of chunk n as operands, once this thread's copies have ended; before the block
  // meets. Where each thread brought the pieces that it rounds, it need not wait for others.
  __device__ __forceinline__ void round_chunk(int n) const {
    const unsigned at = stage(n);
    if (n < delta_chunks) {
      if ((G::turned ? G::out : G::in) % of_piece != 0 || !is_aligned(STG_ALIGNED_DELTA)) {
        __syncthreads();
      }
      round_matrix<layout::delta_rows, layout::delta_pieces, typename layout::delta_place>(at);
      return;
    }
    constexpr bool whole = (G::turned ? G::in : G::components) % of_piece == 0 &&
                           (G::turned ? G::components : G::out) % of_piece == 0;
    if (!whole || !is_aligned(STG_ALIGNED_FIRST) || !is_aligned(STG_ALIGNED_SECOND)) {
      __syncthreads();
    }
    round_matrix<layout::first_rows, layout::first_pieces, typename layout::first_place>(at);
    round_matrix<layout::second_rows, layout::second_pieces, typename layout::second_place>(
        at + layout::first_bytes);
  }
  template <int Rows, int Pieces, class Place>
  __device__ __forceinline__ void round_matrix(unsigned at) const {
    stg_share_out<G::threads, Rows, Pieces>(
        [&](int r, int piece) { operands::round_piece(at + Place::at(r, piece)); },
        stg_thread_here());
  }

  // ---- rows that came by words, into their places; true: the block has to meet ----
  // Tiles and chunks begin at even rows and columns, so that a row's own parity says whether it is
  // late.

  __device__ __forceinline__ bool settle_in() const {
    const int odd = (int)a.in_stride & 1;
    if (bytes != 2 || odd == 0 || !has_words(a.in)) {
      return false;
    }
    stg_settle_words<G::threads, G::tile, layout::in_pieces, typename layout::rows_place>(
        memory, [](int r) { return r % 2 != 0; });
    return true;
  }
  template <bool Odd, int Rows, int Pieces, class Place>
  __device__ __forceinline__ bool settle_matrix(unsigned at, const void *matrix) const {
    if constexpr (Odd && bytes == 2) {
      if (has_words(matrix)) {
        stg_settle_words<G::threads, Rows, Pieces, Place>(at, [](int r) { return r % 2 != 0; });
        return true;
      }
    }
    return false;
  }
  __device__ __forceinline__ bool settle_delta(int n) const {
    return settle_matrix<odd_delta, layout::delta_rows, layout::delta_pieces,
                         typename layout::delta_place>(stage(n), a.delta);
  }
  __device__ __forceinline__ bool settle_first(int n) const {
    bool is = settle_matrix<odd_first, layout::first_rows, layout::first_pieces,
                            typename layout::first_place>(stage(n), a.first);
    if constexpr (G::mask == STG_MASK_ELEMENTS && bytes == 2) {
      if ((a.mask_stride & 1) != 0 && has_words(a.mask)) {
        stg_settle_words<G::threads, G::tile, layout::mask_pieces, typename layout::mask_place>(
            stage(n) + layout::first_bytes + layout::second_bytes,
            [&](int r) { return rows.is_live(r) && rows.mask[r] % 2 != 0; });
        is = true;
      }
    }
    return is;
  }
  __device__ __forceinline__ bool settle_second(int n) const {
    return settle_matrix<odd_second, layout::second_rows, layout::second_pieces,
                         typename layout::second_place>(stage(n) + layout::first_bytes, a.second);
  }
};
