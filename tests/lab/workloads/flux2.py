"""Flux.2: [klein], 4 billion parameters with a text encoder of 4, whole and by model offload; [dev], 32 with 24, by group
offload. Some jobs change an image that is given, which the VAE encodes first."""

import recent
import torch
from PIL import Image
from workloads import recent_placed as placed

STEPS = 4
LENGTH = 512  # tokens; the pipelines fill up to so many
KLEIN = {"vocabulary": 151000, "layers": (9, 18, 27)}
DEV = {"vocabulary": 131000, "layers": (3, 6, 9)}  # of 12; of 40 it is 10, 20 and 30

# width, height, images that are given
JOBS = [(1024, 1024, 0), (832, 1216, 1), (1024, 1024, 2), (1360, 768, 0)]


def encode(pipe, vocabulary, layers):
    states = placed.hidden_states(pipe.text_encoder, LENGTH, vocabulary)
    chosen = torch.stack([states[layer] for layer in layers], dim=1)
    return chosen.permute(0, 2, 1, 3).reshape(1, LENGTH, -1)


@torch.no_grad()
def jobs(pipe, session, kind, steps=STEPS):
    session.job("loaded")
    for width, height, given in JOBS:
        made = pipe(
            image=[Image.new("RGB", (1024, 1024))] * given or None,
            prompt_embeds=encode(pipe, **kind),
            width=width,
            height=height,
            num_inference_steps=steps,
            output_type="pt",
        )
        placed.to_host(session, made.images)
        del made
        session.job(f"{width}x{height}, {given} given")
    return pipe


def whole(session):
    """With the text encoder's weights in 8 bits, for 16 GiB."""
    return jobs(placed.whole(recent.flux2_klein(fp8=True)), session, KLEIN)


def by_model(session):
    return jobs(placed.one_model(recent.flux2_klein()), session, KLEIN)


def by_group(session):
    """With fewer layers, for moving them is what takes time: 16 of 56, and 12 of the text encoder's 40."""
    pipe = placed.groups(recent.flux2_dev(double=4, single=12, encoder=12))
    return jobs(pipe, session, DEV, steps=2)
