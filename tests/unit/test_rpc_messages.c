/*
 * test_rpc_messages.c: messages are copies of vectors, and new in every turn.
 */
#include "tools/bench/rpc_messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/dtype.h"

#define LENGTH 4

static const uint16_t vectors[2 * LENGTH] = {0x3f80, 0, 0, 0x1111, 0, 0x3f80, 0, 0x2222};

static struct stg_rpc_messages of_two_vectors(size_t count) {
  struct stg_rpc_messages messages = {0};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_rpc_messages_init(vectors, 2, LENGTH, count, &messages, &error));
  return messages;
}

static void messages_take_the_vectors_in_turn(void **state) {
  struct stg_rpc_messages messages = of_two_vectors(5);
  assert_int_equal(sizeof(uint16_t) * LENGTH, stg_rpc_message_bytes(&messages));
  for (size_t i = 0; i < 5; i++) {
    assert_memory_equal(vectors + i % 2 * LENGTH, stg_rpc_message(&messages, i),
                        stg_rpc_message_bytes(&messages));
  }
  stg_rpc_messages_finish(&messages);
  (void)state;
}

static void a_turn_changes_the_messages_asked_for_alone(void **state) {
  struct stg_rpc_messages messages = of_two_vectors(4);
  stg_rpc_messages_renew(&messages, 1, 2, 3);
  const size_t bytes = stg_rpc_message_bytes(&messages);
  assert_memory_equal(vectors, stg_rpc_message(&messages, 0), bytes);
  assert_memory_not_equal(vectors + LENGTH, stg_rpc_message(&messages, 1), bytes);
  assert_memory_not_equal(vectors, stg_rpc_message(&messages, 2), bytes);
  assert_memory_equal(vectors + LENGTH, stg_rpc_message(&messages, 3), bytes);
  stg_rpc_messages_finish(&messages);
  (void)state;
}

/* Whether `number` is below `count` and was not noted before. */
static bool note(unsigned char *seen, size_t count, size_t number) {
  if (number >= count || seen[number] != 0) {
    return false;
  }
  seen[number] = 1;
  return true;
}

static void no_two_turns_are_alike_and_equal_messages_stay_equal(void **state) {
  static unsigned char seen[1 << 14];
  struct stg_rpc_messages messages = of_two_vectors(4);
  for (uint32_t turn = 0; turn < sizeof seen; turn++) {
    stg_rpc_messages_renew(&messages, 0, 4, turn);
    const uint16_t *message = stg_rpc_message(&messages, 0);
    const float digits[] = {stg_bf16_to_f32(message[0]), stg_bf16_to_f32(message[1])};
    assert_true(digits[0] >= 0x1p-7F && digits[0] < 0x1p-6F);
    assert_true(digits[1] >= 0x1p-7F && digits[1] < 0x1p-6F);
    const size_t number =
        (size_t)((digits[0] - 0x1p-7F) * 0x1p14F) + 128 * (size_t)((digits[1] - 0x1p-7F) * 0x1p14F);
    assert_true(note(seen, sizeof seen, number));
    assert_memory_equal(message, stg_rpc_message(&messages, 2), stg_rpc_message_bytes(&messages));
    assert_int_equal(0x1111, message[3]);
    assert_int_equal(0x2222, stg_rpc_message(&messages, 1)[3]);
  }
  stg_rpc_messages_finish(&messages);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_take_the_vectors_in_turn),
      cmocka_unit_test(a_turn_changes_the_messages_asked_for_alone),
      cmocka_unit_test(no_two_turns_are_alike_and_equal_messages_stay_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
