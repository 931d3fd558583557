// launch: threads 256, rows_per_block 8, shared 98752

// prover: states of up to 8 atoms, up to 128 children of each
// a policy of 256 to 256 and 64 blocks, in f32
struct stg_geometry {
  static constexpr int atoms = 8;                 // of a state
  static constexpr int children = 128;            // of a derivation
  static constexpr int embed = 256;               // elements of an atom
  static constexpr int hidden = 256;              // elements on the way
  static constexpr int blocks = 64;               // layers that add to what came in
  static constexpr int products = 0;              // of TF32 for one; 0: in float32
  static constexpr int embed_rows = 256;          // inputs of the first layer
  static constexpr int hidden_rows = 256;         // inputs of the others
  static constexpr int shared_bytes = 98752;      // of a block
  static constexpr int scratch_bytes = 14848;     // of a slot
  static __device__ __forceinline__ float scale() {
    return __uint_as_float(0x3d800000u); // 0.0625, 1 / sqrt(embed)
  }
};

extern "C" __global__ void __launch_bounds__(256, 2)
stg_prover(const __grid_constant__ stg_prover_args args) {
  stg_prover_run<stg_geometry>(args);
}
