/*
 * temp_folder.h: a folder of one test's own, gone with everything in it when the test ends.
 */
#ifndef STG_TESTS_SUPPORT_TEMP_FOLDER_H
#define STG_TESTS_SUPPORT_TEMP_FOLDER_H

#include <stdbool.h>

/* cmocka fixtures: `*state` is the folder's path (char *), the same for setup and teardown. */
int temp_folder_setup(void **state);
int temp_folder_teardown(void **state);

/** "folder/name" in one of 4 static buffers, so valid until 4 more calls. */
const char *temp_path(void *const *state, const char *name);

/** Flip the lowest bit of byte `at` of a file; from its end when negative. False: it cannot be. */
bool temp_flip_byte(const char *path, long at);

#endif
