// rope.cuh: work=rotate: a packed row split into its heads, Q and K turned by the angles of its
// position, and all of it stored where it belongs; or the way back of a gradient.
//
// A block has a span of one row. A head is worked on in items of two pieces, whose elements make
// pairs: piece i and the one half a head further, or neighbours. A piece is a chunk of 8 elements,
// or a single one where pairs do not come in whole chunks. An element is computed by one thread
// from its pair and the position alone, so bits depend on nothing else.
//
// The generated text supplies a struct G with the literal extents.

struct stg_rope_args {
  stg_rows_args rows;
  stg_kv_args kv;    // without a cache k and v are tensors as q is
  void *qkv;         // [rows, qkv_stride]
  void *q;           // [rows, heads, dim] or [heads, rows, dim], q_stride from the first to the next
  const float *inv_freq;  // [rot/2]
  const float *log_scale; // [rot/2], with xPos
  const float *table;     // [table_positions, 2, rot/2], cosines before sines
  stg_kv_words *words;    // or null
  long long qkv_stride, q_stride, k_stride, v_stride; // elements
  int table_positions;
  float xpos_base;
  unsigned spans;      // of a row
  unsigned span_items; // that a span has, but for the last one
  unsigned flags;
  unsigned unused;
};
static_assert(sizeof(stg_rope_args) == 208, "codegen/rope_args.h has the same");
#define STG_ALIGNED 1u // every address and stride by 16 bytes

#define STG_CONCAT 0       // [heads] [kv_heads] [kv_heads], each of dim
#define STG_GROUPED 1      // each KV head's K and V behind the heads that read it
#define STG_HEAD_FASTEST 2 // [dim, heads] [dim, kv_heads] [dim, kv_heads]

#define STG_Q 0
#define STG_K 1
#define STG_V 2

// ---- pieces ----

template <bool Wide, class D> struct stg_piece {
  typedef typename D::raw raw;
  static constexpr int elements = 8;
};
template <class D> struct stg_piece<false, D> {
  typedef typename D::element raw;
  static constexpr int elements = 1;
};

// A scalar as a tensor would hold it.
template <class D> __device__ __forceinline__ void stg_narrow_one(float x, unsigned short &e) {
  e = (unsigned short)(D::narrow2(x, 0.0f) & 0xffffu);
}
template <class D> __device__ __forceinline__ void stg_narrow_one(float x, unsigned &e) {
  e = __float_as_uint(x);
}
template <class D> __device__ __forceinline__ float stg_rounded(float x) {
  typename D::element e;
  stg_narrow_one<D>(x, e);
  return D::widen(e);
}

template <class D, class Raw>
__device__ __forceinline__ void stg_widen_piece(const Raw &r, float (&f)[8]) {
  stg_widen<D>(r, f);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_widen_piece(const Raw &r, float (&f)[1]) {
  f[0] = D::widen(r);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_narrow_piece(const float (&f)[8], Raw &r) {
  stg_narrow<D>(f, r);
}
template <class D, class Raw>
__device__ __forceinline__ void stg_narrow_piece(const float (&f)[1], Raw &r) {
  stg_narrow_one<D>(f[0], r);
}

// Elements that stand `step` apart.
template <class D>
__device__ __forceinline__ void stg_load_apart(const typename D::element *at, long long step,
                                               typename D::raw &r) {
  alignas(16) typename D::element e[8]; // read as whole words below
#pragma unroll
  for (int j = 0; j < 8; j++) {
    e[j] = at[j * step];
  }
  r = *(const typename D::raw *)e;
}
template <class D>
__device__ __forceinline__ void stg_load_apart(const typename D::element *at, long long step,
                                               typename D::element &r) {
  r = *at;
}
template <class D>
__device__ __forceinline__ void stg_store_apart(typename D::element *at, long long step,
                                                const typename D::raw &r) {
  const typename D::element *e = (const typename D::element *)&r;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    at[j * step] = e[j];
  }
}
template <class D>
__device__ __forceinline__ void stg_store_apart(typename D::element *at, long long step,
                                                const typename D::element &r) {
  *at = r;
}

// By its address alone the compiler does not know that it is no shared memory.
__device__ __forceinline__ void stg_store_global(uint4 *p, const stg_raw16 &r) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(r.w.x), "r"(r.w.y),
               "r"(r.w.z), "r"(r.w.w));
}
__device__ __forceinline__ void stg_store_global(uint4 *p, const stg_raw32 &r) {
  stg_store_global(p, stg_raw16{r.lo});
  stg_store_global(p + 1, stg_raw16{r.hi});
}

