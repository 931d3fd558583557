// components_layout.cuh: where work=apply has what in shared memory.

// How shared memory is laid out, in bytes. codegen/components_extents.c counts the same.
template <class G> struct stg_components_layout {
  typedef stg_operands<typename G::data> operands;
  static constexpr int of_piece = operands::of_piece;
  static constexpr bool in_place = G::mask == STG_MASK_ELEMENTS; // s takes the place of the mask
  static constexpr int in_columns = stg_round_up(G::in, 16);
  static constexpr int out_columns = G::warps_n * G::warp_columns;
  static constexpr int in_pieces = in_columns / of_piece, out_pieces = out_columns / of_piece;
  static constexpr int chunk_pieces = G::chunk / of_piece;
  static constexpr int mask_pieces = in_place ? chunk_pieces : G::chunk / 16;

  static constexpr int in_pitch = stg_pitch_of(in_pieces);
  static constexpr int s_pitch = stg_pitch_of(chunk_pieces);
  static constexpr int mask_pitch = stg_pitch_of(mask_pieces);
  static constexpr int first_pitch =
      G::turned ? stg_pitch_of(in_pieces) : operands::pitch_by_k(chunk_pieces);
  static constexpr int second_pitch =
      G::turned ? stg_pitch_of(chunk_pieces) : operands::pitch_by_k(out_pieces);
  static constexpr int delta_pitch =
      G::turned ? operands::pitch_by_k(out_pieces) : stg_pitch_of(chunk_pieces);

  static constexpr int first_rows = G::turned ? G::chunk : in_columns;
  static constexpr int second_rows = G::turned ? out_columns : G::chunk;
  static constexpr int delta_rows = G::turned ? G::chunk : out_columns;
  static constexpr int first_pieces = G::turned ? in_pieces : chunk_pieces;
  static constexpr int second_pieces = G::turned ? chunk_pieces : out_pieces;
  static constexpr int delta_pieces = G::turned ? out_pieces : chunk_pieces;
  typedef stg_by_rows<in_pitch> rows_place;
  typedef stg_by_rows<first_pitch> first_place;
  typedef stg_by_rows<second_pitch> second_place;
  typedef stg_by_rows<delta_pitch> delta_place;
  typedef stg_by_rows<mask_pitch> mask_place;

  static constexpr int first_bytes = first_rows * first_pitch * 16;
  static constexpr int second_bytes = second_rows * second_pitch * 16;
  static constexpr int delta_bytes = G::delta ? delta_rows * delta_pitch * 16 : 0;
  static constexpr int mask_bytes = G::mask == STG_MASK_NONE ? 0 : G::tile * mask_pitch * 16;
  static constexpr int chunk_bytes = first_bytes + second_bytes + mask_bytes;
  static constexpr int stage_bytes = chunk_bytes > delta_bytes ? chunk_bytes : delta_bytes;
  static constexpr int in_bytes = G::tile * in_pitch * 16;
  static constexpr int s_bytes = in_place || G::own ? 0 : G::tile * s_pitch * 16;
  // what a warp has of the result of 16 bits, 16 rows at a time, takes the place of all else
  static constexpr int strip_pieces = G::warp_columns / 8;
  static constexpr int strip_bytes = 16 * stg_pitch_of(strip_pieces) * 16;
  static constexpr int strips_bytes = G::threads / STG_LANES * strip_bytes;
  static constexpr int bytes = in_bytes + s_bytes + G::stages * stage_bytes;
  static_assert(bytes == G::shared_bytes, "codegen/components_extents.c has the same");
  static_assert(strips_bytes <= bytes, "there is room for the result");
};
