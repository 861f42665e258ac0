"""Z-Image Turbo, 6 billion parameters with a text encoder of 4: five jobs, one of them of two images."""

import recent
import torch
from workloads import recent_placed as placed

STEPS = 5

# width, height, images, tokens of the prompt
JOBS = [(1024, 1024, 1, 60), (832, 1216, 1, 210), (1280, 720, 1, 35), (1024, 1024, 2, 120), (1536, 1024, 1, 320)]


def generate(pipe, session, width, height, images, length):
    states = placed.hidden_states(pipe.text_encoder, length, 151000)[-2]
    made = pipe(
        prompt_embeds=[states[0]],
        negative_prompt_embeds=[],
        guidance_scale=0.0,
        width=width,
        height=height,
        num_images_per_prompt=images,
        num_inference_steps=STEPS,
        output_type="pt",
    )
    placed.to_host(session, made.images)


@torch.no_grad()
def jobs(pipe, session):
    session.job("loaded")
    for width, height, images, length in JOBS:
        generate(pipe, session, width, height, images, length)
        session.job(f"{width}x{height}, {images}")
    return pipe


def whole(session):
    """With weights in 8 bits, for 16 GiB."""
    return jobs(placed.whole(recent.zimage(fp8=True)), session)


def by_model(session):
    return jobs(placed.one_model(recent.zimage()), session)


def by_group(session):
    """The transformer's next block comes on a stream of its own while one works, from page-locked memory: so 6 layers of 30."""
    return jobs(placed.groups(recent.zimage(n_layers=6), use_stream=True), session)
