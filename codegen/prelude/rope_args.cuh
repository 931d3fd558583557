// rope_args.cuh: what work=rotate is given, and how a packed row stands. codegen/rope_args.h and
// codegen/rope.h say the same to the host; they change together.

struct stg_rope_args {
  stg_rows_args rows;
  stg_kv_args kv;    // without a cache k and v are tensors as q is; v null: V stays in the packed row
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