// A head somewhere: in a packed row or in a tensor.
template <class G> struct stg_home {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_piece<G::wide, data> piece;
  element *first;
  long long step; // from an element to the next

  // `Whole`: by 16 bytes, where elements follow each other.
  template <bool Whole>
  __device__ __forceinline__ void load(int at, typename piece::raw &r) const {
    if constexpr (Whole && G::wide) {
      if (step == 1) {
        stg_load_now((const uint4 *)(first + at * 8), r);
        return;
      }
    }
    stg_load_apart<data>(first + at * piece::elements * step, step, r);
  }
  template <bool Whole>
  __device__ __forceinline__ void store(int at, const typename piece::raw &r) const {
    if constexpr (Whole && G::wide) {
      if (step == 1) {
        stg_store_global((uint4 *)(first + at * 8), r);
        return;
      }
    }
    stg_store_apart<data>(first + at * piece::elements * step, step, r);
  }
};

// ---- angles ----

// What a row's pairs are turned by. The pairs of a chunk stand in two vectors of 4, and the first
// vectors of all chunks before the second ones: lanes that read neighbouring chunks at once then
// read neighbouring vectors.
template <class G> struct stg_angles {
  static constexpr int pairs = G::rot / 2;
  static constexpr int chunks = (pairs + 7) / 8;
  static constexpr int of_thread = (pairs + G::threads - 1) / G::threads;
  float4 cosine[2 * chunks], sine[2 * chunks];
  float4 q_scale[G::xpos ? 2 * chunks : 1], k_scale[G::xpos ? 2 * chunks : 1];

  static __device__ __forceinline__ float &at(float4 *vectors, int pair) {
    return ((float *)vectors)[(pair % 8 / 4 * chunks + pair / 8) * 4 + pair % 4];
  }
  static __device__ __forceinline__ void read(const float4 *vectors, int chunk, float (&f)[8]) {
    const float4 lo = vectors[chunk], hi = vectors[chunks + chunk];
    f[0] = lo.x, f[1] = lo.y, f[2] = lo.z, f[3] = lo.w;
    f[4] = hi.x, f[5] = hi.y, f[6] = hi.z, f[7] = hi.w;
  }
  static __device__ __forceinline__ void read(float4 *vectors, int pair, float (&f)[1]) {
    f[0] = at(vectors, pair);
  }

  // This thread's pairs: frequencies that no launch writes.
  static __device__ __forceinline__ void ask(const stg_rope_args &a, float (&inv)[of_thread]) {
#pragma unroll
    for (int k = 0; k < of_thread; k++) {
      const int i = threadIdx.x + k * G::threads;
      inv[k] = !G::table && i < pairs ? a.inv_freq[i] : 0.0f;
    }
  }

  // Set them for a row. All threads may read them behind the next barrier.
  __device__ __forceinline__ void set(const stg_rope_args &a, const float (&inv)[of_thread],
                                      int position, int centre) {
#pragma unroll
    for (int k = 0; k < of_thread; k++) {
      const int i = threadIdx.x + k * G::threads;
      if (i < pairs) {
        float s, c;
        if constexpr (G::table) {
          const float *row = a.table + (long long)position * (2 * pairs);
          c = row[i], s = row[pairs + i];
        } else {
          stg_math_sincos((float)position * inv[k], &s, &c);
        }
        at(G::swapped ? sine : cosine, i) = stg_rounded<typename G::trig>(c);
        at(G::swapped ? cosine : sine, i) = stg_rounded<typename G::trig>(s);
        if constexpr (G::xpos) {
          const float power = (float)(position - centre) / a.xpos_base;
          const float log_scale = a.log_scale[i];
          at(q_scale, i) = stg_rounded<typename G::trig>(stg_math_exp(power * log_scale));
          at(k_scale, i) = stg_rounded<typename G::trig>(stg_math_exp(-power * log_scale));
        }
      }
    }
  }
};

