/*
 * consumer.c: a program of somebody else, built against what `meson install` put down.
 */
#include <steergraph/steergraph.h>

#include <stdio.h>
#include <string.h>

int main(void) {
  stg_options options;
  stg_options_init(&options);
  if (options.struct_size != sizeof options) {
    puts("the library and the header disagree about stg_options");
    return 1;
  }
  if (strcmp(stg_version(), STEERGRAPH_VERSION_STRING) != 0) {
    printf("the library is %s, the header %s\n", stg_version(), STEERGRAPH_VERSION_STRING);
    return 1;
  }
  puts(stg_version());
  return 0;
}
