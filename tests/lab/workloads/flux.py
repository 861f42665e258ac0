"""FLUX.1 in bfloat16: T5-XXL, the 12-billion transformer and the VAE take turns on the device;
from the second job on with a LoRA. The transformer alone needs 22.2 GiB, so a 24 GiB card has
just room for it."""

import models
import torch

STEPS = 2
LORA_RANK = 16

# width, height, length of the prompt in T5 tokens
JOBS = [(1024, 1024, 512), (832, 1216, 256), (1024, 1024, 128), (1344, 768, 512)]
LORA_BEFORE = 1


def encode(pipe, session, length):
    pipe.text_encoder.to("cuda")
    pipe.text_encoder_2.to("cuda")
    pooled = pipe.text_encoder(models.tokens(77)).pooler_output
    embeds = pipe.text_encoder_2(models.tokens(length, vocabulary=32000, end=1))[0]
    session.stage()
    pipe.text_encoder.to("cpu")
    pipe.text_encoder_2.to("cpu")
    session.stage()
    return {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}


def sample(pipe, session, prompt, width, height):
    pipe.transformer.to("cuda")
    session.stage()
    latents = pipe(
        **prompt, width=width, height=height, num_inference_steps=STEPS, output_type="latent"
    ).images
    session.stage()
    pipe.transformer.to("cpu")
    session.stage()
    return latents


def decode(pipe, session, latents, width, height):
    pipe.vae.to("cuda")
    latents = pipe._unpack_latents(latents, height, width, pipe.vae_scale_factor)
    image = pipe.vae.decode(latents).sample
    image = image.cpu()
    session.output(image)
    pipe.vae.to("cpu")
    session.stage()


@torch.no_grad()
def run(session):
    pipe = models.flux()
    for number, (width, height, length) in enumerate(JOBS):
        prompt = encode(pipe, session, length)
        if number == LORA_BEFORE:
            pipe.load_lora_weights(
                models.lora_state(pipe.transformer, "transformer", LORA_RANK), adapter_name="style"
            )
        latents = sample(pipe, session, prompt, width, height)
        decode(pipe, session, latents, width, height)
        session.job(f"{width}x{height}" + (" LoRA" if number >= LORA_BEFORE else ""))
    return pipe
