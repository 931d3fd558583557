/*
 * make_cubin.c: see make_cubin.h. Header, sections' bytes, table of sections; little-endian. It is
 * linked into libraries that stand for NVIDIA's, so it uses nothing of ours.
 */
#include "tests/stub/make_cubin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 64
#define SECTION_BYTES 64
#define MACHINE_CUDA 190
#define SYMBOL 1u /* the kernel's, by which .nv.info names it */
#define RESERVED_SHARED_SM 90
#define RESERVED_SHARED_BYTES 1024

enum { TYPE_PROGBITS = 1, TYPE_STRTAB = 3, TYPE_NOBITS = 8, TYPE_INFO = 0x70000000 };

/* Attributes, all of them stored as a size and bytes. */
enum {
  FORMAT_SIZED = 4,
  ATTR_MAX_THREADS = 0x05,
  ATTR_PARAM_CBANK = 0x0a,
  ATTR_FRAME_SIZE = 0x11,
  ATTR_KPARAM_INFO = 0x17,
  ATTR_REGCOUNT = 0x2f
};
#define PARAM_CBANK_OFFSET 0x210u
#define KPARAM_SIZE_SHIFT 18

#define MAX_SECTIONS 8
#define NAMES_BYTES 640

struct image {
  unsigned char *bytes;
  size_t size, capacity;
  char names[NAMES_BYTES];
  size_t names_size;
  unsigned char sections[MAX_SECTIONS][SECTION_BYTES]; /* 0 is the null section */
  size_t n_sections;
};

static void put(unsigned char *at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) {
    at[i] = (unsigned char)(value >> 8 * i);
  }
}

static void append(struct image *image, const void *bytes, size_t size) {
  memcpy(image->bytes + image->size, bytes, size);
  image->size += size;
}

static void align(struct image *image) {
  image->size = (image->size + 15) / 16 * 16; /* the memory is zero */
}

/* Begin a section at the image's end; the name is `prefix` and `kernel`. */
static unsigned char *begin(struct image *image, const char *prefix, const char *kernel,
                            uint32_t type) {
  unsigned char *section = image->sections[image->n_sections++];
  align(image);
  put(section, image->names_size, 4);
  put(section + 4, type, 4);
  put(section + 24, image->size, 8);
  image->names_size += (size_t)snprintf(image->names + image->names_size,
                                        NAMES_BYTES - image->names_size, "%s%s", prefix, kernel) +
                       1;
  return section;
}

static void end(const struct image *image, unsigned char *section) {
  uint64_t offset = 0;
  for (size_t i = 8; i-- > 0;) {
    offset = offset << 8 | section[24 + i];
  }
  put(section + 32, image->size - offset, 8);
}

static void attribute(struct image *image, unsigned kind, const uint32_t *words, size_t count) {
  unsigned char head[4] = {FORMAT_SIZED, (unsigned char)kind};
  put(head + 2, count * sizeof *words, 2);
  append(image, head, sizeof head);
  for (size_t i = 0; i < count; i++) {
    unsigned char word[4];
    put(word, words[i], sizeof word);
    append(image, word, sizeof word);
  }
}

static void write_infos(struct image *image, const struct stub_cubin *cubin) {
  unsigned char *section = begin(image, ".nv.info", "", TYPE_INFO);
  attribute(image, ATTR_REGCOUNT, (const uint32_t[]){SYMBOL, cubin->registers}, 2);
  attribute(image, ATTR_FRAME_SIZE, (const uint32_t[]){SYMBOL, cubin->local_bytes}, 2);
  end(image, section);
  section = begin(image, ".nv.info.", cubin->kernel, TYPE_INFO);
  attribute(image, ATTR_KPARAM_INFO,
            (const uint32_t[]){0, 0, cubin->param_bytes << KPARAM_SIZE_SHIFT | 0x1f000u}, 3);
  attribute(image, ATTR_PARAM_CBANK,
            (const uint32_t[]){SYMBOL, cubin->param_bytes << 16 | PARAM_CBANK_OFFSET}, 2);
  attribute(image, ATTR_MAX_THREADS, (const uint32_t[]){cubin->max_threads, 1, 1}, 3);
  end(image, section);
}

/* Constants, code, and shared memory, which has a size and no bytes. */
static void write_kernel(struct image *image, const struct stub_cubin *cubin) {
  const uint32_t reserved = cubin->sm >= RESERVED_SHARED_SM ? RESERVED_SHARED_BYTES : 0;
  unsigned char *section = begin(image, ".nv.constant0.", cubin->kernel, TYPE_PROGBITS);
  image->size += PARAM_CBANK_OFFSET + cubin->param_bytes;
  end(image, section);
  section = begin(image, ".text.", cubin->kernel, TYPE_PROGBITS);
  append(image, cubin->code, cubin->code_bytes);
  put(section + 44, SYMBOL | cubin->registers << 24, 4);
  end(image, section);
  section = begin(image, ".nv.shared.", cubin->kernel, TYPE_NOBITS);
  put(section + 32, (uint64_t)cubin->shared_bytes + reserved, 8);
}

static void write_header(const struct image *image, const struct stub_cubin *cubin,
                         size_t table_at) {
  unsigned char *h = image->bytes;
  static const unsigned char identity[] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x41};
  const int abi = cubin->cuda_major >= 13 ? 8 : 7;
  memcpy(h, identity, sizeof identity);
  h[8] = (unsigned char)abi;
  put(h + 16, 2, 2);
  put(h + 18, MACHINE_CUDA, 2);
  put(h + 20, 1, 4);
  put(h + 40, table_at, 8);
  put(h + 48, abi == 8 ? cubin->sm << 8 : cubin->sm, 4);
  put(h + 52, HEADER_BYTES, 2);
  put(h + 58, SECTION_BYTES, 2);
  put(h + 60, image->n_sections, 2);
  put(h + 62, image->n_sections - 1, 2); /* the names come last */
}

unsigned char *stub_cubin_make(const struct stub_cubin *cubin, size_t *ret_size) {
  struct image image = {.n_sections = 1, .names_size = 1};
  if (strlen(cubin->kernel) > STUB_CUBIN_MAX_KERNEL || cubin->code_bytes == 0) {
    return NULL;
  }
  image.capacity = 4096 + PARAM_CBANK_OFFSET + cubin->param_bytes + cubin->code_bytes;
  image.bytes = calloc(1, image.capacity);
  if (image.bytes == NULL) {
    return NULL;
  }
  image.size = HEADER_BYTES;
  write_infos(&image, cubin);
  write_kernel(&image, cubin);
  unsigned char *section = begin(&image, ".shstrtab", "", TYPE_STRTAB);
  append(&image, image.names, image.names_size);
  end(&image, section);
  align(&image);
  const size_t table_at = image.size;
  append(&image, image.sections, image.n_sections * SECTION_BYTES);
  write_header(&image, cubin, table_at);
  *ret_size = image.size;
  return image.bytes;
}
