/*
 * key.c: key material as length-prefixed fields, and its XXH3-128.
 *
 * Bytes are laid down one by one, so that material and keys are the same on every machine. It must
 * not know what the fields mean.
 */
#include "runtime/base/key.h"

#include <string.h>
#include <xxhash.h>

#define LENGTH_BYTES 8

static void store_u64(unsigned char bytes[LENGTH_BYTES], uint64_t value) {
  for (size_t i = 0; i < LENGTH_BYTES; i++) {
    bytes[i] = (unsigned char)(value >> (8 * i));
  }
}

static uint64_t load_u64(const unsigned char *bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < LENGTH_BYTES; i++) {
    value |= (uint64_t)bytes[i] << (8 * i);
  }
  return value;
}

void stg_material_field(struct stg_strbuf *material, const char *name, const void *value,
                        size_t len) {
  unsigned char length[LENGTH_BYTES];
  store_u64(length, len);
  stg_strbuf_mem(material, name, strlen(name) + 1);
  stg_strbuf_mem(material, length, sizeof length);
  stg_strbuf_mem(material, value, len);
}

void stg_material_text(struct stg_strbuf *material, const char *name, const char *value) {
  stg_material_field(material, name, value, strlen(value));
}

void stg_material_u64(struct stg_strbuf *material, const char *name, uint64_t value) {
  unsigned char bytes[LENGTH_BYTES];
  store_u64(bytes, value);
  stg_material_field(material, name, bytes, sizeof bytes);
}

bool stg_material_next(const void *material, size_t len, size_t *cursor,
                       struct stg_material_view *ret) {
  if (*cursor >= len) {
    return false;
  }
  const unsigned char *field = (const unsigned char *)material + *cursor;
  size_t left = len - *cursor;
  const unsigned char *nul = memchr(field, '\0', left);
  if (nul == NULL) {
    return false;
  }
  left -= (size_t)(nul - field) + 1;
  if (left < LENGTH_BYTES) {
    return false;
  }
  left -= LENGTH_BYTES;
  uint64_t value_len = load_u64(nul + 1);
  if (value_len > left) {
    return false;
  }
  ret->name = (const char *)field;
  ret->value = (const char *)nul + 1 + LENGTH_BYTES;
  ret->len = (size_t)value_len;
  *cursor = len - (left - ret->len);
  return true;
}

struct stg_key stg_key_of(const void *data, size_t len) {
  XXH128_hash_t hash = XXH3_128bits(data, len);
  return (struct stg_key){.high = hash.high64, .low = hash.low64};
}

bool stg_key_equal(struct stg_key a, struct stg_key b) {
  return a.high == b.high && a.low == b.low;
}

int stg_key_compare(struct stg_key a, struct stg_key b) {
  if (a.high != b.high) {
    return a.high < b.high ? -1 : 1;
  }
  return (a.low > b.low) - (a.low < b.low);
}

void stg_key_store(struct stg_key key, unsigned char ret_bytes[STG_KEY_BYTES]) {
  for (unsigned i = 0; i < 8; i++) {
    ret_bytes[i] = (unsigned char)(key.high >> (56 - 8 * i));
    ret_bytes[8 + i] = (unsigned char)(key.low >> (56 - 8 * i));
  }
}

struct stg_key stg_key_load(const unsigned char bytes[STG_KEY_BYTES]) {
  struct stg_key key = {0};
  for (unsigned i = 0; i < 8; i++) {
    key.high = key.high << 8 | bytes[i];
    key.low = key.low << 8 | bytes[8 + i];
  }
  return key;
}

void stg_key_hex(struct stg_key key, char ret_hex[STG_KEY_HEX_CHARS + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned i = 0; i < 16; i++) {
    ret_hex[i] = digits[(key.high >> (60 - 4 * i)) & 15u];
    ret_hex[16 + i] = digits[(key.low >> (60 - 4 * i)) & 15u];
  }
  ret_hex[STG_KEY_HEX_CHARS] = '\0';
}

/* The value of a lower-case hex digit, or -1. */
static int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool stg_key_parse(const char *hex, struct stg_key *ret_key) {
  struct stg_key key = {0};
  for (size_t i = 0; i < STG_KEY_HEX_CHARS; i++) {
    int digit = hex_digit(hex[i]);
    if (digit < 0) { /* the NUL of a short text ends here too */
      return false;
    }
    uint64_t *half = i < 16 ? &key.high : &key.low;
    *half = *half << 4 | (uint64_t)digit;
  }
  if (hex[STG_KEY_HEX_CHARS] != '\0') {
    return false;
  }
  *ret_key = key;
  return true;
}
