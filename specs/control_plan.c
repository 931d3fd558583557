/*
 * control_plan.c: the directions of a control vector, block for block.
 *
 * Messages begin with the file's name as the caller gave it and end with the remedy. Must not know
 * how a direction is applied.
 */
#include "specs/control_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "specs/tensor_layers.h"

#define NAME_CHARS 64
#define SHIFTED_CHARS 64
#define MAX_RANGES 8 /* that a note lists */

/* Where the parts of the plan are worked out. */
struct planner {
  const struct stg_tensor_file *file;
  const struct stg_control_use *use;
  struct stg_arena *arena;
  struct stg_layer_map map;
  struct stg_control_plan plan;
  struct stg_control_direction *at; /* plan.at, while it is filled */
  bool *zero;                       /* [layers] */
};

/* What a direction is called: "direction.7", "row 7", "layer 7". */
static const char *name_of(const struct planner *planner, int32_t number, char *name, size_t size) {
  if (planner->use->rows != NULL) {
    snprintf(name, size, "row %d", (int)number);
  } else if (strcmp(planner->map.pattern, STG_LAYER_MARK) == 0 ||
             !stg_layer_name(planner->map.pattern, number, name, size)) {
    snprintf(name, size, "layer %d", (int)number);
  }
  return name;
}

static stg_status map_layers(struct planner *planner, stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  if (use->rows == NULL) {
    return stg_layers_match(planner->file,
                            use->pattern != NULL ? use->pattern : STG_CONTROL_PATTERN,
                            planner->arena, &planner->map, reterr);
  }
  const size_t rows = stg_tensor_rows(use->rows);
  if (rows > STG_LAYER_MAX + 1) {
    return stg_error_set(reterr, STG_E_FORMAT, "'%s': %zu rows, at most %d are layers", use->name,
                         rows, STG_LAYER_MAX + 1);
  }
  planner->map = (struct stg_layer_map){.last = (int32_t)rows - 1, .present = rows};
  return STG_OK;
}

static stg_status check_tensor(const struct planner *planner, const struct stg_tensor_info *tensor,
                               stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  const struct stg_tensor_info *readable = NULL;
  char shape[STG_TENSOR_SHAPE_BYTES];
  const uint32_t n_dims = use->rows != NULL ? 2 : 1;
  if (tensor->n_dims == n_dims && tensor->shape[n_dims - 1] == use->hidden_size) {
    return stg_tensor_find(planner->file, tensor->name, &readable, reterr);
  }
  stg_tensor_print_shape(tensor, shape);
  return stg_error_set(reterr, STG_E_FORMAT,
                       "'%s': tensor '%.*s' has shape %s; needed: [%s%" PRId64
                       "], by geometry.hidden_size",
                       use->name, NAME_CHARS, tensor->name, shape,
                       use->rows != NULL ? "layers, " : "", use->hidden_size);
}

/* The direction with a number of the file; no tensor where it has none. */
static struct stg_control_direction direction(const struct planner *planner, int32_t number) {
  const struct stg_layer_map *map = &planner->map;
  struct stg_control_direction none = {0};
  if (map->present == 0 || number < map->first || number > map->last) {
    return none;
  }
  if (planner->use->rows != NULL) {
    return (struct stg_control_direction){planner->use->rows, (size_t)number};
  }
  int32_t index = map->tensor_of[number];
  return index < 0 ? none : (struct stg_control_direction){&planner->file->tensors[index], 0};
}

static stg_status check_tensors(const struct planner *planner, stg_error *reterr) {
  stg_status status = STG_OK;
  if (planner->use->rows != NULL) {
    return check_tensor(planner, planner->use->rows, reterr);
  }
  for (int32_t i = planner->map.first; status == STG_OK && i <= planner->map.last; i++) {
    const struct stg_tensor_info *tensor = direction(planner, i).tensor;
    if (tensor != NULL) {
      status = check_tensor(planner, tensor, reterr);
    }
  }
  return status;
}

static stg_status note(struct planner *planner, struct stg_strbuf *text, stg_error *reterr) {
  stg_status status = stg_strbuf_status(text, reterr);
  if (status == STG_OK) {
    planner->plan.notes[planner->plan.n_notes++] =
        stg_arena_strdup(planner->arena, stg_strbuf_text(text));
    status = stg_arena_status(planner->arena, reterr);
  }
  stg_strbuf_finish(text);
  return status;
}

