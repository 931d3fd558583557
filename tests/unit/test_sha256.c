/*
 * test_sha256.c: SHA-256 against the vectors of FIPS 180-4; 77 where there is no libcrypto.
 */
#include "tools/bench/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static void expect_digest(struct stg_sha256 *sha, const char *text, const char *expected) {
  unsigned char digest[STG_SHA256_BYTES];
  char hex[2 * STG_SHA256_BYTES + 1];
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_sha256_of(sha, text, strlen(text), digest, &error));
  for (size_t i = 0; i < STG_SHA256_BYTES; i++) {
    snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  }
  assert_string_equal(expected, hex);
}

static void digests_are_those_of_the_standard(void **state) {
  expect_digest(*state, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_digest(*state, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect_digest(*state, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_second_digest_does_not_know_of_the_first(void **state) {
  for (int round = 0; round < 2; round++) {
    expect_digest(*state, "abc",
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  }
}

int main(void) {
  stg_error error = STG_ERROR_INIT;
  struct stg_sha256 *sha = NULL;
  if (stg_sha256_create(&sha, &error) != STG_OK) {
    printf("1..0 # SKIP %s\n", error.message);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(digests_are_those_of_the_standard, sha),
      cmocka_unit_test_prestate(a_second_digest_does_not_know_of_the_first, sha),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  stg_sha256_destroy(sha);
  return failed;
}
