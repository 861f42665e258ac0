/* text_encoder.h: what text encoders have of the card while another part of the work runs out of
 * memory. It knows them only as models of the transformers library: most that a web UI has are
 * text encoders, and it is said so. */
#pragma once

#include "judge/cause.h"

/* bytes: live memory of models of the transformers library, where the refused request was of
 * denoising or of the VAE and would have fitted without them; 0: not so, or not known. work: which
 * of both asked, in words. */
struct text_encoder {
    uint64_t bytes;
    const char *work;
};
struct text_encoder text_encoder_of(const struct oom *oom);
