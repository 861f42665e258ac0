/* kernels.h: what the kernels of `vramgc prove` do, as PTX text that every driver compiles for its
 * card. It must stay within the oldest instructions, for no compiler of CUDA is at hand. */
#pragma once

/* fill   (p, words, seed)           p[i] = i * PATTERN_FACTOR + seed
 * check  (p, words, seed, count)    *count += number of words that are not so
 * spin   (cycles)                   one thread that waits so long */
extern const char kernels_ptx[];

#define PATTERN_FACTOR 2654435761u
