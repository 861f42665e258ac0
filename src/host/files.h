/* files.h: large files that the program has read and let go, as weights are, of which Linux keeps
 * the contents: in a container that counts against its limit (VRAMGC_HOST=files). For vramgc's own
 * thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A look: which large files the program has open to read, or mapped; what is mapped is read once a
 * second, for it takes a millisecond. again_bytes: of files dropped before that are there anew,
 * which were read from the disk again. Whether some that were there are not any more. */
bool host_files_gone(uint64_t now_ns, uint64_t *again_bytes);

/* After such a look: Linux keeps no longer what it has of these, but for what another program maps.
 * Files whose path nobody can open are forgotten. */
void host_files_drop(void);
