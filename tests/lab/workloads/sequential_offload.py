"""Stable Diffusion 1.5 with diffusers' enable_sequential_cpu_offload: each layer comes to the device
for its own call and leaves it again, and PyTorch's cache is emptied all the time."""

import models
import torch
from workloads.sd15 import STEPS, decode, encode

# width, height, batch
JOBS = [(512, 512, 1), (512, 768, 1), (768, 512, 2), (640, 640, 1), (512, 512, 4), (512, 512, 1)]


@torch.no_grad()
def run(session):
    pipe = models.sd15()
    pipe.enable_sequential_cpu_offload(device="cuda")
    for width, height, batch in JOBS:
        prompt = encode(pipe, batch)
        sample = {"num_inference_steps": STEPS, "output_type": "latent"}
        latents = pipe(**prompt, **sample, width=width, height=height).images
        decode(pipe.vae, latents, session)
        session.job(f"{width}x{height} batch {batch}")
    return pipe
