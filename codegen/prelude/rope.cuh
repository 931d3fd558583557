// rope.cuh: work=rotate: a packed row split into its heads, Q and K turned by the angles of its
// position, and all of it stored where it belongs; or the way back of a gradient.
//
// A block has a span of one row. A head is worked on in items of two pieces, whose elements make
// pairs: piece i and the one half a head further, or neighbours. A piece is 16 bytes of
// elements, or a single one where pairs do not come in whole pieces. An element is computed by one
// thread from its pair and the position alone, so bits depend on nothing else.
//
// Without a tensor for it V stays where it is: its items, the last ones of a row but in groups, are
// left out.
//
// The generated text supplies a struct G with the literal extents.

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

  // Unsigned, and 32 bits wide for as long as they go: that is half the instructions.
  __device__ __forceinline__ void locate(unsigned item) {
    slot = item / (unsigned)G::units;
    unit = item % (unsigned)G::units;
    if constexpr (G::layout == STG_GROUPED) {
      constexpr unsigned of_group = G::heads / G::kv_heads;
      const unsigned group = slot / (of_group + 2), within = slot % (of_group + 2);
      part = within < of_group ? STG_Q : (int)(within - of_group) + STG_K;
      head = part == STG_Q ? group * of_group + within : group;
    } else {
      part = slot < G::heads ? STG_Q : slot < G::heads + G::kv_heads ? STG_K : STG_V;
      head = part == STG_Q ? slot : part == STG_K ? slot - G::heads : slot - G::heads - G::kv_heads;
    }
  }

  __device__ __forceinline__ bool is_turned() const {
    return unit < G::turned_units && part != STG_V;
  }
  // The item's first piece in its head, and how far ahead the second one is, which may lie behind
  // the last one of the head.
  __device__ __forceinline__ bool is_split() const {
    return G::half && (G::turned_units == G::units || unit < G::turned_units);
  }
  __device__ __forceinline__ int first() const {
    return is_split() ? unit : 2 * unit;
  }
  __device__ __forceinline__ int ahead() const {
    return is_split() ? G::turned_units : 1;
  }
  __device__ __forceinline__ bool has_second() const {
    return pieces % 2 == 0 || first() + ahead() < pieces;
  }

  __device__ __forceinline__ stg_home<G> packed(const stg_rope_args &args, int row) const {
    element *const at = (element *)args.qkv + row * args.qkv_stride;
    const unsigned within = first() * piece::elements;
    if constexpr (G::layout == STG_HEAD_FASTEST) {
      const unsigned step = part == STG_Q ? G::heads : G::kv_heads;
      return {at + (unsigned)((slot - head) * G::dim + head + within * step), (int)step};
    }
    return {at + (unsigned)(slot * G::dim + within), 1};
  }
  __device__ __forceinline__ stg_home<G> unpacked(const stg_rope_args &args, int row,
                                                  const stg_place &place) const {
    element *const at = (element *)(part == STG_Q   ? args.q
                                    : part == STG_K ? args.kv.k
                                                    : args.kv.v);
    const unsigned within = first() * piece::elements;
    if (G::cached && part != STG_Q) {
      return {at + (place.offset + head * args.kv.head_stride) + within, 1};
    }
    const long long stride = part == STG_Q   ? args.q_stride
                             : part == STG_K ? args.k_stride
                                             : args.v_stride;
    if constexpr (G::heads_first) {
      return {at + (head * stride + (long long)row * G::dim) + within, 1};
    }
    return {at + row * stride + (unsigned)(head * G::dim + within), 1};
  }

  template <bool Whole> __device__ __forceinline__ void load(const stg_home<G> &from) {
    from.template load<Whole>(0, a);
    if (has_second()) {
      from.template load<Whole>(ahead(), b);
    }
  }
  template <bool Whole> __device__ __forceinline__ void store(const stg_home<G> &to) const {
    to.template store<Whole>(0, a);
    if (has_second()) {
      to.template store<Whole>(ahead(), b);
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
      angles.read(scale, G::scale_by_element ? (first() + ahead()) % G::turned_units : unit,
                  y_scale);
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

// A block's span of a row: the first spans of all rows, then the second ones, so that no block has to
// divide.
template <class G> struct stg_span {
  const stg_rope_args &a;
  int row, first, end; // its items
  stg_place place;
  bool has_angles; // else what goes to tensors is zeros

  __device__ __forceinline__ bool v_stays() const {
    if constexpr (G::cached) {
      return false;
    }
    return a.kv.v == nullptr;
  }
  // An item between others that is left out.
  __device__ __forceinline__ bool stays(const stg_item<G> &item) const {
    if constexpr (G::layout == STG_GROUPED) {
      return item.part == STG_V && v_stays();
    }
    return false;
  }

  __device__ __forceinline__ stg_span(const stg_rope_args &args) : a(args) {
    row = blockIdx.x;
    first = 0;
    for (unsigned span = 1; span < a.spans && row >= a.rows.rows; span++) {
      row -= a.rows.rows;
      first += (int)a.span_items;
    }
    constexpr int of_v = G::layout == STG_GROUPED ? 0 : G::kv_heads * G::units;
    const int items = v_stays() ? G::items - of_v : G::items;
    end = first + (int)a.span_items < items ? first + (int)a.span_items : items;
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
  stg_item<G> items[G::turns];
  if (whole) {
#pragma unroll
    for (int j = 0; j < G::turns; j++) {
      if (span.item(j) < span.end) {
        items[j].locate(span.item(j));
        if (!span.stays(items[j])) {
          span.template load<true>(items[j]);
        }
      }
    }
  }
  // behind the items: the compiler has it wait for the position at once
  const long long position = stg_row_position(a.rows, entry);
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
      if (span.item(j) < span.end && !span.stays(items[j])) {
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
      if (!span.stays(item)) {
        span.template load<false>(item);
        span.template finish<false>(item, angles);
      }
    }
  }
}
