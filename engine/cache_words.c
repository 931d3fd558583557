/*
 * cache_words.c: one table from a piece of a signature to a sentence, and the factors beside it.
 *
 * Must not read materials; it is handed one difference at a time.
 */
#include "engine/cache_words.h"

#include <string.h>

#include "runtime/kernel.h"

#define USER_OP "user:"
#define ENVIRONMENT "env:" /* before options that NVRTC takes from there by itself */
#define SHOWN_HASH_CHARS 8

/* Pieces of a signature that have a value: the sentence around it, for either side. */
static const struct {
  const char *piece, *before, *between, *after;
} sentences[] = {
    {"chain<=", "chains have up to ", " ops here, ", " there"},
    {"hidden=", "rows have ", " elements here, ", " there"},
    {"dtype=", "rows are ", " here, ", " there"},
    {"bank=", "vectors are kept as ", " here, ", " there"},
    {"state=", "ops see ", " here, ", " there"},
    {"tile=", "for steps of ", " here, of ", " there"},
    {"epilogue=", "chains are followed by ", " here, by ", " there"},
    {"work=", "the work is ", " here, ", " there"},
    {"heads=", "there are ", " query heads here, ", " there"},
    {"kv_heads=", "there are ", " KV heads here, ", " there"},
    {"dim=", "heads have ", " elements here, ", " there"},
    {"layout=", "packed rows are ", " here, ", " there"},
    {"rot=", "of a head ", " elements are rotated here, ", " there"},
    {"pairs=", "pairs are ", " here, ", " there"},
    {"round=", "results are rounded ", " here, ", " there"},
    {"trig=", "cosines and sines are ", " here, ", " there"},
    {"angles=", "angles are ", " here, ", " there"},
    {"xpos=", "xPos scales ", " here, ", " there"},
    {"sink=", "K and V go to ", " here, to ", " there"},
    {"order=", "tensors of heads have ", " first here, ", " there"},
    {"dir=", "the way is ", " here, ", " there"},
    {"cache=", "K and V are read from ", " here, from ", " there"},
    {"atoms=", "states have up to ", " atoms here, ", " there"},
    {"children=", "of a state ", " children are kept here, ", " there"},
    {"embed=", "atoms are ", " numbers here, ", " there"},
    {"width=", "layers are ", " wide here, ", " there"},
    {"blocks=", "the policy has ", " blocks here, ", " there"},
    {"arithmetic=", "products are made in ", " here, in ", " there"},
    {"chunk=", "sums are merged every ", " positions here, every ", " there"},
    {"d_in=", "rows of x have ", " elements here, ", " there"},
    {"d_out=", "rows of y have ", " elements here, ", " there"},
    {"components=", "there are ", " components here, ", " there"},
    {"math=", "the arithmetic of products is ", " here, ", " there"},
    {"weights=", "matrices are ", " here, ", " there"},
    {"mask=", "the mask is ", " here, ", " there"},
};

/* Pieces that are 0 or 1; one that may be a word as well is a sentence then. */
static const struct {
  const char *piece, *what;
} switches[] = {
    {"windows=", "windows"},    {"counters=", "counters"},
    {"probes=", "probes"},      {"window=", "windows of positions"},
    {"mask=", "masks of keys"}, {"loose=", "K and V that stand anywhere"},
    {"bias=", "biases"},        {"delta=", "paths over Delta"},
};

/* Values that say little by themselves. */
static const struct {
  const char *value, *words;
} meanings[] = {
    {"hidden", "hidden alone"},
    {"hidden+residual", "hidden plus residual"},
    {"none", "nothing"},
    {"tf32", "TF32"},
    {"tf32x3", "three of TF32 each"},
    {"add_rmsnorm", "residual add and RMSNorm"},
    {"decode", "short requests (decode)"},
    {"prefill", "long requests (prefill)"},
    {"final", "once"},
    {"each_op", "after each operation"},
    {"dtype", "of the tensors' type"},
    {"swapped_bf16", "bf16 and exchanged"},
    {"table", "read from a table"},
    {"out", "tensors"},
    {"plain", "as they stand"},
    {"turned", "turned"},
    {"elements", "of the tensors' type"},
    {"bool", "of bytes"},
    {"dense", "a dense cache"},
    {"paged", "a paged cache"},
};

