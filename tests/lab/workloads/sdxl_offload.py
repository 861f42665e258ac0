"""SDXL with its parts moved to the device in turn, as web UIs do on small cards: text encoders,
UNet, VAE."""

import models
import torch
from workloads import sdxl
from workloads.sd15 import decode

# width, height, batch
JOBS = [
    (1024, 1024, 1),
    (832, 1216, 1),
    (1024, 1024, 2),
    (1216, 832, 1),
    (768, 1344, 1),
    (1024, 1024, 1),
]


def move(parts, device):
    for part in parts:
        part.to(device)


@torch.no_grad()
def generate(pipe, session, width, height, batch):
    encoders = (pipe.text_encoder, pipe.text_encoder_2)
    move(encoders, "cuda")
    prompt = sdxl.encode(pipe, batch)
    move(encoders, "cpu")
    session.stage()
    # diffusers' own hook brings the UNet to the device when it is first called and leaves it
    # there.
    latents = sdxl.sample(pipe, prompt, width, height)
    session.stage()
    pipe.unet.to("cpu")
    session.stage()
    pipe.vae.to("cuda")
    decode(pipe.vae, latents, session)
    pipe.vae.to("cpu")
    session.stage()


def run(session):
    pipe = models.sdxl()
    pipe.enable_model_cpu_offload(device="cuda")
    for width, height, batch in JOBS:
        generate(pipe, session, width, height, batch)
        session.job(f"{width}x{height} batch {batch}")
    return pipe
