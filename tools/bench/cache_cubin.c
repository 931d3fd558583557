/*
 * bench/cache_cubin.c: see cache_cubin.h. In the layout of CUDA 13: header, code, names of
 * sections, table of sections.
 */
#include "tools/bench/cache_cubin.h"

#include <string.h>

#include "runtime/base/bytes.h"

#define HEADER_BYTES 64
#define SECTION_BYTES 64
#define MACHINE_CUDA 190
#define ABI_VERSION 8
#define REGISTERS 32u /* what it says that it takes of each thread */

enum { TYPE_NULL = 0, TYPE_PROGBITS = 1, TYPE_STRTAB = 3 };
enum { SECTION_CODE = 1, SECTION_NAMES = 2, SECTIONS = 3 };

static void fill(struct stg_strbuf *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_char(out, '\0');
  }
}

static void write_header(struct stg_strbuf *out, unsigned sm, size_t table_at) {
  static const unsigned char identity[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x41, ABI_VERSION};
  stg_strbuf_mem(out, (const char *)identity, sizeof identity);
  stg_le_append(out, 2, 2); /* an executable */
  stg_le_append(out, MACHINE_CUDA, 2);
  stg_le_append(out, 1, 4);
  fill(out, 16); /* entry point, program headers */
  stg_le_append(out, table_at, 8);
  stg_le_append(out, sm << 8, 4);
  stg_le_append(out, HEADER_BYTES, 2);
  fill(out, 4);
  stg_le_append(out, SECTION_BYTES, 2);
  stg_le_append(out, SECTIONS, 2);
  stg_le_append(out, SECTION_NAMES, 2);
}

/* A row of the table; `name` is an offset in the names, `info` is where the registers are said. */
static void write_section(struct stg_strbuf *out, size_t name, unsigned type, size_t offset,
                          size_t size, unsigned info) {
  stg_le_append(out, name, 4);
  stg_le_append(out, type, 4);
  fill(out, 16); /* flags, address */
  stg_le_append(out, offset, 8);
  stg_le_append(out, size, 8);
  stg_le_append(out, 0, 4);
  stg_le_append(out, info, 4);
  fill(out, 16); /* alignment, size of an element */
}

void stg_cache_cubin_make(const char *kernel, unsigned sm, size_t code_bytes,
                          struct stg_strbuf *ret_image) {
  struct stg_strbuf names = {0};
  stg_strbuf_char(&names, '\0');
  const size_t text_name = names.len;
  stg_strbuf_printf(&names, ".text.%s", kernel);
  stg_strbuf_char(&names, '\0');
  const size_t names_name = names.len;
  stg_strbuf_str(&names, ".shstrtab");
  stg_strbuf_char(&names, '\0');

  const size_t names_at = HEADER_BYTES + code_bytes;
  write_header(ret_image, sm, names_at + names.len);
  fill(ret_image, code_bytes);
  stg_strbuf_mem(ret_image, stg_strbuf_text(&names), names.len);
  write_section(ret_image, 0, TYPE_NULL, 0, 0, 0);
  write_section(ret_image, text_name, TYPE_PROGBITS, HEADER_BYTES, code_bytes, REGISTERS << 24);
  write_section(ret_image, names_name, TYPE_STRTAB, names_at, names.len, 0);
  ret_image->failed = ret_image->failed || names.failed;
  stg_strbuf_finish(&names);
}
