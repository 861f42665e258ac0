/* start.h: when recording begins and ends. Until it begins only calls, contexts, streams and
 * captures are noted.
 *
 *     ASLEEP --first use of CUDA--> ON --end of the process--> the file is complete
 *        '--VRAMGC_MODE=off--> INERT <--in a forked child-- ON
 *
 * The invariant: a process that does not use CUDA has no file, no thread of ours, and no message.
 */
#pragma once

#include "base/base.h"

/* Begins recording if this is the first use of CUDA. Whether recording is on. */
bool start_recording(void);

/* The same before a call has succeeded: begins only where this thread has a context, for a process
 * without a usable device shall stay silent. */
bool start_recording_in_context(void);

/* cuInit succeeded: nothing is written yet, but settings are read, and PyTorch's allocator is
 * given expandable segments if nobody chose for or against them. */
void start_at_cuda_init(void);

/* The settings hold from now on, if no cuInit was seen yet: NVML may be asked before. */
void start_read_settings(void);

/* A device was reset, or its primary context released for the last time: what was recorded of it
 * does not exist any more. */
void reset_device(unsigned device);
void reset_primary_gone(unsigned device);
