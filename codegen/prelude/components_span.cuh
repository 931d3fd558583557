// components_span.cuh: work=weights: what it is given, and what its blocks bring of a span of rows.
//
// A launch has three kinds of blocks, each for one span. Those of components have a block of them:
// V and U of it stay in shared memory, while a ring of stages brings x, dy and the mask by tiles of
// rows. Those of Delta have a block of the columns of x, and one, of the bias, has dy alone.
//
// The generated text supplies a struct G with the literal extents.

// As the host has it, in codegen/components_args.h.
struct stg_components_weights_args {
  const void *x, *dy; // [rows, x_stride], [rows, dy_stride]
  const void *v, *u;  // [in, components], [components, out]
  const void *mask;   // [rows / share, mask_stride]
  const void *d;      // [rows], with delta
  const int *valid;   // [rows / sequence], or null
  void *dm;           // [rows, dm_stride], where each row has a row of the mask; or null
  float *parts;       // or null: dm alone is wanted
  long long x_stride, dy_stride, mask_stride, dm_stride; // elements
  int rows, span, sequence, share;
  unsigned flags, unused;
};
static_assert(sizeof(stg_components_weights_args) == 128, "codegen/components_args.h has the same");

// Whose address and stride are of 16 bytes in whole; dm's, of two elements.
#define STG_ALIGNED_X 1u
#define STG_ALIGNED_DY 2u
#define STG_ALIGNED_V 4u
#define STG_ALIGNED_U 8u
#define STG_ALIGNED_MASK 16u
#define STG_ALIGNED_DM 32u
#define STG_SHARED_DM 64u // there are parts of dm

// What a block is for.
#define STG_OF_COMPONENTS 0
#define STG_OF_DELTA 1
#define STG_OF_BIAS 2

// How shared memory is laid out, in bytes. codegen/components_extents.c counts the same.
template <class G> struct stg_components_span_layout {
  typedef stg_operands<typename G::data> operands;
  static constexpr int of_piece = operands::of_piece;
  static constexpr bool in_place = G::mask == STG_MASK_ELEMENTS; // s takes the place of the mask
  static constexpr int in_columns = stg_round_up(G::in, 16), out_columns = stg_round_up(G::out, 16);
  static constexpr int in_pieces = in_columns / of_piece, out_pieces = out_columns / of_piece;
  static constexpr int block_pieces = G::block / of_piece;
  static constexpr int mask_pieces = in_place ? block_pieces : G::block / 16;

  static constexpr int in_pitch = stg_pitch_of(in_pieces), out_pitch = stg_pitch_of(out_pieces);
  static constexpr int block_pitch = operands::pitch_by_k(block_pieces);
  static constexpr int mask_pitch = in_place ? block_pitch : stg_pitch_of(mask_pieces);

  static constexpr int v_bytes = in_columns * block_pitch * 16;
  static constexpr int u_bytes = G::block * out_pitch * 16;
  static constexpr int narrow_bytes = G::tile * block_pitch * 16; // of s, h, or a block of x
  static constexpr int s_bytes = in_place ? 0 : narrow_bytes;
  static constexpr int dy_bytes = G::tile * out_pitch * 16;
  static constexpr int x_bytes = G::tile * in_pitch * 16;
  static constexpr int mask_bytes = G::mask == STG_MASK_NONE ? 0 : G::tile * mask_pitch * 16;
  static constexpr int tile_bytes = dy_bytes + x_bytes + mask_bytes;
  static constexpr int delta_bytes = G::delta ? dy_bytes + narrow_bytes : 0;
  static constexpr int stage_bytes = tile_bytes > delta_bytes ? tile_bytes : delta_bytes;

  static constexpr int u = v_bytes, h = u + u_bytes, s = h + narrow_bytes, ring = s + s_bytes;
  static constexpr int bytes = ring + G::stages * stage_bytes;
  static_assert(bytes == G::shared_bytes, "codegen/components_extents.c has the same");
};

