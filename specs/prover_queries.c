/*
 * prover_queries.c: the knowledge base of a prover workload, and the queries that are asked of it:
 * from files, from the workload's own text, or made up.
 *
 * What the reader of knowledge bases finds wrong keeps its file, line and column, behind the member
 * that names the file.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/kb_generate.h"
#include "specs/prover_reader.h"

#define OWN_QUERIES 100 /* of those that come with a base that is made up, unless told */

typedef stg_status (*parse_fn)(struct stg_kb *kb, const char *path, const char *text, size_t len,
                               stg_error *reterr);

/* Read the file that a member names into the base. */
static stg_status read_file(struct stg_prover_reader *reader, const struct stg_json *member,
                            parse_fn parse, const char **ret_path) {
  struct stg_prover_workload *w = reader->workload;
  char place[STG_JSON_PATH_BYTES];
  char *text = NULL;
  size_t len = 0;
  stg_status status = stg_spec_read_path(&reader->spec, member, ret_path);
  if (status != STG_OK) {
    return status;
  }
  status = stg_file_read(*ret_path, STG_KB_MAX_FILE_BYTES, &text, &len, reader->spec.err);
  if (status == STG_OK) {
    status = parse(&w->kb, *ret_path, text, len, reader->spec.err);
  }
  stg_free(text);
  if (status != STG_OK) {
    stg_json_path(member, place);
    stg_error_prefix(reader->spec.err, "%s: %s: ", w->file, place);
  }
  return status;
}

static stg_status read_files(struct stg_prover_reader *reader, const struct stg_json *at,
                             const struct stg_json *facts) {
  struct stg_prover_workload *w = reader->workload;
  struct stg_json rules;
  stg_status status = read_file(reader, facts, stg_kb_parse_facts, &w->paths.facts);
  if (status == STG_OK && w->kb.facts.n == 0) {
    status =
        stg_json_error(reader->spec.err, STG_E_FORMAT, facts, "'%s' has no facts", w->paths.facts);
  }
  return status == STG_OK && stg_json_find(at, "rules", &rules)
             ? read_file(reader, &rules, stg_kb_parse_rules, &w->paths.rules)
             : status;
}

static stg_status parse_text(struct stg_kb *kb, const struct stg_kb_text *text, stg_error *err) {
  static const char name[] = "knowledge.generate"; /* which has no faults to be said of it */
  stg_status status =
      stg_kb_parse_facts(kb, name, stg_strbuf_text(&text->facts), text->facts.len, err);
  if (status == STG_OK) {
    status = stg_kb_parse_rules(kb, name, stg_strbuf_text(&text->rules), text->rules.len, err);
  }
  if (status == STG_OK) {
    status =
        stg_kb_parse_queries(kb, name, stg_strbuf_text(&text->queries), text->queries.len, err);
  }
  return status;
}

static stg_status make_up(struct stg_prover_reader *reader, const struct stg_json *at,
                          enum stg_kb_kind kind, uint64_t seed, int64_t size) {
  struct stg_kb_text text = {0};
  struct stg_json member;
  stg_error reason = STG_ERROR_INIT;
  stg_status status = stg_kb_generate(kind, seed, size, &text, &reason);
  if (status == STG_OK) {
    status = parse_text(&reader->workload->kb, &text, reader->spec.err);
  } else {
    status =
        stg_json_error(reader->spec.err, status == STG_E_INVALID ? STG_E_FORMAT : status,
                       stg_json_find(at, "size", &member) ? &member : at, "%s", reason.message);
  }
  stg_kb_text_finish(&text);
  return status;
}

static stg_status read_generate(struct stg_prover_reader *reader, const struct stg_json *at) {
  static const char *const keys[] = {"kind", "seed", "size", NULL};
  static const char *const kinds[] = {
#define KIND_WORD(NAME, name, size, least, what) #name,
      STG_KB_KIND_LIST(KIND_WORD)
#undef KIND_WORD
          NULL};
  struct stg_json member;
  unsigned kind = 0;
  int64_t seed = 0;
  int64_t size = 0;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_get(at, "kind", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_word(&reader->spec, at, "kind", kinds, &kind);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "seed", 0, STG_PROVER_MAX_SEED, &seed);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "size", 1, STG_KB_MAX_SIZE, &size);
  }
  return status == STG_OK ? make_up(reader, at, (enum stg_kb_kind)kind, (uint64_t)seed, size)
                          : status;
}

