/*
 * kb_countries.c: countries on a grid of cells, some of which are sea.
 *
 * A country has one cell, but for a few that have a square of sixteen, and so as many neighbors.
 * Subregions and regions are runs of countries in an order that goes through bands of the grid, so
 * they hang together. Of a third of the countries the region is no fact but a query; of some of
 * those the subregion is not known either, and the proof goes by a neighbor.
 */
#include "specs/kb_draft.h"

#include "runtime/base/alloc.h"

enum { IN_SUBREGION = 1, SUBREGION_IN, IN_REGION, NEIGHBOR };
static const char *const predicates[] = {"in_subregion", "subregion_in", "in_region", "neighbor"};

/* The public set, and what part of it is what. */
#define PUBLIC_SIZE 271
#define PUBLIC_SUBREGIONS 22
#define PUBLIC_REGIONS 5
#define BIG_SIDE 4            /* cells; its border has 16 */
#define COUNTRIES_PER_BIG 244 /* one big country for so many */
#define SEA_PERCENT 36
#define QUERY_OF 20  /* of so many countries in a row */
#define QUERIES 7    /* so many are queries */
#define UNKNOWN_OF 4 /* of so many queries one has no subregion, where a neighbor has a region */
#define TRIES 64     /* to place a big country */

/* What a cell is until its country has a number, from 1 on. */
enum {
  SEA = 0,
  FREE = -1,     /* may become land */
  COAST = -2,    /* becomes land first */
  SMALL = -3,    /* a country of its own */
  FIRST_BIG = -4 /* of big country k: FIRST_BIG - k */
};

struct grid {
  struct stg_kb_draft *draft;
  int32_t countries;
  int32_t subregions;
  int32_t regions;
  int32_t side;
  int32_t *cells; /* [side, side] */
  bool *hidden;   /* whether its region is a query; of country i at i - 1 */
  bool *helped;   /* whether a neighbor's region is the same, and known */
};

/* Numbers of names: countries, then subregions, then regions. */
static void print_name(const void *user, int32_t arg, struct stg_strbuf *out) {
  const struct grid *grid = user;
  const int32_t subregion = arg - grid->countries;
  const int32_t region = subregion - grid->subregions;
  if (region > 0) {
    stg_strbuf_printf(out, "region_%d", (int)region);
  } else if (subregion > 0) {
    stg_strbuf_printf(out, "subregion_%d", (int)subregion);
  } else {
    stg_strbuf_printf(out, "country_%d", (int)arg);
  }
}

static int32_t subregion_of(const struct grid *grid, int32_t country) {
  return 1 + (int32_t)((int64_t)(country - 1) * grid->subregions / grid->countries);
}

static int32_t region_of(const struct grid *grid, int32_t subregion) {
  return 1 + (int32_t)((int64_t)(subregion - 1) * grid->regions / grid->subregions);
}

/* Whether all cells of a square lie in the grid and are free. */
static bool is_free(const struct grid *grid, int32_t row, int32_t column, int32_t side) {
  if (row < 0 || column < 0 || row + side > grid->side || column + side > grid->side) {
    return false;
  }
  for (int32_t r = row; r < row + side; r++) {
    for (int32_t c = column; c < column + side; c++) {
      if (grid->cells[r * grid->side + c] != FREE) {
        return false;
      }
    }
  }
  return true;
}

/* A square of one country, all its border coast but for the corners, which touch nobody. */
static void put_big(struct grid *grid, int32_t row, int32_t column, int32_t mark) {
  for (int32_t r = -1; r <= BIG_SIDE; r++) {
    for (int32_t c = -1; c <= BIG_SIDE; c++) {
      const bool edge_row = r < 0 || r == BIG_SIDE;
      const bool edge_column = c < 0 || c == BIG_SIDE;
      int32_t *cell = &grid->cells[(row + r) * grid->side + column + c];
      *cell = edge_row && edge_column ? FREE : edge_row || edge_column ? COAST : mark;
    }
  }
}

/* The number of those that found a place. */
static int32_t put_bigs(struct grid *grid, int32_t wanted) {
  int32_t placed = 0;
  for (int32_t i = 0; i < wanted * TRIES && placed < wanted; i++) {
    const int32_t row = (int32_t)stg_kb_draw(grid->draft, (uint32_t)grid->side);
    const int32_t column = (int32_t)stg_kb_draw(grid->draft, (uint32_t)grid->side);
    if (is_free(grid, row - 1, column - 1, BIG_SIDE + 2)) {
      put_big(grid, row, column, FIRST_BIG - placed++);
    }
  }
  return placed;
}

/* Coast becomes land, then other cells until there are as many countries as asked for. */
static void put_small(struct grid *grid, int32_t wanted) {
  const int32_t n_cells = grid->side * grid->side;
  for (int32_t i = 0; i < n_cells && wanted > 0; i++) {
    if (grid->cells[i] == COAST) {
      grid->cells[i] = SMALL;
      wanted--;
    }
  }
  while (wanted > 0) {
    int32_t *cell = &grid->cells[stg_kb_draw(grid->draft, (uint32_t)n_cells)];
    if (*cell == FREE) {
      *cell = SMALL;
      wanted--;
    }
  }
}

/* Give numbers in bands of rows, through each from column to column. */
static void give_numbers(struct grid *grid) {
  const int32_t band = grid->side > 2 * BIG_SIDE ? BIG_SIDE : 1;
  int32_t of_big[STG_KB_MAX_SIZE / COUNTRIES_PER_BIG + 2] = {0};
  int32_t next = 0;
  for (int32_t first = 0; first < grid->side; first += band) {
    for (int32_t i = 0; i < grid->side * band; i++) {
      const int32_t row = first + i % band;
      if (row >= grid->side) {
        continue;
      }
      int32_t *cell = &grid->cells[row * grid->side + i / band];
      if (*cell == SMALL) {
        *cell = ++next;
      } else if (*cell <= FIRST_BIG) {
        int32_t *known = &of_big[FIRST_BIG - *cell];
        *known = *known == 0 ? ++next : *known;
        *cell = *known;
      } else {
        *cell = SEA;
      }
    }
  }
}

