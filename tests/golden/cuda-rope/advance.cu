// launch: threads 128, rows_per_block 128

// rope: lengths of a cache at the end of a step
extern "C" __global__ void __launch_bounds__(128, 1)
stg_rope_advance(const __grid_constant__ stg_advance_args args) {
  stg_advance_run(args);
}