// Where the scale of xPos is 1: half the largest position that the call has of the sequence. A map
// that does not say it costs every block a look at all rows.
template <class G>
__device__ __forceinline__ int stg_centre(const stg_rope_args &a, const stg_row_entry &entry,
                                          int position) {
  __shared__ int largest;
  if (entry.pos == 0) {
    return position / 2; // the only row of its sequence
  }
  if (entry.largest != 0) {
    return *entry.largest / 2;
  }
  if (threadIdx.x == 0) {
    largest = position;
  }
  __syncthreads();
  int mine = position;
  for (int row = threadIdx.x; row < a.rows.rows; row += G::threads) {
    const stg_row_entry other = stg_row_entry_of(a.rows, row);
    if (other.seq == entry.seq) {
      const long long p = stg_row_position(a.rows, other);
      mine = stg_is_position(p) && p > mine ? (int)p : mine;
    }
  }
  atomicMax(&largest, mine);
  __syncthreads();
  return largest / 2;
}

// ---- turning ----

// Round to the tensors' type what eager rounds: every product.
template <class G, int N> __device__ __forceinline__ void stg_round_product(float (&f)[N]) {
  if constexpr (G::each_op) {
    typename stg_piece<N == 8, typename G::data>::raw r;
    stg_narrow_piece<typename G::data>(f, r);
    stg_widen_piece<typename G::data>(r, f);
  }
}

template <class G, int N>
__device__ __forceinline__ void stg_multiply(const float (&x)[N], const float (&y)[N],
                                             float (&to)[N]) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    to[j] = x[j] * y[j];
  }
  stg_round_product<G>(to);
}

// The pairs (x, y) of an item; back: the transpose of that. `x_scale` and `y_scale` are read with
// xPos alone. What crosses over to the other element has the scale of where it arrives.
template <class G, int N>
__device__ __forceinline__ void stg_turn(float (&x)[N], float (&y)[N], const float (&cosine)[N],
                                         const float (&sine)[N], const float (&x_scale)[N],
                                         const float (&y_scale)[N]) {
  float x_straight[N], y_straight[N], x_across[N], y_across[N];
  if constexpr (G::xpos && G::backward) {
    stg_multiply<G>(x, x_scale, x);
    stg_multiply<G>(y, y_scale, y);
  }
  stg_multiply<G>(x, cosine, x_straight);
  stg_multiply<G>(y, cosine, y_straight);
  stg_multiply<G>(x, sine, x_across);
  stg_multiply<G>(y, sine, y_across);
  if constexpr (G::xpos && !G::backward) {
    stg_multiply<G>(x_straight, x_scale, x_straight);
    stg_multiply<G>(y_straight, y_scale, y_straight);
    stg_multiply<G>(x_across, y_scale, x_across);
    stg_multiply<G>(y_across, x_scale, y_across);
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    x[j] = G::backward ? x_straight[j] + y_across[j] : x_straight[j] - y_across[j];
    y[j] = G::backward ? y_straight[j] - x_across[j] : y_straight[j] + x_across[j];
  }
}

// Where neighbours are pairs, two chunks hold x0 y0 x1 y1 ...: take them apart, put them together.
__device__ __forceinline__ void stg_unzip(float (&a)[8], float (&b)[8]) {
  const float y[8] = {a[1], a[3], a[5], a[7], b[1], b[3], b[5], b[7]};
  a[1] = a[2], a[2] = a[4], a[3] = a[6];
  a[4] = b[0], a[5] = b[2], a[6] = b[4], a[7] = b[6];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    b[j] = y[j];
  }
}
__device__ __forceinline__ void stg_zip(float (&a)[8], float (&b)[8]) {
  const float x[8] = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]};
  const float y[8] = {b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    a[2 * j] = x[j], a[2 * j + 1] = y[j];
    b[2 * j] = x[4 + j], b[2 * j + 1] = y[4 + j];
  }
}
__device__ __forceinline__ void stg_unzip(float (&a)[1], float (&b)[1]) {
}
__device__ __forceinline__ void stg_zip(float (&a)[1], float (&b)[1]) {
}

