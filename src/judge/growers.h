/* growers.h: with whom most of what grows stays. */
#pragma once

#include "base/text.h"
#include "vramgc_format.h"

/* Where so much was added in the run: "; most comes from encode_prompt (pipeline.py:212), text
 * encode"; of several functions the phase or the file that they share; else nothing. */
void growers_say(struct text *text, const struct vramgc_file *file,
                 const struct vramgc_device *device, uint64_t grown_bytes);

/* Who asked has most of what was live then, in tensors as large as the one that was refused: a loop
 * that keeps each. A model's weights are of many sizes. NULL: nobody. */
const struct vramgc_owner *growers_pile(const struct vramgc_file *file,
                                        const struct vramgc_device *device,
                                        const struct vramgc_refusal *refusal);
void growers_say_pile(struct text *text, const struct vramgc_file *file,
                      const struct vramgc_owner *pile);

/* Most of it is of models and LoRAs that are brought to the card. */
bool growers_load(const struct vramgc_file *file, const struct vramgc_device *device,
                  uint64_t grown_bytes);