/* Of so many countries in a row so many, which the seed says. */
static void hide(struct grid *grid) {
  for (int32_t first = 0; first < grid->countries; first += QUERY_OF) {
    const int32_t left = grid->countries - first;
    const int32_t n = left < QUERY_OF ? left : QUERY_OF;
    for (int32_t hidden = 0; hidden < n * QUERIES / QUERY_OF;) {
      bool *at = &grid->hidden[first + (int32_t)stg_kb_draw(grid->draft, (uint32_t)n)];
      hidden += !*at;
      *at = true;
    }
  }
}

static void help(struct grid *grid, int32_t country, int32_t neighbor) {
  const int32_t region = region_of(grid, subregion_of(grid, country));
  if (!grid->hidden[neighbor - 1] && region_of(grid, subregion_of(grid, neighbor)) == region) {
    grid->helped[country - 1] = true;
  }
}

static void say_neighbors(struct grid *grid, int32_t a, int32_t b) {
  if (a != b && a != SEA && b != SEA) {
    stg_kb_say(grid->draft, &grid->draft->facts, NEIGHBOR, a, b);
    stg_kb_say(grid->draft, &grid->draft->facts, NEIGHBOR, b, a);
    help(grid, a, b);
    help(grid, b, a);
  }
}

static void say_all_neighbors(struct grid *grid) {
  for (int32_t row = 0; row < grid->side; row++) {
    for (int32_t column = 0; column < grid->side; column++) {
      const int32_t *cell = &grid->cells[row * grid->side + column];
      if (column + 1 < grid->side) {
        say_neighbors(grid, cell[0], cell[1]);
      }
      if (row + 1 < grid->side) {
        say_neighbors(grid, cell[0], cell[grid->side]);
      }
    }
  }
}

static void say_places(struct grid *grid) {
  struct stg_kb_draft *draft = grid->draft;
  const int32_t first_region = grid->countries + grid->subregions;
  for (int32_t i = 1; i <= grid->subregions; i++) {
    stg_kb_say(draft, &draft->facts, SUBREGION_IN, grid->countries + i,
               first_region + region_of(grid, i));
  }
  for (int32_t i = 1; i <= grid->countries; i++) {
    const int32_t subregion = subregion_of(grid, i);
    const bool hidden = grid->hidden[i - 1];
    const bool unknown = hidden && grid->helped[i - 1] && stg_kb_draw(draft, UNKNOWN_OF) == 0;
    stg_kb_say(draft, hidden ? &draft->queries : &draft->facts, IN_REGION, i,
               first_region + region_of(grid, subregion));
    if (!unknown) {
      stg_kb_say(draft, &draft->facts, IN_SUBREGION, i, grid->countries + subregion);
    }
  }
}

static int32_t share_of(int32_t size, int32_t part) {
  const int32_t share = (int32_t)(((int64_t)size * part + PUBLIC_SIZE / 2) / PUBLIC_SIZE);
  return share > 0 ? share : 1;
}

/* A side whose square has room for land and sea, and for big countries with their coasts. */
static int32_t side_of(int32_t countries, int32_t n_big) {
  const int32_t room = (BIG_SIDE + 2) * (BIG_SIDE + 2);
  const int32_t cells = countries * 100 / (100 - SEA_PERCENT) + n_big * room;
  int32_t side = 1;
  while (side * side < cells) {
    side++;
  }
  return side;
}

static void draw_map(struct grid *grid, int32_t n_big) {
  for (int32_t i = 0; i < grid->side * grid->side; i++) {
    grid->cells[i] = FREE;
  }
  put_small(grid, grid->countries - put_bigs(grid, n_big));
  give_numbers(grid);
  hide(grid);
  say_all_neighbors(grid);
  say_places(grid);
  stg_kb_shuffle(grid->draft, &grid->draft->facts);
}

stg_status stg_kb_make_countries(struct stg_kb_draft *draft, int32_t size,
                                 struct stg_kb_text *ret_text) {
  struct grid grid = {.draft = draft,
                      .subregions = share_of(size, PUBLIC_SUBREGIONS),
                      .regions = share_of(size, PUBLIC_REGIONS)};
  grid.countries = size - grid.subregions - grid.regions;
  const int32_t n_big = (grid.countries + COUNTRIES_PER_BIG / 2) / COUNTRIES_PER_BIG;
  grid.side = side_of(grid.countries, n_big);
  const size_t n_cells = (size_t)grid.side * (size_t)grid.side;
  grid.cells = stg_calloc(n_cells, sizeof *grid.cells);
  grid.hidden = stg_calloc((size_t)grid.countries, sizeof *grid.hidden);
  grid.helped = stg_calloc((size_t)grid.countries, sizeof *grid.helped);
  draft->predicates = predicates;
  draft->name = print_name;
  draft->user = &grid;
  if (grid.cells == NULL || grid.hidden == NULL || grid.helped == NULL) {
    draft->status =
        stg_error_memory(draft->err, "a grid of countries", n_cells * sizeof *grid.cells);
  } else {
    draw_map(&grid, n_big);
  }
  stg_status status = stg_kb_draft_print(draft, ret_text);
  stg_free(grid.cells);
  stg_free(grid.hidden);
  stg_free(grid.helped);
  return status;
}