// ---- items ----

// Two pieces of a head, which are turned together or pass together.
template <class G> struct stg_item {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_piece<G::wide, data> piece;
  static constexpr int pieces = G::dim / piece::elements; // of a head
  int part, head; // of it
  int slot;       // that head's, among all of a packed row
  int unit;       // of the head
  typename piece::raw a, b;

  __device__ __forceinline__ void locate(int item) {
    slot = item / G::units;
    unit = item % G::units;
    if constexpr (G::layout == STG_GROUPED) {
      constexpr int of_group = G::heads / G::kv_heads;
      const int group = slot / (of_group + 2), within = slot % (of_group + 2);
      part = within < of_group ? STG_Q : within - of_group + STG_K;
      head = part == STG_Q ? group * of_group + within : group;
    } else {
      part = slot < G::heads ? STG_Q : slot < G::heads + G::kv_heads ? STG_K : STG_V;
      head = part == STG_Q ? slot : part == STG_K ? slot - G::heads : slot - G::heads - G::kv_heads;
    }
  }

  __device__ __forceinline__ bool is_turned() const {
    return unit < G::turned_units && part != STG_V;
  }
  // Pieces of the head that the item has. The second may lie behind the last one.
  __device__ __forceinline__ int first() const {
    return G::half && unit < G::turned_units ? unit : 2 * unit;
  }
  __device__ __forceinline__ int second() const {
    return G::half && unit < G::turned_units ? unit + G::turned_units : 2 * unit + 1;
  }
  __device__ __forceinline__ bool has_second() const {
    return pieces % 2 == 0 || second() < pieces;
  }

  __device__ __forceinline__ stg_home<G> packed(const stg_rope_args &args, int row) const {
    element *const at = (element *)args.qkv + row * args.qkv_stride;
    if constexpr (G::layout == STG_HEAD_FASTEST) {
      return {at + (slot - head) * G::dim + head, part == STG_Q ? G::heads : G::kv_heads};
    }
    return {at + slot * G::dim, 1};
  }
  __device__ __forceinline__ stg_home<G> unpacked(const stg_rope_args &args, int row,
                                                  const stg_place &place) const {
    element *const at = (element *)(part == STG_Q   ? args.q
                                    : part == STG_K ? args.kv.k
                                                    : args.kv.v);
    if (G::cached && part != STG_Q) {
      return {at + place.offset + head * args.kv.head_stride, 1};
    }
    const long long stride = part == STG_Q   ? args.q_stride
                             : part == STG_K ? args.k_stride
                                             : args.v_stride;
    return {at + (G::heads_first ? head * stride + (long long)row * G::dim
                                 : row * stride + head * G::dim),
            1};
  }

  template <bool Whole> __device__ __forceinline__ void load(const stg_home<G> &from) {
    from.template load<Whole>(first(), a);
    if (has_second()) {
      from.template load<Whole>(second(), b);
    }
  }
  template <bool Whole> __device__ __forceinline__ void store(const stg_home<G> &to) const {
    to.template store<Whole>(first(), a);
    if (has_second()) {
      to.template store<Whole>(second(), b);
    }
  }
  __device__ __forceinline__ void clear() {
    a = typename piece::raw{};
    b = typename piece::raw{};
  }

  __device__ __forceinline__ void turn(stg_angles<G> &angles) {
    constexpr int n = piece::elements;
    constexpr bool zipped = G::wide && !G::half;
    float x[n], y[n], cosine[n], sine[n], x_scale[n], y_scale[n];
    stg_widen_piece<data>(a, x);
    stg_widen_piece<data>(b, y);
    if constexpr (zipped) {
      stg_unzip(x, y);
    }
    angles.read(angles.cosine, unit, cosine);
    angles.read(angles.sine, unit, sine);
    if constexpr (G::xpos) {
      float4 *const scale = part == STG_K ? angles.k_scale : angles.q_scale;
      // the scale of an element is that of frequency element % (rot/2), or that of its pair
      angles.read(scale, G::scale_by_element ? first() % G::turned_units : unit, x_scale);
      angles.read(scale, G::scale_by_element ? second() % G::turned_units : unit, y_scale);
      if constexpr (zipped && G::scale_by_element) {
        stg_unzip(x_scale, y_scale);
      }
    }
    stg_turn<G>(x, y, cosine, sine, x_scale, y_scale);
    if constexpr (zipped) {
      stg_zip(x, y);
    }
    stg_narrow_piece<data>(x, a);
    stg_narrow_piece<data>(y, b);
  }
};

