/* frames.c: src/python/frames.c as it is, for frames.py: what it reads of the thread that calls is
 * held against what Python tells. */
#include "python/frames.h"

#include "cuda/objects.h"
#include "cuda/real.h"
#include "python/python_api.h"

#include <dlfcn.h>
#include <stdio.h>

/* The loader: all is there, and was from the beginning. */
void *real_dlsym(void *handle, const char *name) {
    return dlsym(handle, name);
}

unsigned long long objects_changes(void) {
    return 1;
}

bool learn(void) {
    return python_api() && py()->has_frames && frames_learn();
}

/* A line for each frame, innermost first. */
void frames(char *out, size_t capacity) {
    char name[64], long_name[128], file[512];
    size_t length = 0;
    out[0] = 0;
    for (uint64_t frame = frames_innermost(); frame && length < capacity;
         frame = frames_outer(frame)) {
        uint64_t code = frames_code(frame);
        if (!code)
            continue;
        frames_name(code, name, sizeof name);
        frames_file(code, file, sizeof file);
        frames_long_name(code, long_name, sizeof long_name);
        length += (size_t)snprintf(out + length, capacity - length, "%s %s %s %u\n", name,
                                   long_name, file, frames_line(code));
    }
}

uint64_t error(void) {
    return frames_error();
}
