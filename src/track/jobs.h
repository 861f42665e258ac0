/* jobs.h: what the program does between two rests, as one entry of the statistics file: a job. What
 * a job left is known only when the program rests, so no thread but vramgc's own can tell where one
 * ends. */
#pragma once

#include "track/device.h"

/* For vramgc's own thread, at each look. top_bytes: the highest that live memory was since the one
 * before, if it has fallen since; changed_ns: when a block event was last seen to have come. */
void jobs_look(struct device *device, uint64_t top_bytes, uint64_t changed_ns, uint64_t now);

/* The program ends, and with it what it was at. For the thread that has stopped that one. */
void jobs_conclude(void);