/* Append the blocks of [first, last] of which `is` says so: "1 to 9, 12"; how many there are. */
static size_t list_blocks(const struct planner *planner, int32_t first, int32_t last,
                          bool (*is)(const struct planner *planner, int32_t block),
                          struct stg_strbuf *out) {
  size_t n = 0;
  size_t n_ranges = 0;
  for (int32_t block = first; block <= last; block++) {
    if (!is(planner, block)) {
      continue;
    }
    int32_t end = block;
    while (end < last && is(planner, end + 1)) {
      end++;
    }
    n += (size_t)(end - block + 1);
    if (n_ranges++ == MAX_RANGES) {
      stg_strbuf_str(out, ", ...");
    } else if (n_ranges <= MAX_RANGES) {
      stg_strbuf_printf(out, n_ranges > 1 ? ", %d" : "%d", (int)block);
    }
    if (end > block && n_ranges <= MAX_RANGES) {
      stg_strbuf_printf(out, " to %d", (int)end);
    }
    block = end;
  }
  return n;
}

static bool is_absent(const struct planner *planner, int32_t block) {
  return direction(planner, block - planner->use->layer_shift).tensor == NULL;
}

static bool is_zero(const struct planner *planner, int32_t block) {
  return planner->zero[block];
}

static bool is_outside(const struct planner *planner, int32_t number) {
  const int32_t block = number + planner->use->layer_shift;
  return direction(planner, number).tensor != NULL &&
         (block < planner->plan.first_block || block > planner->plan.last_block);
}

/* The range, and that no direction is beyond the model unless the user cut the range. */
static stg_status choose_range(struct planner *planner, stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  const struct stg_layer_map *map = &planner->map;
  char name[NAME_CHARS];
  const int32_t first = stg_control_by_convention(use) ? STG_CONTROL_FIRST_BLOCK : 0;
  planner->plan.first_block = use->first_block >= 0 ? use->first_block : first;
  planner->plan.last_block = use->last_block >= 0 ? use->last_block : use->layers - 1;
  if (planner->plan.first_block > planner->plan.last_block) {
    return stg_error_set(
        reterr, STG_E_FORMAT, "'%s': no block from %d to %d; geometry.layers is %d%s", use->name,
        (int)planner->plan.first_block, (int)planner->plan.last_block, (int)use->layers,
        use->last_block < 0 ? ", give the number of the model's blocks" : "");
  }
  const int32_t beyond = map->last + use->layer_shift;
  if (map->present > 0 && beyond >= use->layers && use->last_block < 0) {
    char shifted[SHIFTED_CHARS] = "";
    if (use->layer_shift != 0) {
      snprintf(shifted, sizeof shifted, ", which layer_shift puts at block %d", (int)beyond);
    }
    return stg_error_set(reterr, STG_E_FORMAT,
                         "'%s' has %s%s, but the last block is %d; is it of a larger model? A "
                         "last_layer leaves it out",
                         use->name, name_of(planner, map->last, name, sizeof name), shifted,
                         (int)(use->layers - 1));
  }
  return STG_OK;
}

/* A range that was asked for has a direction for each block, up to the ends that were given. */
static stg_status check_range(const struct planner *planner, stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  const struct stg_layer_map *map = &planner->map;
  const int32_t first = planner->plan.first_block;
  const int32_t last = planner->plan.last_block;
  const int32_t has_first = map->first + use->layer_shift;
  const int32_t has_last = map->last + use->layer_shift;
  char name[NAME_CHARS];
  int32_t n = 0;
  for (int32_t block = first; block <= last; block++) {
    n += !is_absent(planner, block);
  }
  if (n == 0 && map->present == 0) {
    return use->pattern != NULL
               ? stg_error_set(reterr, STG_E_FORMAT,
                               "'%s' has no tensor '%.*s' with a layer's number for {}; see "
                               "'steergraph vectors ls'",
                               use->name, NAME_CHARS, use->pattern)
               : stg_error_set(reterr, STG_E_FORMAT,
                               "'%s' has no direction; see 'steergraph vectors ls'", use->name);
  }
  if (n == 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "'%s' has no direction in blocks %d to %d (it has %d to %d)", use->name,
                         (int)first, (int)last, (int)has_first, (int)has_last);
  }
  if (use->first_block < 0 && use->last_block < 0) {
    return STG_OK;
  }
  const int32_t from = use->first_block >= 0 || first > has_first ? first : has_first;
  const int32_t to = use->last_block >= 0 || last < has_last ? last : has_last;
  for (int32_t block = from; block <= to; block++) {
    if (is_absent(planner, block)) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "'%s' has no %s, and blocks %d to %d were asked for; narrow the range, "
                           "or leave last_layer out",
                           use->name, name_of(planner, block - use->layer_shift, name, sizeof name),
                           (int)first, (int)last);
    }
  }
  return STG_OK;
}

