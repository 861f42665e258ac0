/* text_encoder.h: what text encoders have of the card while another part of the work runs out of
 * memory. It knows them only as models of the transformers library: most that a web UI has are
 * text encoders, and it is said so. */
#ifndef TEXT_ENCODER_H
#define TEXT_ENCODER_H

#include "cli/cause.h"

/* Live memory of models of the transformers library, where the refused request was of denoising or
 * of the VAE and would have fitted without them; 0: not so, or not known. */
uint64_t text_encoder_bytes(const struct oom *oom);

#endif
