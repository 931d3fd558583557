/*
 * lost_file.h: a file that becomes shorter while it is read.
 */
#ifndef STG_TOOLS_LOST_FILE_H
#define STG_TOOLS_LOST_FILE_H

/** From now on, such a file ends the process with a line that names it, and with the status of
 * work that failed, in place of SIGBUS. Other faults are as they were. Once per process. */
void stg_lost_file_setup(void);

#endif