static bool begins(struct stg_factor_value value, const char *prefix) {
  size_t len = strlen(prefix);
  return value.text != NULL && value.len >= len && memcmp(value.text, prefix, len) == 0;
}

static struct stg_factor_value after(struct stg_factor_value value, size_t len) {
  return (struct stg_factor_value){value.text + len, value.len - len};
}

static void say(struct stg_strbuf *out, struct stg_factor_value value) {
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
    if (value.len == strlen(meanings[i].value) && begins(value, meanings[i].value)) {
      stg_strbuf_str(out, meanings[i].words);
      return;
    }
  }
  stg_strbuf_mem(out, value.text, value.len);
}

/* The name at `*cursor` of a list with commas; no text at its end. */
static struct stg_factor_value next_name(struct stg_factor_value list, size_t *cursor) {
  size_t begin = *cursor;
  size_t end = begin;
  while (end < list.len && list.text[end] != ',') {
    end++;
  }
  *cursor = end < list.len ? end + 1 : end;
  return (struct stg_factor_value){begin < list.len ? list.text + begin : NULL, end - begin};
}

static bool lists(struct stg_factor_value list, struct stg_factor_value wanted) {
  struct stg_factor_value name;
  size_t cursor = 0;
  while ((name = next_name(list, &cursor)).text != NULL) {
    if (name.len == wanted.len && memcmp(name.text, wanted.text, name.len) == 0) {
      return true;
    }
  }
  return false;
}

static void say_op(struct stg_strbuf *out, struct stg_factor_value name) {
  if (begins(name, USER_OP)) {
    struct stg_factor_value hash = after(name, strlen(USER_OP));
    stg_strbuf_str(out, "the user op ");
    stg_strbuf_mem(out, hash.text, hash.len < SHOWN_HASH_CHARS ? hash.len : SHOWN_HASH_CHARS);
  } else {
    stg_strbuf_char(out, '\'');
    stg_strbuf_mem(out, name.text, name.len);
    stg_strbuf_char(out, '\'');
  }
}

/* "here also 'add', 'swap'": what `list` has and `other` has not. True when there is any. */
static bool say_more(struct stg_strbuf *out, const char *before, struct stg_factor_value list,
                     struct stg_factor_value other) {
  struct stg_factor_value name;
  size_t cursor = 0;
  bool any = false;
  while ((name = next_name(list, &cursor)).text != NULL) {
    if (!lists(other, name)) {
      stg_strbuf_str(out, any ? ", " : before);
      say_op(out, name);
      any = true;
    }
  }
  return any;
}

static void say_ops(struct stg_strbuf *out, struct stg_factor_value here,
                    struct stg_factor_value there) {
  bool more = say_more(out, "ops: here also ", here, there);
  if (!say_more(out, more ? "; there also " : "ops: there also ", there, here) && !more) {
    stg_strbuf_str(out, "ops in another order");
  }
}

static bool say_switch(struct stg_strbuf *out, struct stg_factor_value here,
                       struct stg_factor_value there) {
  for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
    const size_t len = strlen(switches[i].piece);
    if (begins(here, switches[i].piece) && begins(there, switches[i].piece) &&
        here.len == len + 1 && (here.text[len] == '0' || here.text[len] == '1')) {
      const bool is_on = here.text[len] != '0';
      stg_strbuf_printf(out, "with %s %s, without them %s", switches[i].what,
                        is_on ? "here" : "there", is_on ? "there" : "here");
      return true;
    }
  }
  return false;
}

static bool say_piece(struct stg_strbuf *out, struct stg_factor_value here,
                      struct stg_factor_value there) {
  if (begins(here, "ops=") && begins(there, "ops=")) {
    say_ops(out, after(here, strlen("ops=")), after(there, strlen("ops=")));
    return true;
  }
  if (say_switch(out, here, there)) {
    return true;
  }
  for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
    const size_t len = strlen(sentences[i].piece);
    if (begins(here, sentences[i].piece) && begins(there, sentences[i].piece)) {
      stg_strbuf_str(out, sentences[i].before);
      say(out, after(here, len));
      stg_strbuf_str(out, sentences[i].between);
      say(out, after(there, len));
      stg_strbuf_str(out, sentences[i].after);
      return true;
    }
  }
  return false;
}