/* Fill the blocks of the range; a zero direction acts nowhere. */
static stg_status fill_blocks(struct planner *planner, stg_error *reterr) {
  const size_t layers = (size_t)planner->use->layers;
  planner->at = stg_arena_alloc(planner->arena, layers, sizeof *planner->at);
  planner->zero = stg_arena_alloc(planner->arena, layers, sizeof *planner->zero);
  stg_status status = stg_arena_status(planner->arena, reterr);
  size_t n_acting = 0;
  for (int32_t block = planner->plan.first_block;
       status == STG_OK && block <= planner->plan.last_block; block++) {
    struct stg_control_direction from = direction(planner, block - planner->use->layer_shift);
    if (from.tensor == NULL) {
      continue;
    }
    planner->zero[block] = stg_tensor_row_facts(from.tensor, from.row).zero;
    if (!planner->zero[block]) {
      planner->at[block] = from;
      n_acting++;
    }
  }
  planner->plan.at = planner->at;
  if (status == STG_OK && n_acting == 0) {
    return stg_error_set(
        reterr, STG_E_FORMAT, "'%s': all directions in blocks %d to %d are zero; remove the entry",
        planner->use->name, (int)planner->plan.first_block, (int)planner->plan.last_block);
  }
  return status;
}

static stg_status note_blocks(struct planner *planner, stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  const struct stg_layer_map *map = &planner->map;
  const int32_t first = planner->plan.first_block;
  const int32_t last = planner->plan.last_block;
  stg_status status = STG_OK;
  struct stg_strbuf list = {0};
  size_t n = list_blocks(planner, first, last, is_absent, &list);
  if (n > 0) {
    struct stg_strbuf text = {0};
    const int32_t begin = map->first + use->layer_shift;
    stg_strbuf_printf(&text, "%s has %d to %d: block%s %s %s not steered", use->name,
                      (int)(begin < 0 ? 0 : begin), (int)(map->last + use->layer_shift),
                      n == 1 ? "" : "s", stg_strbuf_text(&list), n == 1 ? "is" : "are");
    status = note(planner, &text, reterr);
  }
  stg_strbuf_finish(&list);
  n = list_blocks(planner, map->first, map->last, is_outside, &list);
  if (status == STG_OK && n > 0) {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text, "%s: direction%s %s", use->name, n == 1 ? "" : "s",
                      stg_strbuf_text(&list));
    if (use->layer_shift != 0) {
      stg_strbuf_printf(&text, ", moved by layer_shift %d,", (int)use->layer_shift);
    }
    stg_strbuf_printf(&text,
                      use->first_block < 0 && use->last_block < 0
                          ? " %s outside blocks %d to %d"
                          : " %s outside first_layer %d to last_layer %d",
                      n == 1 ? "is" : "are", (int)first, (int)last);
    status = note(planner, &text, reterr);
  }
  stg_strbuf_finish(&list);
  n = list_blocks(planner, first, last, is_zero, &list);
  if (status == STG_OK && n > 0) {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text,
                      n == 1 ? "%s: the direction at block %s is zero: that block is not steered"
                             : "%s: directions at blocks %s are zero: those blocks are not steered",
                      use->name, stg_strbuf_text(&list));
    status = note(planner, &text, reterr);
  }
  stg_strbuf_finish(&list);
  return status;
}

static stg_status note_words(struct planner *planner, stg_error *reterr) {
  const struct stg_control_use *use = planner->use;
  const struct stg_control_facts *facts = &planner->plan.facts;
  stg_status status = STG_OK;
  struct stg_strbuf hint = {0};
  if (use->model == NULL && stg_control_print_fact(facts, STG_CONTROL_MODEL, use->name, &hint)) {
    status = note(planner, &hint, reterr);
  }
  if (status == STG_OK && facts->layer_count >= 0 &&
      facts->layer_count != (int64_t)planner->map.present) {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text, "%s says layer_count %" PRId64 ", has %zu directions", use->name,
                      facts->layer_count, planner->map.present);
    status = note(planner, &text, reterr);
  }
  return status;
}

stg_status stg_control_plan(const struct stg_tensor_file *file, const struct stg_control_use *use,
                            struct stg_arena *arena, struct stg_control_plan *ret_plan,
                            stg_error *reterr) {
  struct planner planner = {.file = file, .use = use, .arena = arena};
  stg_status status = stg_control_read(file, &planner.plan.facts, reterr);
  if (status == STG_OK) {
    status = stg_control_check(file, use, &planner.plan.facts, reterr);
  }
  if (status == STG_OK) {
    status = map_layers(&planner, reterr);
  }
  if (status == STG_OK) {
    status = check_tensors(&planner, reterr);
  }
  if (status == STG_OK) {
    status = choose_range(&planner, reterr);
  }
  if (status == STG_OK) {
    status = check_range(&planner, reterr);
  }
  if (status == STG_OK) {
    status = fill_blocks(&planner, reterr);
  }
  if (status == STG_OK) {
    status = note_words(&planner, reterr);
  }
  if (status == STG_OK) {
    status = note_blocks(&planner, reterr);
  }
  if (status == STG_OK) {
    *ret_plan = planner.plan;
  }
  return status;
}
