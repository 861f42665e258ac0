/* standards.h: figures that hold for every program, so that nobody has to set them, each with its
 * basis. What a user may well want otherwise is a setting instead (options.def). */
#pragma once

#include "base/base.h"

/* The program rests: nothing was allocated or freed for so long. Half of what a person takes for at
 * once, so that what it gives back is seen to go with the click that ended the work. The parts of
 * it that policy/policy.h names were measured. */
#define REST_NS (50 * MILLISECOND_NS)

/* The timeline's first step, and the longest pause between two looks while the program works: what
 * a person takes for at once. All 1024 points are full after 1 m 42 s; then the step doubles. */
#define SAMPLE_NS (100 * MILLISECOND_NS)

/* A reclaim of less is not made. One took ComfyUI 40 to 70 ms; most of PyTorch's small segments
 * have 20 MiB, and of these it would take the next one at once. */
#define MIN_GAIN_BYTES (32 * MEBIBYTE)

/* The next reclaim comes once use fell so far below the threshold, or idle memory grew as much: 0.4
 * GiB of 8, a dozen of the least gain. Chosen. */
#define HYSTERESIS_PERCENT 5

/* Of VRAMGC_RECORD: 2 million block events, of which the latest million at least are whole. */
#define RECORD_BYTES (16 * MEBIBYTE)

/* Statistics files that are older go: as long as systemd-tmpfiles keeps what is in /var/tmp. */
#define KEEP_FOR_NS (30 * 24 * 3600 * SECOND_NS)
