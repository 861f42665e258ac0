"""LTX: video by LTX-Video of 2 billion parameters, whole; by that of 13 billion, by model offload; and by LTX-2 of 19 billion,
which makes the sound, too, by group offload."""

import models
import recent
import torch
from workloads import recent_placed as placed

STEPS = 3

# width, height, frames
SMALL = [(768, 512, 97), (704, 480, 121), (512, 704, 65)]
LARGE = [(768, 512, 121), (1216, 704, 97), (704, 480, 161)]
SOUND = [(1920, 1088, 121), (768, 512, 121)]


def prompt(states, length):
    """The distilled models take no second prompt."""
    mask = torch.ones(1, length, dtype=torch.bool, device="cuda")
    return {"prompt_embeds": states, "prompt_attention_mask": mask}


def by_t5(pipe, length=256):
    ids = models.tokens(length, vocabulary=32000, end=1)
    return prompt(pipe.text_encoder(ids)[0], length)


def by_gemma(pipe, length=1024):
    """What all layers said, in one tensor of 370 MiB."""
    states = placed.hidden_states(pipe.text_encoder, length, 262000)
    return prompt(torch.stack(states, dim=-1).flatten(2, 3), length)


def distilled(pipe, session, todo):
    pipe.vae.enable_tiling()
    return placed.videos(pipe, session, by_t5, todo, STEPS, guidance_scale=1.0, decode_timestep=0.05)


def whole(session):
    """With the text encoder's weights in 8 bits, for 16 GiB."""
    return distilled(placed.whole(recent.ltx_2b()), session, SMALL)


def by_model(session):
    """With the transformer's weights in 8 bits, for 16 GiB."""
    return distilled(placed.one_model(recent.ltx_13b()), session, LARGE)


def by_group(session):
    """With 24 of 48 layers, for moving them is what takes time. Without tiles: the VAE of LTX-2 cannot pad those at the edge of
    some sizes."""
    plain = {"guidance_scale": 1.0, "stg_scale": 0.0, "modality_scale": 1.0}
    sound = {f"audio_{name}": value for name, value in plain.items()}
    pipe = placed.groups(recent.ltx2(num_layers=24), num_blocks_per_group=4)
    return placed.videos(pipe, session, by_gemma, SOUND, STEPS, **plain, **sound)
