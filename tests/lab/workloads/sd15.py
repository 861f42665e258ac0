"""Stable Diffusion 1.5 as a web UI uses it: ten jobs of mixed sizes and batches, two-pass high
resolution, a LoRA loaded and unloaded between jobs, images decoded one by one."""

import models
import torch

STEPS = 3  # memory repeats itself from the second step on
LORA_RANK = 32

# width, height, batch, factor of the second pass or None
JOBS = [
    (512, 512, 1, None),
    (512, 768, 1, None),
    (512, 512, 4, None),
    (768, 512, 1, 2.0),
    (640, 640, 2, None),
    (512, 768, 1, 1.5),
    (960, 544, 1, None),
    (512, 512, 8, None),
    (704, 512, 1, 2.0),
    (512, 512, 1, None),
]
LORA_BEFORE, LORA_AFTER = 3, 6


def encode(pipe, batch):
    def embed():
        return pipe.text_encoder(models.tokens(77))[0].repeat(batch, 1, 1)

    return {"prompt_embeds": embed(), "negative_prompt_embeds": embed()}


def second_pass_size(width, height, factor):
    return int(width * factor) // 64 * 64, int(height * factor) // 64 * 64


@torch.no_grad()
def generate(pipe, session, width, height, batch, factor):
    prompt = encode(pipe, batch)
    session.stage()
    sample = {"num_inference_steps": STEPS, "output_type": "latent"}
    latents = pipe(**prompt, **sample, width=width, height=height).images
    session.stage()
    if factor:
        width, height = second_pass_size(width, height, factor)
        latents = torch.nn.functional.interpolate(latents, size=(height // 8, width // 8))
        session.stage()
        latents = pipe(**prompt, **sample, width=width, height=height, latents=latents).images
        session.stage()
    decode(pipe.vae, latents, session)
    session.stage()


def decode(vae, latents, session):
    for i in range(latents.shape[0]):
        image = vae.decode(latents[i : i + 1]).sample
        image = image.cpu()
        session.output(image)


def run(session):
    pipe = models.sd15().to("cuda")
    session.stage()
    session.job("loaded")
    for number, (width, height, batch, factor) in enumerate(JOBS):
        if number == LORA_BEFORE:
            pipe.load_lora_weights(
                models.lora_state(pipe.unet, "unet", LORA_RANK), adapter_name="style"
            )
        generate(pipe, session, width, height, batch, factor)
        if number == LORA_AFTER:
            pipe.unload_lora_weights()
            session.stage()
        session.job(f"{width}x{height} batch {batch}" + (f" hires {factor}" if factor else ""))
    return pipe
