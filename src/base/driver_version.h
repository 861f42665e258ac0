/* driver_version.h: the driver's version as users know it: 580.82.07, where CUDA counts 13.0. */
#pragma once

#include "base/text.h"

enum { DRIVER_VERSION_BYTES = 32 };

/* Of the driver in the kernel; "" where it does not tell, as under WSL. */
void driver_version_read(char *out, size_t capacity);

/* The branch of drivers that brought this CUDA (13000): 580; 0: not known. */
int driver_branch(int cuda_version);

/* "580.82.07"; where that is "", "580" or "for CUDA 14.0". */
void driver_version_say(struct text *text, int cuda_version, const char *version);

/* "580.82.07 (CUDA 13.0)" and so on. */
void driver_version_say_both(struct text *text, int cuda_version, const char *version);
