"""SDXL: ten jobs of mixed sizes; a LoRA is loaded before the third, fused into the weights before
the sixth, and unloaded."""

import models
import torch
from workloads.sd15 import decode, second_pass_size

STEPS = 3
LORA_RANK = 64

# width, height, batch, factor of the second pass or None
JOBS = [
    (1024, 1024, 1, None),
    (832, 1216, 1, None),
    (1024, 1024, 2, None),
    (1216, 832, 1, None),
    (768, 1344, 1, None),
    (1024, 1024, 1, 1.5),
    (896, 1152, 2, None),
    (1024, 1024, 1, None),
    (1344, 768, 1, 1.25),
    (1024, 1024, 4, None),
]
LORA_BEFORE, FUSE_BEFORE = 2, 5


def encode(pipe, batch):
    small = pipe.text_encoder(models.tokens(77), output_hidden_states=True).hidden_states[-2]
    big = pipe.text_encoder_2(models.tokens(77), output_hidden_states=True)
    embeds = torch.cat([small, big.hidden_states[-2]], -1).repeat(batch, 1, 1)
    pooled = big.text_embeds.repeat(batch, 1)
    return {
        "prompt_embeds": embeds,
        "negative_prompt_embeds": embeds.clone(),
        "pooled_prompt_embeds": pooled,
        "negative_pooled_prompt_embeds": pooled.clone(),
    }


def sample(pipe, prompt, width, height, latents=None):
    return pipe(
        **prompt,
        width=width,
        height=height,
        latents=latents,
        num_inference_steps=STEPS,
        output_type="latent",
    ).images


@torch.no_grad()
def generate(pipe, session, width, height, batch, factor):
    prompt = encode(pipe, batch)
    session.stage()
    latents = sample(pipe, prompt, width, height)
    session.stage()
    if factor:
        width, height = second_pass_size(width, height, factor)
        latents = torch.nn.functional.interpolate(latents, size=(height // 8, width // 8))
        latents = sample(pipe, prompt, width, height, latents)
        session.stage()
    decode(pipe.vae, latents, session)
    session.stage()


def change_lora(pipe, session, number):
    if number == LORA_BEFORE:
        pipe.load_lora_weights(
            models.lora_state(pipe.unet, "unet", LORA_RANK), adapter_name="style"
        )
        session.job("LoRA loaded")
    if number == FUSE_BEFORE:
        pipe.fuse_lora()
        pipe.unload_lora_weights()
        session.stage()
        session.job("LoRA fused and unloaded")


def run(session):
    pipe = models.sdxl().to("cuda")
    session.stage()
    session.job("loaded")
    for number, (width, height, batch, factor) in enumerate(JOBS):
        change_lora(pipe, session, number)
        generate(pipe, session, width, height, batch, factor)
        session.job(f"{width}x{height} batch {batch}" + (f" hires {factor}" if factor else ""))
    return pipe
