/* nvml_memory.h: what the program asks NVML about a card's memory, and who has it, within
 * VRAMGC_HEADROOM and VRAMGC_CAP, as cudaMemGetInfo tells it. */
#pragma once

/* What to answer to a dlsym for that name; NULL: what the C library answers. */
void *nvml_memory_lookup(void *handle, const char *name);
