// record.cuh: which row is a block's, which record it has, and where that record's chain lies.

// The chain of a record for the layer of the launch.
__device__ __forceinline__ const unsigned *stg_chain_of(const stg_steer_args &a, int record) {
  return (const unsigned *)(a.records + record) + (unsigned long long)a.layer * a.chain_words;
}

// A map that was written on the device holds slots: translate, and report what is no slot.
__device__ __forceinline__ int stg_translate(const stg_steer_args &a, int slot) {
  if (slot >= 0 && (unsigned)slot < a.slots) {
    return a.table[slot];
  }
  if (slot >= 0 || slot < STG_PADDING) {
    if (threadIdx.x == 0) {
      a.report[1] = (unsigned)slot;
      __threadfence_system(); // the host reads the slot when it sees the count
      atomicAdd(a.report, 1u);
    }
    return STG_UNSTEERED;
  }
  return slot;
}

// The record of a row; STG_PADDING beyond the map's last one. Its entry is asked for before the map
// has said how many there are.
__device__ __forceinline__ int stg_record_of(const stg_steer_args &a, int row) {
  const int2 header = *(const int2 *)a.row_map;
  const int entry = a.row_map[STG_MAP_HEADER + row];
  if (row >= header.y) {
    return STG_PADDING;
  }
  return header.x != 0 ? stg_translate(a, entry) : entry;
}
