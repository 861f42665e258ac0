/* recording.c: see recording.h. */
#include "track/recording.h"

atomic_int recording_state;