template <class G> struct stg_components_ring {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_span_layout<G> layout;
  typedef stg_operands<data> operands;
  static constexpr int of_piece = operands::of_piece;
  // Rows are known a tile before they are brought, and until the next one is worked on.
  static constexpr int known = G::stages + 1;
  typedef stg_components_rows<G> rows_of_tiles[known];

  const stg_components_weights_args &a;
  rows_of_tiles &rows;
  const unsigned memory; // of the block
  int span, first, end;  // rows of the span
  int begin;             // of the components, or of the columns of x

  __device__ __forceinline__ stg_components_ring(const stg_components_weights_args &args,
                                                 rows_of_tiles &of_rows, unsigned shared)
      : a(args), rows(of_rows), memory(shared) {
  }

  // This block is the `number`th of its kind, of which a span has so many.
  __device__ __forceinline__ void take(int number, int blocks) {
    span = number / blocks;
    begin = number % blocks * G::block;
    first = span * a.span;
    end = a.rows - first < a.span ? a.rows : first + a.span;
  }
  __device__ __forceinline__ int tiles() const {
    return (end - first + G::tile - 1) / G::tile;
  }
  __device__ __forceinline__ int top(int tile) const {
    return first + tile * G::tile;
  }
  __device__ __forceinline__ unsigned stage(int tile) const {
    return memory + layout::ring + (unsigned)(tile % G::stages) * layout::stage_bytes;
  }
  __device__ __forceinline__ const stg_components_rows<G> &rows_of(int tile) const {
    return rows[tile % known];
  }
  __device__ __forceinline__ bool has(unsigned flag) const {
    return (a.flags & flag) != 0;
  }

  // Rows that begin at no multiple of 16 bytes: whether they come by words, or else by elements.
  static __device__ __forceinline__ bool has_words(const void *tensor) {
    unsigned low = (unsigned)(unsigned long long)tensor;
    asm volatile("" : "+r"(low)); // where it stands, as stg_thread_here
    return (low & 3u) == 0;
  }

  // Of a packed matrix of Height x Width: Rows from `top` on, and Pieces from column `left` on.
  template <int Height, int Width, int Rows, int Pieces, int Pitch>
  __device__ __forceinline__ void bring_matrix(unsigned to, const void *matrix, int top, int left,
                                               unsigned flag) const {
    if constexpr (Width % of_piece == 0) {
      if (has(flag)) {
        stg_bring_packed<G::threads, Rows, Pieces, stg_by_rows<Pitch>, Height, Width, element>(
            to, matrix, top, left);
        return;
      }
    }
    stg_bring_rows<G::threads, Rows, Pieces, stg_by_rows<Pitch>, Width % of_piece == 0, element>(
        to, false, has_words(matrix), [&](int r, int &of_row) {
          of_row = top + r < Height ? Width - left : 0;
          return (const element *)matrix + ((long long)(top + r) * Width + left);
        });
  }

  // Of the rows of a tile: Pieces from column `left` on, of Width columns.
  template <int Width, int Pieces, int Pitch>
  __device__ __forceinline__ void bring_rows(unsigned to, int tile, const void *matrix,
                                             long long stride, int left, unsigned flag) const {
    constexpr bool whole = Width % of_piece == 0;
    const stg_components_rows<G> &of_tile = rows_of(tile);
    if constexpr (whole) {
      if (has(flag)) {
        stg_bring_strided<G::threads, G::tile, Pieces, stg_by_rows<Pitch>>(
            to, (const element *)matrix + (top(tile) * stride + left), stride, Width - left,
            [&](int r) { return of_tile.is_live(r); });
        return;
      }
    }
    stg_bring_rows<G::threads, G::tile, Pieces, stg_by_rows<Pitch>, whole, element>(
        to, !whole && has(flag), has_words(matrix), [&](int r, int &of_row) {
          of_row = of_tile.is_live(r) ? Width - left : 0;
          return (const element *)matrix + ((top(tile) + r) * stride + left);
        });
  }

  template <class E> __device__ __forceinline__ void bring_mask(unsigned to, int tile) const {
    constexpr bool whole = G::components % (16 / (int)sizeof(E)) == 0;
    const stg_components_rows<G> &of_tile = rows_of(tile);
    if constexpr (whole) {
      if (has(STG_ALIGNED_MASK)) {
        stg_bring_placed<G::threads, G::tile, layout::mask_pieces, stg_by_rows<layout::mask_pitch>>(
            to, (const E *)a.mask + begin, G::components - begin,
            [&](int r) { return of_tile.mask[r]; });
        return;
      }
    }
    stg_bring_rows<G::threads, G::tile, layout::mask_pieces, stg_by_rows<layout::mask_pitch>, whole,
                   E>(to, !whole && has(STG_ALIGNED_MASK), has_words(a.mask), [&](int r, int &of_row) {
      const long long at = of_tile.mask[r];
      of_row = at >= 0 ? G::components - begin : 0;
      return (const E *)a.mask + (at + begin);
    });
  }

  // Begin to bring a tile, if there is one, into its stage: a group.
  template <int Kind> __device__ __forceinline__ void bring(int tile) const {
    if (tile < tiles()) {
      const unsigned to = stage(tile), behind = to + layout::dy_bytes;
      bring_rows<G::out, layout::out_pieces, layout::out_pitch>(to, tile, a.dy, a.dy_stride, 0,
                                                                STG_ALIGNED_DY);
      if constexpr (Kind == STG_OF_DELTA) {
        bring_rows<G::in, layout::block_pieces, layout::block_pitch>(behind, tile, a.x, a.x_stride,
                                                                     begin, STG_ALIGNED_X);
      } else if constexpr (Kind == STG_OF_COMPONENTS) {
        bring_rows<G::in, layout::in_pieces, layout::in_pitch>(behind, tile, a.x, a.x_stride, 0,
                                                               STG_ALIGNED_X);
        if constexpr (G::mask == STG_MASK_ELEMENTS) {
          bring_mask<element>(behind + layout::x_bytes, tile);
        } else if constexpr (G::mask == STG_MASK_BYTES) {
          bring_mask<unsigned char>(behind + layout::x_bytes, tile);
        }
      }
    }
    stg_copy_commit();
  }

  // Find out about a tile's rows; to be read once the block has met.
  __device__ __forceinline__ void find(int tile) const {
    if (tile < tiles()) {
      rows[tile % known].find(a, top(tile), end);
    }
  }

  // What stays goes with the first tile.
  template <int Kind> __device__ __forceinline__ void start() const {
    for (int i = 0; i < G::stages; i++) {
      find(i);
    }
    __syncthreads();
    if constexpr (Kind == STG_OF_COMPONENTS) {
      bring_matrix<G::in, G::components, layout::in_columns, layout::block_pieces,
                   layout::block_pitch>(memory, a.v, 0, begin, STG_ALIGNED_V);
      bring_matrix<G::components, G::out, G::block, layout::out_pieces, layout::out_pitch>(
          memory + layout::u, a.u, begin, 0, STG_ALIGNED_U);
    }
#pragma unroll 1
    for (int i = 0; i < G::stages - 1; i++) {
      bring<Kind>(i);
    }
    if constexpr (Kind == STG_OF_COMPONENTS && operands::rounds) {
      round();
    }
  }

  // V and U as operands, once they are there; before the block meets.
  __device__ __forceinline__ void round() const {
    if constexpr (G::stages == 1) {
      stg_copy_commit();
    }
    stg_copy_wait_but<(G::stages > 1 ? G::stages - 2 : 0)>();
    __syncthreads();
    round_matrix<layout::in_columns, layout::block_pieces, layout::block_pitch>(memory);
    round_matrix<G::block, layout::out_pieces, layout::out_pitch>(memory + layout::u);
  }
  template <int Rows, int Pieces, int Pitch>
  __device__ __forceinline__ void round_matrix(unsigned at) const {
    stg_share_out<G::threads, Rows, Pieces>(
        [&](int r, int piece) { operands::round_piece(at + (unsigned)(r * Pitch + piece) * 16u); },
        stg_thread_here());
  }

  // x and dy of a tile as operands of t, g and their gradients, once this thread's copies have
  // ended; before the block meets. Where each thread brought the pieces that it rounds, it need not
  // wait for others. Delta's and bias' blocks take them as they are.
  template <int Kind> __device__ __forceinline__ void round_rows(int tile) const {
    if constexpr (Kind == STG_OF_COMPONENTS && operands::rounds) {
      constexpr bool whole = G::in % of_piece == 0 && G::out % of_piece == 0;
      if (!whole || !has(STG_ALIGNED_X) || !has(STG_ALIGNED_DY)) {
        __syncthreads();
      }
      round_matrix<G::tile, layout::out_pieces, layout::out_pitch>(stage(tile));
      round_matrix<G::tile, layout::in_pieces, layout::in_pitch>(stage(tile) + layout::dy_bytes);
    }
  }

  // ---- rows of 16-bit elements that came by words, into their places; true: the block has to meet
  // Tiles, blocks and spans begin at even rows and columns, so that a row's own parity says whether
  // it is late.

  template <int Rows, int Pieces, int Pitch>
  __device__ __forceinline__ bool settle_rows(unsigned at, const void *matrix, bool odd) const {
    if constexpr (sizeof(element) == 2) {
      if (odd && has_words(matrix)) {
        stg_settle_words<G::threads, Rows, Pieces, stg_by_rows<Pitch>>(
            at, [](int r) { return r % 2 != 0; });
        return true;
      }
    }
    return false;
  }
  template <int Kind> __device__ __forceinline__ bool settle(int tile) const {
    const unsigned dy = stage(tile), behind = dy + layout::dy_bytes;
    const bool odd_x = (a.x_stride & 1) != 0;
    bool is = settle_rows<G::tile, layout::out_pieces, layout::out_pitch>(dy, a.dy,
                                                                          (a.dy_stride & 1) != 0);
    if constexpr (Kind == STG_OF_DELTA) {
      is |= settle_rows<G::tile, layout::block_pieces, layout::block_pitch>(behind, a.x, odd_x);
    } else if constexpr (Kind == STG_OF_COMPONENTS) {
      is |= settle_rows<G::tile, layout::in_pieces, layout::in_pitch>(behind, a.x, odd_x);
      if constexpr (G::mask == STG_MASK_ELEMENTS && sizeof(element) == 2) {
        if ((a.mask_stride & 1) != 0 && has_words(a.mask)) {
          const stg_components_rows<G> &of_tile = rows_of(tile);
          stg_settle_words<G::threads, G::tile, layout::mask_pieces,
                           stg_by_rows<layout::mask_pitch>>(behind + layout::x_bytes, [&](int r) {
            return of_tile.is_live(r) && of_tile.mask[r] % 2 != 0;
          });
          is = true;
        }
      }
      if (tile == 0) { // V and U came with it
        is |= settle_rows<layout::in_columns, layout::block_pieces, layout::block_pitch>(
            memory, a.v, G::components % 2 != 0);
        is |= settle_rows<G::block, layout::out_pieces, layout::out_pitch>(memory + layout::u, a.u,
                                                                           G::out % 2 != 0);
      }
    }
    return is;
  }

  // A tile is there, for all; and the stages ahead of it are on their way.
  template <int Kind> __device__ __forceinline__ void meet(int tile) const {
    if constexpr (G::stages == 1) {
      __syncthreads();
      bring<Kind>(tile);
      stg_copy_wait_but<0>();
      round_rows<Kind>(tile);
      __syncthreads();
    } else {
      stg_copy_wait_but<G::stages - 2>();
      round_rows<Kind>(tile);
      __syncthreads();
      bring<Kind>(tile + G::stages - 1);
    }
    find(tile + G::stages);
    if (settle<Kind>(tile)) {
      __syncthreads();
    }
  }
};
