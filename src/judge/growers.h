/* growers.h: with whom most of what grows stays. */
#pragma once

#include "base/text.h"
#include "vramgc_format.h"

/* Where so much was added in the run: "; most comes from encode_prompt (pipeline.py:212), text
 * encode"; of several functions the phase or the file that they share; else nothing. */
void growers_say(struct text *text, const struct vramgc_file *file,
                 const struct vramgc_device *device, uint64_t grown_bytes);

/* Most of it is of models and LoRAs that are brought to the card. */
bool growers_load(const struct vramgc_file *file, const struct vramgc_device *device,
                  uint64_t grown_bytes);
