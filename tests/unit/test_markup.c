/*
 * test_markup.c: whatever bytes a text is made of, it is text of HTML and nothing else.
 */
#include "tools/markup.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct example {
  const char *text, *written;
};

static void check(const struct example *examples, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct stg_strbuf out = {0};
    stg_markup_text(&out, examples[i].text);
    assert_string_equal(stg_strbuf_text(&out), examples[i].written);
    stg_strbuf_finish(&out);
  }
}

static void writes_markup_as_text(void **state) {
  (void)state;
  static const struct example examples[] = {
      {"", ""},
      {"plain", "plain"},
      {"</script><!--", "&lt;/script&gt;&lt;!--"},
      {"\"a\" & 'b'", "&quot;a&quot; &amp; &#39;b&#39;"},
  };
  check(examples, sizeof examples / sizeof examples[0]);
}

static void shows_control_characters_and_keeps_lines(void **state) {
  (void)state;
  static const struct example examples[] = {
      {"a\n\tb", "a\n\tb"},
      {"\x01\x1b\r\x7f", "\xe2\x90\x81\xe2\x90\x9b\xe2\x90\x8d\xe2\x90\xa1"},
      {"\xc2\x85", "\xef\xbf\xbd"},                               /* next line, U+0085 */
      {"a\xe2\x80\x8b\xef\xbb\xbf", "a\xef\xbf\xbd\xef\xbf\xbd"}, /* no width, U+200B and U+FEFF */
      {"a\xe2\x80\xae"
       "b\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\xac",
       "a\xef\xbf\xbd"
       "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* U+202E, U+2066 and their ends */
  };
  check(examples, sizeof examples / sizeof examples[0]);
  struct stg_strbuf out = {0};
  stg_markup_line(&out, "a\n\tb");
  stg_markup_line(&out, NULL);
  assert_string_equal(stg_strbuf_text(&out), "a\xe2\x90\x8a\xe2\x90\x89"
                                             "b");
  stg_strbuf_finish(&out);
}

static void keeps_utf8_and_replaces_what_is_none(void **state) {
  (void)state;
  static const struct example examples[] = {
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"\xff<", "\xef\xbf\xbd&lt;"},
      {"\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* '<', overlong */
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
      {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* cut short */
      {"\xe2<b", "\xef\xbf\xbd&lt;b"},
      {"\xf4\x90\x80\x80",
       "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond the last */
  };
  check(examples, sizeof examples / sizeof examples[0]);
}

static void takes_bytes_by_their_number(void **state) {
  (void)state;
  struct stg_strbuf out = {0};
  stg_markup_mem(&out, "a\0<", 3);
  stg_markup_mem(&out, "\xe2\x82\xac", 2); /* the third is not to be read */
  assert_string_equal(stg_strbuf_text(&out), "a\xe2\x90\x80&lt;\xef\xbf\xbd\xef\xbf\xbd");
  stg_strbuf_finish(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_markup_as_text),
      cmocka_unit_test(shows_control_characters_and_keeps_lines),
      cmocka_unit_test(keeps_utf8_and_replaces_what_is_none),
      cmocka_unit_test(takes_bytes_by_their_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
