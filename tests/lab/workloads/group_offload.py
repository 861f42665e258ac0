"""SDXL with diffusers' group offload by leaves: each layer comes to the device for its own call and
leaves it again; PyTorch keeps the memory."""

import models
import torch
from workloads import sdxl
from workloads.sd15 import decode

# width, height, batch
JOBS = [(1024, 1024, 1), (832, 1216, 1), (1216, 832, 1), (1024, 1024, 1)]


@torch.no_grad()
def run(session):
    pipe = models.sdxl()
    pipe.enable_group_offload(
        onload_device=torch.device("cuda"),
        offload_device=torch.device("cpu"),
        offload_type="leaf_level",
    )
    for width, height, batch in JOBS:
        prompt = sdxl.encode(pipe, batch)
        latents = sdxl.sample(pipe, prompt, width, height)
        decode(pipe.vae, latents, session)
        session.job(f"{width}x{height} batch {batch}")
    return pipe
