/* note.h: what the program has of the host's memory, into the statistics file: where it is killed
 * for lack of memory, the file is what is left to tell of it. By our own thread only. */
#pragma once

/* Some small files of the kernel are read, which takes 0.06 ms: about once a second will do. */
void host_note(void);
