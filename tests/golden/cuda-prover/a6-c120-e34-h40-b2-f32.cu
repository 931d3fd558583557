// launch: threads 256, rows_per_block 8, shared 98752

// prover: states of up to 6 atoms, up to 120 children of each
// a policy of 34 to 40 and 2 blocks, in f32
struct stg_geometry {
  static constexpr int atoms = 6;                 // of a state
  static constexpr int children = 120;            // of a derivation
  static constexpr int embed = 34;                // elements of an atom
  static constexpr int hidden = 40;               // elements on the way
  static constexpr int blocks = 2;                // layers that add to what came in
  static constexpr int products = 0;              // of TF32 for one; 0: in float32
  static constexpr int embed_rows = 40;           // inputs of the first layer
  static constexpr int hidden_rows = 40;          // inputs of the others
  static constexpr int shared_bytes = 98752;      // of a block
  static constexpr int scratch_bytes = 14080;     // of a slot
  static __device__ __forceinline__ float scale() {
    return __uint_as_float(0x3e2f9d53u); // 0.171498582, 1 / sqrt(embed)
  }
};

extern "C" __global__ void __launch_bounds__(256, 2)
stg_prover(const __grid_constant__ stg_prover_args args) {
  stg_prover_run<stg_geometry>(args);
}