stg_status stg_prover_read_knowledge(struct stg_prover_reader *reader,
                                     const struct stg_json *root) {
  static const char *const keys[] = {"facts", "rules", "generate", NULL};
  struct stg_json at;
  struct stg_json member;
  struct stg_json rules;
  bool is_files = false;
  stg_status status = stg_json_get(root, "knowledge", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_prover_read_either(reader, &at, "facts", "generate", &member, &is_files);
  }
  if (status != STG_OK || is_files) {
    return status == STG_OK ? read_files(reader, &at, &member) : status;
  }
  return stg_json_find(&at, "rules", &rules)
             ? stg_json_error(reader->spec.err, STG_E_FORMAT, &rules,
                              "goes with 'facts'; what is made up has rules of its own")
             : read_generate(reader, &member);
}

/* A query of the list is a line of a file of its own, whose name is its place. */
static stg_status read_item(struct stg_prover_reader *reader, const struct stg_json *item) {
  struct stg_prover_workload *w = reader->workload;
  char place[STG_JSON_PATH_BYTES];
  const char *text = NULL;
  const size_t before = w->kb.queries.n;
  stg_status status = stg_json_string(item, &text, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  struct stg_strbuf name = {0};
  stg_json_path(item, place);
  stg_strbuf_printf(&name, "%s: %s", w->file, place);
  status = stg_strbuf_status(&name, reader->spec.err);
  if (status == STG_OK) {
    status =
        stg_kb_parse_queries(&w->kb, stg_strbuf_text(&name), text, strlen(text), reader->spec.err);
  }
  stg_strbuf_finish(&name);
  if (status == STG_OK && w->kb.queries.n != before + 1) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, item,
                            "has %zu queries; give one, as \"aunt(ann, bob).\"",
                            w->kb.queries.n - before);
  }
  return status;
}

static stg_status read_list(struct stg_prover_reader *reader, const struct stg_json *list) {
  struct stg_json item;
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  bool more = status == STG_OK && stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = read_item(reader, &item);
  }
  return status;
}

/* Which of the queries from `begin` on are asked. */
static stg_status choose(struct stg_prover_reader *reader, const struct stg_json *at, size_t begin,
                         size_t unless_told) {
  struct stg_prover_workload *w = reader->workload;
  struct stg_json member;
  const size_t there = w->kb.queries.n - begin;
  int64_t first = (int64_t)(there < unless_told ? there : unless_told);
  if (there == 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at, "there are no queries; give one");
  }
  if (stg_json_find(at, "first", &member)) {
    stg_status status = stg_json_int(&member, 1, INT32_MAX, &first, reader->spec.err);
    if (status != STG_OK) {
      return status;
    }
    if ((uint64_t)first > there) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " of %zu queries; ask for no more than there are", first,
                            there);
    }
  }
  w->queries = w->kb.queries.list + begin;
  w->n_queries = (size_t)first;
  return STG_OK;
}

stg_status stg_prover_read_queries(struct stg_prover_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"file", "list", "first", NULL};
  struct stg_prover_workload *w = reader->workload;
  struct stg_json at;
  struct stg_json member;
  bool is_file = false;
  const bool is_made_up = w->paths.facts == NULL;
  if (is_made_up && !stg_json_find(root, "queries", &at)) {
    return choose(reader, root, 0, OWN_QUERIES);
  }
  stg_status status = stg_json_get(root, "queries", &at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&at, keys, reader->spec.err);
  }
  if (status == STG_OK && is_made_up && !stg_json_find(&at, "file", &member) &&
      !stg_json_find(&at, "list", &member)) {
    return choose(reader, &at, 0, OWN_QUERIES);
  }
  if (status == STG_OK) {
    status = stg_prover_read_either(reader, &at, "file", "list", &member, &is_file);
  }
  if (status != STG_OK) {
    return status;
  }
  const size_t begin = w->kb.queries.n;
  status = is_file ? read_file(reader, &member, stg_kb_parse_queries, &w->paths.queries)
                   : read_list(reader, &member);
  return status == STG_OK ? choose(reader, &at, begin, SIZE_MAX) : status;
}
