// record.cuh: which record a row has, whether it acts there, and where its chain lies.

// The chain of a record for the layer of the launch.
template <class G>
__device__ __forceinline__ const unsigned *stg_chain_of(const stg_steer_args &a, int record) {
  constexpr int head = G::windows || G::counters ? 1 : 0;
  return (const unsigned *)(a.records + record + head) +
         (unsigned long long)a.layer * a.chain_words;
}

// Whether a row lies in the window of its record. Bounds below 0 count from the end of the prompt.
__device__ __forceinline__ bool stg_in_window(const stg_steer_args &a, int row, int record) {
  const uint4 window = __ldg(a.records + record);
  const int2 places = ((const int2 *)a.row_map)[1];
  const int *place = a.row_map + places.x + (places.y == 1 ? 2 : 1) * (long long)row;
  const int position = place[0], given = place[places.y];
  const int prompt_len = given > 0 ? given : 0; // a sum below stays within 32 bits
  int from = (int)window.y, to = (int)window.z;
  from += from < 0 ? prompt_len : 0;
  from = from < 0 ? 0 : from; // no position is below
  to += to < 0 ? prompt_len : 0;
  const unsigned phase = position < prompt_len ? STG_PROMPT : STG_GENERATION;
  return (window.x & phase) != 0 && position >= from && position < to;
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
