"""Wan 2.2: video by the model of 5 billion parameters, whole and by model offload, and by the two of 14 billion, by group
offload. The VAE decodes frame after frame and keeps of each what the next needs."""

import recent
from workloads import recent_placed as placed

STEPS = 3
LENGTH = 512  # tokens; the pipeline fills up to so many

# width, height, frames
SMALL = [(832, 480, 33), (480, 832, 49)]
LARGE = [(1280, 704, 49), (832, 480, 81)]


def encode(pipe):
    return placed.hidden_states(pipe.text_encoder, LENGTH, 256000)[-1]


def prompts(pipe):
    return {"prompt_embeds": encode(pipe), "negative_prompt_embeds": encode(pipe)}


def tiled(pipe):
    pipe.vae.enable_tiling()
    return pipe


def jobs(pipe, session, todo):
    return placed.videos(pipe, session, prompts, todo, STEPS)


def whole(session):
    """With weights in 8 bits, for 16 GiB."""
    return jobs(tiled(placed.whole(recent.wan22_5b(fp8=True))), session, SMALL)


def by_model(session):
    return jobs(tiled(placed.one_model(recent.wan22_5b())), session, LARGE)


def by_group(session):
    """With 20 of 40 layers, for moving them is what takes time."""
    return jobs(placed.groups(recent.wan22_14b(num_layers=20)), session, SMALL)
