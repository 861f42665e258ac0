/* nvml_answers.h: what the program asks NVML about a card's memory, and who has it, within
 * VRAMGC_HEADROOM and VRAMGC_CAP, as cudaMemGetInfo tells it; and a question that PyTorch asks only
 * because of vramgc. */
#pragma once

/* For a dlsym of that name by that caller; NULL: the C library answers. */
void *nvml_memory_lookup(void *handle, const char *name);
void *nvml_fabric_lookup(void *handle, const char *name, const void *caller);