// A block's span of a row.
template <class G> struct stg_span {
  const stg_rope_args &a;
  int row, first, end; // its items
  stg_place place;
  bool has_angles; // else what goes to tensors is zeros

  __device__ __forceinline__ stg_span(const stg_rope_args &args) : a(args) {
    row = blockIdx.x / a.spans;
    first = blockIdx.x % a.spans * a.span_items;
    end = first + (int)a.span_items < G::items ? first + (int)a.span_items : G::items;
  }

  // Item j of this thread, which may lie behind the last one.
  __device__ __forceinline__ int item(int j) const {
    return first + j * G::threads + (int)threadIdx.x;
  }

  template <bool Whole> __device__ __forceinline__ void load(stg_item<G> &item) const {
    item.template load<Whole>(G::backward ? item.unpacked(a, row, place) : item.packed(a, row));
  }

  // What `position` makes of the row.
  __device__ __forceinline__ void settle(const stg_row_entry &entry, long long position) {
    place = stg_place_at(entry, position, a.kv, G::cached, G::paged);
    has_angles = place.fate != STG_ROW_BAD;
    if (G::table && place.position >= a.table_positions) {
      has_angles = false;
      place.fate = G::cached ? place.fate : STG_ROW_BAD;
    }
    if (!G::backward && place.fate != STG_ROW_LIVE && first == 0 && threadIdx.x == 0) {
      stg_refuse(a.words, row, place);
    }
  }

  template <bool Whole>
  __device__ __forceinline__ void finish(stg_item<G> &item, stg_angles<G> &angles) const {
    if (G::cached && place.fate != STG_ROW_LIVE && item.part != STG_Q) {
      return;
    }
    if (!has_angles) {
      item.clear();
    } else if (item.is_turned()) {
      item.turn(angles);
    }
    item.template store<Whole>(G::backward ? item.packed(a, row) : item.unpacked(a, row, place));
  }
};

// With aligned rows all of a thread's items are asked for before it waits for the row's angles.
// Others go one after the other.
template <class G> __device__ __forceinline__ void stg_rope_run(const stg_rope_args &a) {
  __shared__ stg_angles<G> angles;
  const bool whole = !G::wide || (a.flags & STG_ALIGNED) != 0;
  stg_span<G> span(a);
  const stg_row_entry entry = stg_row_entry_of(a.rows, span.row);
  float inv[stg_angles<G>::of_thread];
  stg_angles<G>::ask(a, inv);
  stg_wait_for_earlier_launches();
  if (entry.seq < 0) {
    return;
  }
  const long long position = stg_row_position(a.rows, entry);
  stg_item<G> items[G::turns];
  if (whole) {
#pragma unroll
    for (int j = 0; j < G::turns; j++) {
      if (span.item(j) < span.end) {
        items[j].locate(span.item(j));
        span.template load<true>(items[j]);
      }
    }
  }
  stg_let_next_launch_begin();
  span.settle(entry, position);
  if (span.has_angles) {
    const int at = span.place.position;
    angles.set(a, inv, at, G::xpos ? stg_centre<G>(a, entry, at) : 0);
  }
  __syncthreads();
  if (whole) {
#pragma unroll
    for (int j = 0; j < G::turns; j++) {
      if (span.item(j) < span.end) {
        span.template finish<true>(items[j], angles);
      }
    }
    return;
  }
#pragma unroll 1
  for (int j = 0; j < G::turns; j++) {
    if (span.item(j) < span.end) {
      stg_item<G> item;
      item.locate(span.item(j));
      span.template load<false>(item);
      span.template finish<false>(item, angles);
    }
  }
}