size_t stg_first_differing_line(struct stg_factor_value a, struct stg_factor_value b) {
  size_t line = 1;
  for (size_t i = 0; i < a.len && i < b.len && a.text[i] == b.text[i]; i++) {
    line += a.text[i] == '\n';
  }
  return line;
}

/* The prelude is the same for all kernels of a family, work and version; a source follows from the
 * signature. */
static void say_text(struct stg_strbuf *out, const struct stg_factor_difference *d,
                     const struct stg_words_about *about) {
  const size_t line = stg_first_differing_line(d->here, d->there);
  if (about->kinds_differ || (about->signatures_differ && strcmp(d->name, STG_FIELD_SOURCE) == 0)) {
    stg_strbuf_printf(out, "follows from the signature; differs from line %zu on", line);
    return;
  }
  stg_strbuf_printf(out, "generated by another version: differs from line %zu on", line);
  if (about->here_creator != NULL && about->there_creator != NULL) {
    const bool one = strcmp(about->here_creator, about->there_creator) == 0;
    stg_strbuf_printf(out, "; made by steergraph %s%s%s", about->here_creator,
                      one ? ", both" : " here, ", one ? "" : about->there_creator);
    stg_strbuf_str(out, one ? "" : " there");
  }
}

static void quote_option(struct stg_strbuf *out, struct stg_factor_value option) {
  const bool of_environment = begins(option, ENVIRONMENT);
  const struct stg_factor_value text = after(option, of_environment ? strlen(ENVIRONMENT) : 0);
  stg_strbuf_char(out, '\'');
  stg_strbuf_mem(out, text.text, text.len);
  stg_strbuf_str(out, of_environment ? "' of NVRTC_APPEND_FLAGS" : "'");
}

static void say_option(struct stg_strbuf *out, const struct stg_factor_difference *d) {
  const bool only_here = d->there.text == NULL;
  stg_strbuf_str(out, "compiled with ");
  if (d->here.text != NULL && d->there.text != NULL) {
    quote_option(out, d->here);
    stg_strbuf_str(out, " here, with ");
    quote_option(out, d->there);
    stg_strbuf_str(out, " there");
    return;
  }
  quote_option(out, only_here ? d->here : d->there);
  stg_strbuf_printf(out, " %s, without it %s", only_here ? "here" : "there",
                    only_here ? "there" : "here");
}

/* A factor with one short value on either side. */
static void say_values(struct stg_strbuf *out, const char *before,
                       const struct stg_factor_difference *d) {
  stg_strbuf_str(out, before);
  stg_strbuf_mem(out, d->here.text, d->here.len);
  stg_strbuf_str(out, " here, ");
  stg_strbuf_mem(out, d->there.text, d->there.len);
  stg_strbuf_str(out, " there");
}

void stg_factor_words(const struct stg_factor_difference *d, const struct stg_words_about *about,
                      struct stg_strbuf *out) {
  if (strcmp(d->name, STG_FIELD_OPTION) == 0) {
    say_option(out, d);
  } else if (d->here.text == NULL || d->there.text == NULL) {
    stg_strbuf_printf(out, "only %s: made by another version",
                      d->there.text == NULL ? "here" : "there");
  } else if (strcmp(d->name, STG_FIELD_SIGNATURE) == 0) {
    if (!say_piece(out, d->here, d->there)) {
      say_values(out,
                 about->kinds_differ ? "kernels of two families: "
                                     : "another family or version of kernels: ",
                 d);
    }
  } else if (strcmp(d->name, STG_FIELD_PRELUDE) == 0 || strcmp(d->name, STG_FIELD_SOURCE) == 0) {
    say_text(out, d, about);
  } else if (strcmp(d->name, STG_FIELD_ARCH) == 0) {
    say_values(out, "compiled for ", d);
  } else if (strcmp(d->name, STG_FIELD_KERNEL) == 0) {
    say_values(out, "the kernel is called ", d);
  } else if (strcmp(d->name, STG_FIELD_FORMAT) == 0) {
    say_values(out, "keys of another version of steergraph: format ", d);
  } else {
    stg_strbuf_str(out, "a factor that this version does not know");
  }
}
