// launch: threads 128, rows_per_block 1

// rope: heads of 10 f32 from one order to the other
struct stg_geometry {
  typedef stg_f32::element element;
  static constexpr int dim = 10;                  // elements of a head
  static constexpr int threads = 128;             // of a block
  static constexpr int turns = 4;                 // units of a thread on their way
};

extern "C" __global__ void __launch_bounds__(128, 12)
stg_rope_transpose(const __grid_constant__ stg_transpose_args args) {
  stg_transpose_run<stg_geometry>(args);
}
