// advance.cuh: work=advance: at the end of a step, to the length of each sequence the rows of it
// that had room. A thread has a row.

struct stg_advance_args {
  stg_rows_args rows; // whose `len` is written
  stg_kv_args kv;
  unsigned on; // 0: nothing is done
  unsigned unused;
};
static_assert(sizeof(stg_advance_args) == 112, "codegen/rope_args.h has the same");

__device__ __forceinline__ void stg_advance_run(const stg_advance_args &a) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (a.on == 0 || row >= a.rows.rows) {
    stg_wait_for_earlier_launches();
    return;
  }
  const stg_row_entry entry = stg_row_entry_of(a.rows, row);
  stg_wait_for_earlier_launches();
  stg_let_next_launch_begin();
  if (entry.seq < 0) {
    return;
  }
  const stg_place place = stg_place_of(a.rows, entry, a.kv, true, a.kv.block_table != 0);
  if (place.fate == STG_ROW_LIVE) {
    // atomic, for rows of one sequence; a row that is at the length itself is its only one
    atomicAdd((int *)a.rows.len + place.seq, 1);
  }
}
